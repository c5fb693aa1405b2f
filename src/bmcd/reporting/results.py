"""Every number of a report, worked out once: lists, comparisons, cut-offs, example users. No words, no markup."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.blend.blend import Blend
from bmcd.clicks.item_pages import ItemPages, read_item_pages
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation import Calibration, Comparison, Evaluation, Interval, ItemCounts, compare
from bmcd.evaluation.compare import check_fitted_to
from bmcd.evaluation.evaluate import count_popular
from bmcd.models.base import ProbabilityModel
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, sampled_models
from bmcd.models.tastes import Tastes
from bmcd.prediction.top_k import Lists, check_k
from bmcd.reporting.changes import Changes, find_changes, read_models
from bmcd.reporting.example_users import ExampleUser, choose_example_users

# The name of the reported model beside its rivals.
DEFAULT_K = (5, 10)
# The hit rates among which the reader can choose.
WANTED_RATES = tuple(step / 20 for step in range(1, 20))
# The hit rate of fewer recommendations than this may be luck.
LEAST_KEPT = 30


class Cutoff(NamedTuple):
    """A least probability for recommendations, and what comes of it."""

    wanted: float
    """The hit rate it was chosen for."""
    probability: float
    n: int
    """How many recommendations are kept."""
    share: float
    """Their share of all recommendations."""
    hit_rate: float
    per_user: float
    """How many recommendations a user gets, on average over all users."""
    n_users: int
    """How many users get at least one."""


@dataclass(frozen=True, eq=False)
class ResultsForK:
    """What was found for one number of recommendations, k."""

    name: str
    """Of the model, among its rivals."""
    k: int
    lists: Lists
    """What the model recommends to each user."""
    items: ItemCounts
    """How often the model recommends each item; without a test nothing is a hit."""
    comparison: Comparison | None = None
    """The model and its rivals; None without a test."""
    cutoffs: tuple[Cutoff, ...] = ()
    """Those for the hit rates that can be reached, from the last that needs no cut-off on."""
    best_cutoff: Cutoff | None = None
    """That for the highest hit rate that can be reached; None without a test or without hits."""

    @property
    def tested(self) -> Comparison:
        """The comparison, where there is a test."""
        assert self.comparison is not None
        return self.comparison

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation of the model, where there is a test."""
        return self.tested.entries[self.name].evaluation

    @property
    def accuracy(self) -> Interval:
        """The accuracy of the model with its interval, where there is a test."""
        return self.tested.entries[self.name].intervals["accuracy"]

    @property
    def calibration(self) -> Calibration:
        """The calibration of the model, where there is a test."""
        assert self.evaluation.calibration is not None  # these models give probabilities
        return self.evaluation.calibration

    @property
    def rival_accuracies(self) -> dict[str, float]:
        """The accuracy of each rival, where there is a test."""
        entries = self.tested.entries.items()
        return {name: entry.evaluation.accuracy for name, entry in entries if name != self.name}

    @property
    def items_by_method(self) -> dict[str, ItemCounts]:
        """How often each item is recommended, by the model and, where there is a test, by each rival."""
        if self.comparison is None:
            return {self.name: self.items}
        return {name: entry.evaluation.items for name, entry in self.comparison.entries.items()}


@dataclass(frozen=True, eq=False)
class Results:
    """Everything that a report tells of a model, its clicks and the test."""

    model: Model
    clicks: Clicks
    test: Clicks | None
    by_k: tuple[ResultsForK, ...]
    rivals: tuple[str, ...]
    """Names of the rivals; none without a test."""
    parts: Mapping[str, str]
    """The models of a blend and what each is called among its rivals; none without a test."""
    rivals_are_default: bool
    not_run: Mapping[str, str]
    """Rivals that a report usually has and that were not run, with the reason."""
    n_popular: int
    examples: tuple[ExampleUser, ...]
    changes: Changes | None = None
    """What changed since another model; None if there is only one."""
    pages: ItemPages | None = None
    """Links and pictures of items, if there are some."""

    @cached_property
    def titles(self) -> list[str]:
        """What each item is called: its title, or "item" and its id."""
        return [self.clicks.title_of(column) for column in range(self.clicks.n_items)]

    @property
    def grouping(self) -> BMCD | Tastes | None:
        """The model whose groups are shown: itself, or the first of a blend that has some."""
        return next(iter(sampled_models(self.model).values()), None)

    @property
    def others(self) -> tuple[str, ...]:
        """Names of all that the model is compared with: the models it is made of, then its rivals."""
        return (*self.parts.values(), *self.rivals)

    @property
    def test_clicks(self) -> NDArray[np.int64]:
        """The numbers of test clicks of the users who have any."""
        assert self.test is not None
        return self.test.per_user[self.test.per_user > 0]

    @property
    def chance(self) -> float:
        """The hit rate of items chosen at random among those that a user has not clicked."""
        assert self.test is not None
        kept_aside = np.zeros(self.clicks.n_users)
        kept_aside[self.clicks.rows_of(self.test.users)] = self.test.per_user
        left = self.clicks.n_items - self.clicks.per_user
        return float((kept_aside[left > 0] / left[left > 0]).mean())


def gather_results(
    model: Model | Mapping[str, Model],
    train: Clicks | None = None,
    test: Clicks | None = None,
    k: int | Iterable[int] | None = None,
    rivals: Mapping[str, Any] | None = None,
    users: Iterable[Any] | None = None,
    *,
    items: Any = None,
    n_popular: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    show_share: Callable[[float], None] = lambda share: None,
) -> Results:
    """Return everything that a report tells; see `bmcd.report`. ``show_share`` is told which share is done."""
    model, older = read_models(model)
    clicks = _check_clicks(model, train, test)
    pages = None if items is None else read_item_pages(items, clicks)
    ks = choose_k(model, k)
    popular = count_popular(n_popular, clicks.n_items)
    name, made_of = type(model).__name__, dict(model.models_) if isinstance(model, Blend) else {}
    # A default rival that is also part of a blend would be the same method with worse settings.
    left_out = {type(part) for part in made_of.values()}
    usual, missing = default_rivals()
    usual = {key: rival for key, rival in usual.items() if type(rival) not in left_out}
    others, not_run = (usual, missing) if rivals is None else (dict(rivals), {})
    parts = {part: f"{part} alone" if part in (name, *others) else part for part in made_of}
    if name in others:
        raise InputError(f"a rival is called {name!r}, which is the model's own name here. Give it another.")
    models, by_k = {name: model, **{parts[part]: made_of[part] for part in parts}, **others}, []
    for number in ks:
        lists = model.lists(number, n_threads=n_threads, progress=False)
        if test is None:
            item_counts = ItemCounts.of(clicks, lists.items[lists.items >= 0], np.array([], np.int64), popular)
            by_k.append(ResultsForK(name, number, lists, item_counts))
        else:
            compared = compare(models, clicks, test, number, seed=seed, n_popular=popular, progress=False)
            evaluation = compared.entries[name].evaluation
            assert evaluation.calibration is not None  # these models give probabilities
            cutoffs = choose_cutoffs(evaluation.calibration, lists)
            by_k.append(ResultsForK(name, number, lists, evaluation.items, compared, *cutoffs))
        show_share(len(by_k) / len(ks))
    examples = choose_example_users(model, clicks, test, by_k[0].lists, users)
    is_default, changes = rivals is None, None
    if older is not None:
        now = {for_k.k: for_k.lists for for_k in by_k}
        changes = find_changes(older[:2], older[2], model, test, now, seed)
    named = (tuple(others), parts, is_default, not_run) if test is not None else ((), {}, is_default, {})
    return Results(model, clicks, test, tuple(by_k), *named, popular, examples, changes, pages)


def default_rivals() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the rivals of a report that names none, with the settings they come with; and those not there, why."""
    from bmcd import baselines

    rivals = {"Popularity": baselines.Popularity(), "ItemKNN": baselines.ItemKNN(), "EASE": baselines.EASE()}
    if importlib.util.find_spec("implicit"):
        return {**rivals, "ALS": baselines.ALS()}, {}
    return rivals, {"ALS": 'the package implicit is not installed (pip install "bmcd[baselines]")'}


def choose_k(model: Model, k: int | Iterable[int] | None) -> list[int]:
    """Return the k to report, each once; by default 5 and 10 as far as there are items.

    A model with another distance than the footrule knows only the k that were counted in its fit.
    """
    clicks, options = model.clicks_, {} if isinstance(model, Blend) else model.draws_.problem.options
    most = clicks.n_items - int(clicks.per_user.min())
    if most < 1:
        raise InputError("every user has clicked every item: there is nothing to recommend.")
    if k is None:
        only_counted = "count_k" in options and options["distance"] != "footrule"
        candidates = options["count_k"] if only_counted else DEFAULT_K
        allowed = [number for number in candidates if number <= most]
        if only_counted and not allowed:
            raise InputError(
                f"this model has counted probabilities for k = {', '.join(map(str, candidates)) or 'none'}, but at "
                f"most {most} items can be recommended. Fit again with a smaller count_k."
            )
        return sorted(set(allowed)) or [most]
    asked = [check_k(number) for number in (k if isinstance(k, Iterable) else [k])]
    if not asked:
        raise InputError("k is empty. Give at least one number, such as k=(5, 10).")
    if too_many := [number for number in asked if number > most]:
        raise InputError(
            f"k is {too_many[0]}, but no user has more than {most} items left to recommend "
            f"({clicks.n_items} items, less those clicked). Give a smaller k."
        )
    return list(dict.fromkeys(asked))


def choose_cutoffs(calibration: Calibration, lists: Lists) -> tuple[tuple[Cutoff, ...], Cutoff | None]:
    """Return the cut-off for each of the wanted hit rates, and that for the highest that can be reached."""
    least = min(LEAST_KEPT, len(calibration.hit))
    if not calibration.hit.any():
        return (), None

    def cut(wanted: float, probability: float) -> Cutoff:
        kept = calibration.probability >= probability
        lengths = ((lists.values["probability"] >= probability) & (lists.items >= 0)).sum(axis=1)
        numbers = (int(kept.sum()), float(kept.mean()), float(calibration.hit[kept].mean()))
        return Cutoff(wanted, probability, *numbers, float(lengths.mean()), int((lengths > 0).sum()))

    # Any probability that was given can be a cut-off, if it keeps enough recommendations.
    probabilities, n = np.unique(calibration.probability, return_counts=True)
    probabilities = probabilities[n[::-1].cumsum()[::-1] >= least]
    accuracy = calibration.cutoff_table(probabilities)["accuracy"].to_numpy(np.float64)
    top = int(accuracy.argmax())
    best = cut(float(accuracy[top]), float(probabilities[top]))
    rates = [rate for rate in WANTED_RATES if rate <= best.hit_rate]
    # Of the rates that all recommendations together reach, the highest is enough.
    first = max(sum(rate <= calibration.hit_rate for rate in rates) - 1, 0)
    return tuple(cut(rate, calibration.cutoff_for(rate, min_kept=least)) for rate in rates[first:]), best


def _check_clicks(model: Model, train: Clicks | None, test: Clicks | None) -> Clicks:
    """Return the clicks to report on; refuse what no report can be made of."""
    if not isinstance(model, ProbabilityModel):
        raise InputTypeError(
            f"a report is about BMCD, Tastes or Blend, not {type(model).__name__}: pass it as a rival."
        )
    for name, clicks, which in (("train", train, "it was fitted to"), ("test", test, "kept aside")):
        if clicks is not None and not isinstance(clicks, Clicks):
            raise InputTypeError(f"{name} must be the Clicks {which}, or None, not {type(clicks).__name__}.")
    known = model.check_fitted().clicks_
    if known.n_users == 0:
        raise InputError(
            "this model was saved without the clicks it was fitted to (clicks=False, or --no-clicks), so there is "
            "nobody to report on. Save it with its clicks."
        )
    if known.n_users < 2:
        raise InputError("a report needs at least 2 users: intervals are over users.")
    if train is None:
        return known
    check_fitted_to("the model", model, train)
    return train  # it may have titles that the model was not fitted with
