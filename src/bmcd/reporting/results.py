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
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.item_table import ItemTable
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import read_items
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation import Calibration, Comparison, Evaluation, Interval, ItemCounts, compare
from bmcd.evaluation.compare import check_fitted_to
from bmcd.evaluation.diversify import Diversity
from bmcd.evaluation.evaluate import count_popular
from bmcd.models.base import ProbabilityModel
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, sampled_models
from bmcd.models.tastes import Tastes
from bmcd.models.top_k import Lists, Truth, check_k, read_truth
from bmcd.reporting.changes import Changes, find_changes, read_models
from bmcd.reporting.example_users import ExampleUser, choose_example_users

# How many recommendations a report shows if it is not told.
DEFAULT_K = (5, 10)
# The hit rates among which the reader can choose.
WANTED_RATES = tuple(step / 20 for step in range(1, 20))
# The hit rate of fewer recommendations than this may be luck.
LEAST_KEPT = 30
# EASE needs an array of items x items: it is a default rival up to this number of items.
MOST_FOR_EASE = 6_000
# Users whose best items are in the page, to work out what rules for lists cost, and items of each.
RULED_USERS, CANDIDATES = 100, 200


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
    """How many recommendations a user gets, on average over the users of the test."""
    n_users: int
    """How many users get at least one."""
    of_users: int
    """How many users the test has."""


@dataclass(frozen=True, eq=False)
class ResultsForK:
    """What was found for one number of recommendations, k."""

    name: str
    """Of the model, among its rivals."""
    k: int
    lists: Lists
    """What the model recommends to each user of the report."""
    items: ItemCounts
    """How often the model recommends each item; without a test nothing is a hit."""
    comparison: Comparison | None = None
    """The model and its rivals; None without a test."""
    truth: Truth | None = None
    """What would have been a hit for each user of the report; None without a test."""
    cutoffs: tuple[Cutoff, ...] = ()
    """Those for the hit rates that can be reached, from the last that needs no cut-off on."""
    best_cutoff: Cutoff | None = None
    """That for the highest hit rate that can be reached; None without a test or without hits."""
    candidates: Lists | None = None
    """The best items of some users, more than k, from which list rules choose; None without groups of items."""

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

    def relevant(self, row: int) -> frozenset[int]:
        """Return the columns of the items that would have been a hit for a user; none without a test."""
        return frozenset() if self.truth is None else frozenset(self.truth.matrix[[row]].indices.tolist())

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
    """Those the model was fitted to."""
    people: Clicks
    """The users of the report and what they had clicked: those of the fit, or of the histories."""
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
    grouping: BMCD | Tastes | None = None
    """The model whose groups are shown: the one given, or the model itself, or the first member that has some."""
    changes: Changes | None = None
    """What changed since another model; None if there is only one."""
    table: ItemTable | None = None
    """Groups, links and pictures of items, if there are some."""
    diversity: Diversity | None = None
    """What `bmcd.diversify` found, if it was given."""

    @cached_property
    def titles(self) -> list[str]:
        """What each item is called: its title, or "item" and its id."""
        return [self.clicks.title_of(column) for column in range(self.clicks.n_items)]

    @property
    def others(self) -> tuple[str, ...]:
        """Names of all that the model is compared with: the models it is made of, then its rivals."""
        return (*self.parts.values(), *self.rivals)

    @property
    def test_clicks(self) -> NDArray[np.int64]:
        """The numbers of test clicks of the users who have any."""
        assert self.test is not None
        return self.test.per_user[self.test.per_user > 0]

    def chance(self, for_k: ResultsForK) -> float:
        """Return the hit rate of items chosen at random among those that a user has not clicked."""
        assert for_k.truth is not None
        left = self.people.n_items - (0 if repeats_of(self.model) else 1) * self.people.per_user
        some = for_k.truth.scored & (left > 0)
        return float((np.diff(for_k.truth.matrix.indptr)[some] / left[some]).mean())


def gather_results(
    model: Model | Mapping[str, Model],
    train: Clicks | None = None,
    test: Clicks | None = None,
    k: int | Iterable[int] | None = None,
    rivals: Mapping[str, Any] | None = None,
    users: Iterable[Any] | None = None,
    *,
    histories: Any = None,
    clusters: BMCD | Tastes | None = None,
    items: Any = None,
    diversity: Diversity | None = None,
    n_popular: int | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    show_share: Callable[[float], None] = lambda share: None,
) -> Results:
    """Return everything that a report tells; see `bmcd.report`. ``show_share`` is told which share is done."""
    model, older = read_models(model)
    clicks = _check_clicks(model, train, test)
    if older is not None and histories is not None:
        raise InputError("what changed is known of users of both models: give two models, or histories, not both.")
    people = clicks if histories is None else _check_people(clicks_of_histories(histories, clicks, "ignore"))
    grouping = _check_clusters(model, clusters, clicks)
    if items is not None:
        own = read_items(clicks, items).items_table
        clicks = clicks.with_items(own)
        people = people.with_items(own)
    ks = choose_k(model, people, test, k)
    popular = count_popular(n_popular, clicks.n_items)
    name, made_of = type(model).__name__, _parts(model, clicks)
    # A default rival that is also part of a blend would be the same method with worse settings.
    left_out = {type(part) for part in made_of.values()}
    usual, missing = default_rivals(clicks)
    usual = {key: rival for key, rival in usual.items() if type(rival) not in left_out}
    others, not_run = (usual, missing) if rivals is None else (dict(rivals), {})
    parts = {part: f"{part} alone" if part in (name, *others) else part for part in made_of}
    if name in others:
        raise InputError(f"a rival is called {name!r}, which is the model's own name here. Give it another.")
    models, by_k = {name: model, **{parts[part]: made_of[part] for part in parts}, **others}, []

    def candidates(number: int) -> Lists | None:
        """Return more than k items of users spread over all of them, if there are rules to choose from them."""
        if clicks.items_table is None or not clicks.items_table.groups:
            return None
        some = np.unique(np.linspace(0, people.n_users - 1, min(RULED_USERS, people.n_users)).round().astype(int))
        size, options = max(CANDIDATES, 2 * number), dict[str, Any](n_threads=n_threads, progress=False)
        if histories is None:
            return model.lists(size, people.users[some].tolist(), horizon=number, **options)
        return model.lists_for(people.of_users(some), size, horizon=number, **options)

    for number in ks:
        if histories is None:
            lists = model.lists(number, n_threads=n_threads, progress=False)
        else:
            lists = model.lists_for(people, number, n_threads=n_threads, progress=False)
        if test is None:
            item_counts = ItemCounts.of(clicks, lists.items[lists.items >= 0], np.array([], np.int64), popular)
            by_k.append(ResultsForK(name, number, lists, item_counts, candidates=candidates(number)))
        else:
            asked = None if histories is None else people
            compared = compare(
                models,
                clicks,
                test,
                number,
                histories=asked,
                repeats=repeats_of(model),
                seed=seed,
                n_popular=popular,
                progress=False,
            )
            evaluation = compared.entries[name].evaluation
            assert evaluation.calibration is not None  # these models give probabilities
            scored = people.rows_of(evaluation.users)
            of_scored = Lists(lists.items[scored], {what: of[scored] for what, of in lists.values.items()})
            cutoffs = choose_cutoffs(evaluation.calibration, of_scored)
            truth = read_truth(test, people, number, repeats=repeats_of(model))
            by_k.append(
                ResultsForK(name, number, lists, evaluation.items, compared, truth, *cutoffs, candidates(number))
            )
        show_share(len(by_k) / len(ks))
    examples = choose_example_users(model, grouping, people, [for_k.lists for for_k in by_k], users)
    is_default, changes = rivals is None, None
    if older is not None:
        now = {for_k.k: for_k.lists for for_k in by_k}
        changes = find_changes(older[:2], older[2], model, test, now, seed)
    named = (tuple(others), parts, is_default, not_run) if test is not None else ((), {}, is_default, {})
    return Results(
        model,
        clicks,
        people,
        test,
        tuple(by_k),
        *named,
        popular,
        examples,
        grouping,
        changes,
        clicks.items_table,
        diversity,
    )


def default_rivals(clicks: Clicks) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the rivals of a report that names none, with the settings they come with; and those not there, why.

    With order these are methods that look at it.
    """
    from bmcd import baselines

    rivals: dict[str, Any] = {"Popularity": baselines.Popularity()}
    if clicks.order is None:
        rivals["ItemKNN"] = baselines.ItemKNN()
    else:
        rivals |= {"Transitions": baselines.Transitions(), "SessionKNN": baselines.SessionKNN()}
    missing = {}
    if clicks.n_items <= MOST_FOR_EASE:
        rivals["EASE"] = baselines.EASE()
    else:
        missing["EASE"] = f"it needs an array of items x items, and there are {clicks.n_items:,} items"
    if clicks.order is None and importlib.util.find_spec("implicit"):
        rivals["ALS"] = baselines.ALS()
    elif clicks.order is None:
        missing["ALS"] = 'the package implicit is not installed (pip install "bmcd[baselines]")'
    return rivals, missing


def choose_k(model: Model, people: Clicks, test: Clicks | None, k: int | Iterable[int] | None) -> list[int]:
    """Return the k to report, each once; by default 5 and 10 as far as there are items and, in order, next clicks.

    A model with another distance than the footrule knows only the k that were counted in its fit.
    """
    clicks, options = people, {} if isinstance(model, Blend) else model.draws_.problem.options
    most = clicks.n_items - (0 if repeats_of(model) else int(clicks.per_user.min()))
    if most < 1:
        raise InputError("every user has clicked every item: there is nothing to recommend.")
    if k is None:
        only_counted = "count_k" in options and options["distance"] != "footrule"
        candidates = options["count_k"] if only_counted else DEFAULT_K
        n_next = _next_clicks(people, test, repeats_of(model))
        allowed = [number for number in candidates if number <= min(most, n_next or most)]
        if n_next is not None and not allowed and not only_counted:
            return [min(most, n_next)]
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
        users = float(lengths.mean()), int((lengths > 0).sum()), len(lengths)
        return Cutoff(wanted, probability, *numbers, *users)

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


def repeats_of(model: Model) -> bool:
    """Return whether clicked items stay candidates."""
    return isinstance(model, Blend) and bool(model.repeats)


def _next_clicks(people: Clicks, test: Clicks | None, repeats: bool) -> int | None:
    """Return how many next clicks most users of the test have; None if it has no order."""
    if test is None or read_truth(test, people, 1, repeats=repeats, fewer=True).horizon is None:
        return None
    return max(1, int(np.median(test.per_user[test.per_user > 0])))


def _parts(model: Model, clicks: Clicks) -> dict[str, Any]:
    """Return the models of a blend that can be asked alone: those that were fitted to all of the clicks."""
    if not isinstance(model, Blend):
        return {}
    whole = clicks.fingerprint()
    found = {name: getattr(part, "clicks_", None) for name, part in model.models_.items()}
    same = {name for name, own in found.items() if isinstance(own, Clicks) and own.fingerprint() == whole}
    return {name: part for name, part in model.models_.items() if name in same}


def _check_people(people: Clicks) -> Clicks:
    if people.n_users < 2:
        raise InputError("a report needs at least 2 users: intervals are over users. Give more histories.")
    return people


def _check_clusters(model: Model, clusters: BMCD | Tastes | None, clicks: Clicks) -> BMCD | Tastes | None:
    """Return the model whose groups are shown."""
    if clusters is None:
        return next(iter(sampled_models(model).values()), None)
    if not isinstance(clusters, BMCD | Tastes):
        raise InputTypeError(f"clusters must be a fitted BMCD or Tastes, not {type(clusters).__name__}.")
    known = set(clicks.items.tolist())
    if strange := [item for item in clusters.check_fitted().clicks_.items.tolist() if item not in known]:
        raise InputError(
            f"clusters was fitted to {len(strange):,} items that the model does not have, such as {strange[0]!r}. "
            "Fit it to the same clicks, or to some of their items (most_clicked)."
        )
    return clusters


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
