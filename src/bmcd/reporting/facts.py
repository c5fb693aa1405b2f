"""Everything a report says, worked out once: lists, comparisons, cut-offs. No words, no markup."""

from __future__ import annotations

import importlib.util
import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation import Comparison, Evaluation, ItemCounts, compare
from bmcd.evaluation.calibration import Calibration
from bmcd.evaluation.compare import check_fitted_to
from bmcd.evaluation.evaluate import POPULAR_SHARE
from bmcd.evaluation.metrics import popularity_order
from bmcd.models.bmcd import BMCD
from bmcd.prediction.answers import Options
from bmcd.prediction.predictor import DRAWS
from bmcd.prediction.top_k import Lists, check_k

OWN = "BMCD"
DEFAULT_K = (5, 10)
# Wanted hit rates that are offered.
WANTED = tuple(step / 20 for step in range(1, 20))
# A hit rate of fewer recommendations than this may be luck.
LEAST_KEPT = 30


class Step(NamedTuple):
    """What it takes to be right so often."""

    wanted: float
    cutoff: float
    n: int
    share: float
    hit_rate: float
    per_user: float
    """Recommendations that a user gets, on average over all users."""
    n_users: int
    """Users who get at least one."""


@dataclass(frozen=True, eq=False)
class View:
    """What is known for one k."""

    k: int
    lists: Lists
    items: ItemCounts
    """Of BMCD; without a test nothing is a hit."""
    comparison: Comparison | None
    steps: tuple[Step, ...]
    """Wanted hit rates that can be reached, from the first that is more than recommending everything gives."""
    best: Step | None
    """The highest hit rate that can be reached; None without a test or without hits."""

    @property
    def evaluation(self) -> Evaluation | None:
        """Of BMCD."""
        return None if self.comparison is None else self.comparison.entries[OWN].evaluation

    @property
    def calibration(self) -> Calibration:
        """Of BMCD; only with a test."""
        assert self.evaluation is not None
        assert self.evaluation.calibration is not None  # BMCD gives probabilities
        return self.evaluation.calibration

    @property
    def probability(self) -> NDArray[np.float64]:
        """Of every recommendation."""
        return self.lists.values["probability"][self.lists.items >= 0]


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a model, its clicks and the test."""

    model: BMCD
    clicks: Clicks
    test: Clicks | None
    views: tuple[View, ...]
    rivals: tuple[str, ...]
    default_rivals: bool
    n_popular: int

    @property
    def test_clicks(self) -> tuple[int, float, int]:
        """Fewest, mean and most test clicks of a user who has any."""
        assert self.test is not None
        counts = np.diff(self.test.matrix.indptr)
        counts = counts[counts > 0]
        return int(counts.min()), float(counts.mean()), int(counts.max())

    @property
    def chance(self) -> float:
        """The hit rate of items chosen at random among those that a user has not clicked."""
        assert self.test is not None
        own = {user: at for at, user in enumerate(self.clicks.users.tolist())}
        kept = np.zeros(self.clicks.n_users)
        kept[[own[user] for user in self.test.users.tolist()]] = np.diff(self.test.matrix.indptr)
        left = self.clicks.n_items - np.diff(self.clicks.matrix.indptr)
        return float((kept[left > 0] / left[left > 0]).mean())


def gather(
    model: BMCD,
    train: Clicks | None,
    test: Clicks | None,
    k: int | Iterable[int] | None,
    rivals: Mapping[str, Any] | None,
    *,
    n_popular: int | None,
    seed: int,
    n_threads: int | None,
    show: Any,
) -> Facts:
    """Work everything out; ``show`` is told which share is done."""
    clicks = _checked(model, train, test)
    ks = choose_k(model, k)
    popular = math.ceil(POPULAR_SHARE * clicks.n_items) if n_popular is None else operator.index(n_popular)
    if not 1 <= popular <= clicks.n_items:
        raise InputError(f"n_popular must be 1 to {clicks.n_items}, the number of items, but it is {n_popular}.")
    others = default_rivals() if rivals is None else dict(rivals)
    if OWN in others:
        raise InputError(f"a rival is called {OWN!r}, which is the model's own name here. Give it another.")
    models = {OWN: model, **others}
    views = []
    for at, one in enumerate(ks):
        lists = model._ask().lists_of_all(one, Options(DRAWS, n_threads, False))
        found = None
        if test is not None:
            found = compare(models, clicks, test, one, seed=seed, n_popular=popular, progress=False)
        views.append(_view(one, lists, clicks, popular, found))
        show((at + 1) / len(ks))
    names = tuple(others) if test is not None else ()
    return Facts(model, clicks, test, tuple(views), names, rivals is None, popular)


def default_rivals() -> dict[str, Any]:
    """The rivals that need no choice, with the settings they come with."""
    from bmcd import baselines

    found = {"Popularity": baselines.Popularity(), "ItemKNN": baselines.ItemKNN(), "EASE": baselines.EASE()}
    if importlib.util.find_spec("implicit"):
        found["ALS"] = baselines.ALS()
    return found


def choose_k(model: BMCD, k: int | Iterable[int] | None) -> list[int]:
    """The k to report, each once; by default 5 and 10, as far as there are items and, for counts, counted k."""
    most = int(model.clicks_.n_items - np.diff(model.clicks_.matrix.indptr).min())
    if most < 1:
        raise InputError("every user has clicked every item: there is nothing to recommend.")
    counted = model.draws_.problem.options["count_k"]
    if model.draws_.problem.options["distance"] == "footrule":
        counted = None
    if k is None:
        allowed = [one for one in (DEFAULT_K if counted is None else counted) if one <= most]
        if counted is not None and not allowed:
            raise InputError(
                f"this model has counted probabilities for k = {', '.join(map(str, counted)) or 'none'}, but at "
                f"most {most} items can be recommended. Fit again with a smaller count_k."
            )
        return sorted(set(allowed)) or [most]
    asked = [check_k(one) for one in (k if isinstance(k, Iterable) else [k])]
    if not asked:
        raise InputError("k is empty. Give at least one number, such as k=(5, 10).")
    if too_many := [one for one in asked if one > most]:
        raise InputError(
            f"k is {too_many[0]}, but no user has more than {most} items left to recommend "
            f"({model.clicks_.n_items} items, less those clicked). Give a smaller k."
        )
    return list(dict.fromkeys(asked))


def _checked(model: Any, train: Any, test: Any) -> Clicks:
    if not isinstance(model, BMCD):
        raise InputTypeError(f"a report is about a BMCD, not {type(model).__name__}; pass others as rivals.")
    if test is not None and not isinstance(test, Clicks):
        raise InputTypeError(f"test must be Clicks kept aside, or None, not {type(test).__name__}.")
    if train is not None and not isinstance(train, Clicks):
        raise InputTypeError(f"train must be the Clicks it was fitted to, or None, not {type(train).__name__}.")
    model._check_fitted()
    if model.clicks_.n_users == 0:
        raise InputError(
            "this model was saved without the clicks it was fitted to (clicks=False, or --no-clicks), so there is "
            "nobody to report on. Save it with its clicks."
        )
    if model.clicks_.n_users < 2:
        raise InputError("a report needs at least 2 users: intervals are over users.")
    if train is not None:
        check_fitted_to("the model", model, train)
        return train  # it may have titles that the model was not fitted with
    return model.clicks_


def _view(k: int, lists: Lists, clicks: Clicks, n_popular: int, found: Comparison | None) -> View:
    if found is None:
        counts = np.bincount(clicks.matrix.indices, minlength=clicks.n_items)
        ascending = popularity_order(counts)[::-1]
        shown = np.bincount(lists.items[lists.items >= 0], minlength=clicks.n_items)[ascending]
        items = ItemCounts(clicks.items[ascending], counts[ascending], shown, np.zeros_like(shown), n_popular)
        return View(k, lists, items, None, (), None)
    evaluation = found.entries[OWN].evaluation
    assert evaluation.calibration is not None
    steps, best = cut_steps(evaluation.calibration, lists)
    return View(k, lists, evaluation.items, found, steps, best)


def cut_steps(calibration: Calibration, lists: Lists) -> tuple[tuple[Step, ...], Step | None]:
    """What it takes to reach each of the wanted hit rates, and the highest that can be reached."""
    least = min(LEAST_KEPT, len(calibration.hit))
    if not calibration.hit.any():
        return (), None

    def step(wanted: float, cutoff: float) -> Step:
        kept = calibration.probability >= cutoff
        own = ((lists.values["probability"] >= cutoff) & (lists.items >= 0)).sum(axis=1)
        return Step(
            wanted,
            cutoff,
            int(kept.sum()),
            float(kept.mean()),
            float(calibration.hit[kept].mean()),
            float(own.mean()),
            int((own > 0).sum()),
        )

    # A cut-off can stand at any probability that is given, so long as enough are kept.
    cutoffs, n = np.unique(calibration.probability, return_counts=True)
    cutoffs = cutoffs[n[::-1].cumsum()[::-1] >= least]
    accuracy = calibration.cutoff_table(cutoffs)["accuracy"].to_numpy(np.float64)
    top = int(accuracy.argmax())
    best = step(float(accuracy[top]), float(cutoffs[top]))
    wanted = [rate for rate in WANTED if rate <= best.hit_rate]
    everything = [rate for rate in wanted if rate <= calibration.hit_rate]
    # Of the rates that all recommendations together reach, one is enough.
    wanted = wanted[max(len(everything) - 1, 0) :]
    return tuple(step(rate, calibration.cutoff_for(rate, min_kept=least)) for rate in wanted), best
