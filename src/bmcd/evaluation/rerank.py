"""rerank: the best lists that keep limits on exposure; trade_off: a ladder of such limits."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks, Library
from bmcd.errors import InputError
from bmcd.evaluation.compare import Comparison, compare
from bmcd.evaluation.diversify import diversity_price, price_table
from bmcd.evaluation.evaluate import Evaluation, evaluate
from bmcd.evaluation.exposure import (
    Bools,
    FlowProblem,
    Limit,
    Limits,
    Value,
    Weights,
    best_flow,
    explain_shortfall,
    graph_solvers,
    read_limits,
    read_weights,
    widest_coverage,
)
from bmcd.models.top_k import Lists, check_k, recommendation_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.simulation import Simulation


@dataclass(frozen=True, eq=False)
class ShownItems:
    """What some recommendations are worth, and how often they show each item.

    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0], [0, 1, 0]], items=["a", "b", "c"])
    >>> scores = [[0.0, 0.4, 0.3], [0.0, 0.5, 0.4], [0.2, 0.0, 0.1]]
    >>> reranking = bmcd.rerank(scores, k=1, clicks=clicks, value="probability", min_exposure=1)
    >>> reranking.before.exposure.tolist(), reranking.after.exposure.tolist()
    ([1, 2, 0], [1, 1, 1])
    >>> reranking.before.n_shown, reranking.after.coverage
    (2, 1.0)
    """

    total: float
    """Sum of the probabilities of all recommendations, the expected number of hits; or sum of their scores."""
    exposure: NDArray[np.int64]
    """[item]: the number of users to whom it is shown, in the order of the clicks."""

    @property
    def n_recommendations(self) -> int:
        """How many recommendations there are."""
        return int(self.exposure.sum())

    @property
    def n_shown(self) -> int:
        """How many different items are shown to somebody."""
        return int((self.exposure > 0).sum())

    @property
    def coverage(self) -> float:
        """`n_shown` over the number of items, as in `bmcd.evaluate`."""
        return self.n_shown / len(self.exposure)

    @property
    def gini(self) -> float:
        """Gini coefficient of the exposure: 0 if all items are shown equally often, near 1 if only one is shown.

        >>> ShownItems(1.0, np.array([5, 5])).gini, ShownItems(1.0, np.array([0, 0, 0, 8])).gini
        (0.0, 0.75)
        """
        n, total = len(self.exposure), self.n_recommendations
        steps = 2 * np.arange(1, n + 1) - n - 1
        return float((steps * np.sort(self.exposure)).sum() / (n * total)) if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers but those of single items, ready for JSON."""
        names = ("total", "n_recommendations", "n_shown", "coverage", "gini")
        ends = {"least_shown": int(self.exposure.min()), "most_shown": int(self.exposure.max())}
        return {name: getattr(self, name) for name in names} | ends


@dataclass(frozen=True, eq=False, repr=False)
class Reranking:
    """The result of `bmcd.rerank`; `print` it for the price.

    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0], [0, 1, 0]], items=["a", "b", "c"])
    >>> scores = [[0.0, 0.4, 0.3], [0.0, 0.5, 0.4], [0.2, 0.0, 0.1]]
    >>> reranking = bmcd.rerank(scores, k=1, clicks=clicks, value="probability", min_exposure=1)
    >>> round(reranking.price, 6), reranking.n_changed
    (0.1, 1)
    """

    recommendations: Any
    """The frame, with the columns of `recommend`."""
    k: int
    value: Value
    """What was summed: "probability" or "score"."""
    before: ShownItems
    """What the plain recommendations, those of `recommend`, show."""
    after: ShownItems
    """What these recommendations show."""
    limits: Limits
    """Floors, caps and the number of items asked for, as counts."""
    n_changed: int
    """Recommendations that are not among the plain ones."""
    n_users_changed: int
    """Users whose list has changed."""
    largest_error: float
    """How far rounding may have left `after.total` below the greatest total possible within the limits, at most."""
    clicks: Clicks
    candidates: int | None = None
    """From how many of the best items of each user it chose; None for all."""

    def group_exposure(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each group with limits: group, before, after, floor, cap."""
        import narwhals as nw

        if not (groups := self.limits.groups).names:
            raise InputError("there are no limits of groups: rerank(..., group=, min_group_exposure=...).")
        data: dict[str, Any] = {"group": list(groups.names)}
        data |= {"before": groups.shown(self.before.exposure), "after": groups.shown(self.after.exposure)}
        data |= {"floor": groups.low, "cap": groups.high}
        return nw.from_dict(data, backend=library or self.clicks.library).to_native()

    @property
    def price(self) -> float:
        """What is given up: expected hits (or sum of scores, without probabilities) before, minus those after."""
        # To the plain lists scores within 1e-6 are equal, so they can be that much worse than the best ones.
        return max(0.0, self.before.total - self.after.total)

    @property
    def price_per_item(self) -> float | None:
        """The price over the number of items gained, those shown to nobody before; None if none was gained."""
        gained = self.after.n_shown - self.before.n_shown
        return self.price / gained if gained > 0 else None

    def exposure(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each item: item, title (if there are any), before, after, floor, cap."""
        import narwhals as nw

        arrays = {"item": self.clicks.items, "title": self.clicks.titles}
        arrays |= {"before": self.before.exposure, "after": self.after.exposure}
        arrays |= {"floor": self.limits.low, "cap": self.limits.high}
        data = {name: array.tolist() for name, array in arrays.items() if array is not None}
        return nw.from_dict(data, backend=library or self.clicks.library).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON, without those of single users and items."""
        names = ("k", "value", "price", "price_per_item", "n_changed", "n_users_changed", "largest_error")
        numbers = {name: getattr(self, name) for name in names}
        return {**numbers, "before": self.before.to_dict(), "after": self.after.to_dict()}

    def __repr__(self) -> str:
        before, after = self.before.to_dict(), self.after.to_dict()
        what = "expected hits" if self.value == "probability" else "sum of scores"
        share = f" ({self.price / abs(self.before.total):.2%})" if self.before.total else ""
        each = "" if self.price_per_item is None else f", {self.price_per_item:,.4g} for each item gained"
        rows = [
            (what, "total", ",.2f"),
            ("items shown", "n_shown", ","),
            ("coverage", "coverage", ".4f"),
            ("least shown", "least_shown", ","),
            ("most shown", "most_shown", ","),
            ("Gini of exposure", "gini", ".4f"),
        ]
        return "\n".join(
            [
                f"Reranking({self.after.n_recommendations:,} recommendations to {self.clicks.n_users:,} users, "
                f"k={self.k})",
                f"  {'':<17}{'before':>12}{'after':>12}",
                *(f"  {label:<17}{before[name]:>12{form}}{after[name]:>12{form}}" for label, name, form in rows),
                f"  price: {self.price:,.2f} {what}{share}{each}",
                f"  ({self.n_changed:,} recommendations changed, of {self.n_users_changed:,} users)",
            ]
        )


def rerank(
    model: Any,
    k: int = 10,
    *,
    max_exposure: Limit | None = None,
    min_exposure: Limit | None = None,
    min_coverage: int | float | None = None,
    group: str | None = None,
    max_group_exposure: Limit | None = None,
    min_group_exposure: Limit | None = None,
    candidates: int | Literal["auto"] | None = "auto",
    clicks: Clicks | None = None,
    value: Value | None = None,
    **options: Any,
) -> Reranking:
    """Recommend k items to each user so that items are shown neither too seldom nor too often, at the least price.

    Of all recommendations that keep the limits, these have the greatest sum of probabilities, which is the expected
    number of hits. `price` in the result is what the limits cost. Each user gets k items, or as many as are
    unclicked. Limits that do not allow it are an `ExposureError`, which names the items to blame and how many
    recommendations are lacking.

    Parameters
    ----------
    model
        A fitted `BMCD`; or any fitted recommender, which is asked for the scores of all items by
        ``recommend(k=n_items)`` (or by ``probabilities(k)``, if it has that); or a users x items matrix of scores,
        with ``clicks``.
    k
        Recommendations for each user. For BMCD also the k of the probabilities.
    max_exposure, min_exposure
        To how many users an item may, and must, be shown. A whole number counts users; a float from 0.0 to 1.0 is a
        share of all users (so 1 is one user and 1.0 is all of them). It holds for every item; or a dict gives it
        for some, ``{"A13": 50, "A16": 0.1}``, and the others have no limit.
    min_coverage
        How many different items must be shown: a whole number, or a share of all items. They are chosen so that
        the price is least.
    group, max_group_exposure, min_group_exposure
        The column of the item table, by default the first one, and how many recommendations may, and must, be of
        each of its groups, of which an item may have one: whole numbers of recommendations, or shares of all of
        them; for all groups, or some, ``{"local": 0.2}``. Not together with min_coverage.
    candidates
        From how many of the best items of each user it chooses, and from as many of the items that have a floor.
        "auto": all items, up to two million pairs of users and items, and then 100. None: all.
    clicks
        With a matrix, or a recommender without ``clicks_``: the clicks it was fitted to.
    value
        With a matrix: "probability" if it has probabilities, by default "score".
    options
        Those of the model's ``recommend`` (for BMCD max_draws, n_threads, progress).

    Notes
    -----
    Where scores are equal, the items of the plain list stay if they can. The order of users and items changes
    nothing.

    Examples
    --------
    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0]], users=["ann", "bob"], items=["a", "b", "c"])
    >>> probability = [[0, 0.9, 0.1], [0, 0.6, 0.4]]
    >>> reranking = bmcd.rerank(probability, k=1, min_exposure={"c": 1}, clicks=clicks, value="probability")
    >>> reranking.recommendations[["user", "item"]].to_numpy().tolist()
    [['ann', 'b'], ['bob', 'c']]
    >>> reranking
    Reranking(2 recommendations to 2 users, k=1)
                             before       after
      expected hits            1.50        1.30
      items shown                 1           2
      coverage               0.3333      0.6667
      least shown                 0           0
      most shown                  2           1
      Gini of exposure       0.6667      0.3333
      price: 0.20 expected hits (13.33%), 0.2 for each item gained
      (1 recommendations changed, of 1 users)
    """
    graph_solvers()  # a missing package is reported before any work is done
    k = check_k(k)
    asked: dict[str, Any] = dict(max_exposure=max_exposure, min_exposure=min_exposure, min_coverage=min_coverage)
    asked |= dict(group=group, max_group_exposure=max_group_exposure, min_group_exposure=min_group_exposure)

    def lacking(clicks: Clicks, items: NDArray[np.int64]) -> Bools:
        due = int(np.minimum(clicks.n_items - clicks.per_user, k).sum())
        return read_limits(clicks, asked, due).lacking(items, clicks.n_users - clicks.per_item, k)

    return _reranked(read_weights(model, k, clicks, value, options, candidates, lacking), k, asked)


def _reranked(weights: Weights, k: int, asked: Mapping[str, Any]) -> Reranking:
    plain = weights.lists.items >= 0
    plain[:, k:] = False
    limits = read_limits(weights.clicks, asked, int(plain.sum()))
    chosen, error = plain, 0.0
    # Where the plain lists keep the limits they are the answer, down to the order of ties.
    if not limits.kept_by(_exposure(weights, plain)):
        chosen, error = _best_within(limits, weights, k, plain)
    before, after = (
        ShownItems(float(weights.score[mask].sum()), _exposure(weights, mask)) for mask in (plain, chosen)
    )
    changed = chosen & ~plain
    return Reranking(
        recommendations=_frame(weights, k, chosen),
        k=k,
        value=weights.value,
        before=before,
        after=after,
        limits=limits,
        n_changed=int(changed.sum()),
        n_users_changed=int(changed.any(axis=1).sum()),
        largest_error=error,
        clicks=weights.clicks,
        candidates=weights.candidates,
    )


def _exposure(weights: Weights, mask: Bools) -> NDArray[np.int64]:
    """Return how often each item is shown."""
    return np.bincount(weights.lists.items[mask], minlength=weights.clicks.n_items).astype(np.int64)


def make_problem(weights: Weights, k: int, limits: Limits) -> tuple[FlowProblem, tuple[Any, ...]]:
    """Return the problem with users and items numbered by id, so that their order decides no tie.

    The second is where each pair of the problem stands in the weights.
    """
    user_rank, item_rank = (id_ranks(ids) for ids in (weights.clicks.users, weights.clicks.items))
    rows, places = np.nonzero(weights.lists.items >= 0)
    user, item = user_rank[rows], item_rank[weights.lists.items[rows, places]]
    order = np.lexsort((item, user))
    demand = np.zeros(len(user_rank), np.int64)
    demand[user_rank] = np.minimum((weights.lists.items >= 0).sum(axis=1), k)
    by_id = np.argsort(item_rank)
    groups = limits.groups._replace(of_item=limits.groups.of_item[by_id])
    by_id_limits = limits._replace(low=limits.low[by_id], high=limits.high[by_id], groups=groups)
    return FlowProblem(user[order], item[order], demand, by_id_limits), (rows[order], places[order])


def _best_within(limits: Limits, weights: Weights, k: int, plain: Bools) -> tuple[Bools, float]:
    problem, pairs = make_problem(weights, k, limits)
    solution = best_flow(problem, weights.score[pairs], plain[pairs])
    if solution is None:
        items = weights.clicks.items[np.argsort(id_ranks(weights.clicks.items))]
        found = explain_shortfall(problem, items, k)
        if weights.candidates is None:
            raise found
        said = f"{found} (Of the best {weights.candidates} items of each user: more with candidates=.)"
        raise type(found)(said, found.items, found.shortfall)
    chosen = np.zeros_like(plain)
    chosen[pairs], error = solution
    return chosen, error


def _frame(weights: Weights, k: int, chosen: Bools) -> Any:
    order = np.argsort(~chosen, axis=1, kind="stable")[:, :k]
    there = np.take_along_axis(chosen, order, axis=1)
    items = np.where(there, np.take_along_axis(weights.lists.items, order, axis=1), -1)
    values = {name: np.take_along_axis(of, order, axis=1) for name, of in weights.lists.values.items()}
    return recommendation_frame(weights.clicks.users, Lists(items, values), weights.clicks)


Ladder = Literal["min_coverage", "min_exposure", "max_exposure"]


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff:
    """One reranking for each rung of a ladder of limits; `print` it for the table, `plot` for the figure.

    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0], [0, 1, 0]], items=["a", "b", "c"])
    >>> scores = [[0.0, 0.4, 0.3], [0.0, 0.5, 0.4], [0.2, 0.0, 0.1]]
    >>> curve = bmcd.trade_off(scores, k=1, clicks=clicks, value="probability", min_exposure=[0, 1])
    >>> curve.to_frame()["items_shown"].tolist()
    [2, 3]
    """

    ladder: Ladder
    """Which limit changes from rung to rung."""
    rungs: tuple[Any, ...]
    """The limits, as they were given."""
    rerankings: tuple[Reranking, ...]
    """One for each rung."""
    evaluations: tuple[Evaluation, ...] | None
    """What `bmcd.evaluate` says of each reranking, if there were test clicks."""
    comparison: Comparison | None = None
    """The plain lists of the model beside those of the baselines, if there were any."""

    @property
    def against(self) -> Any:
        """What the model, without limits, gives up or gains against each baseline: a pandas frame, or None.

        Differences are the model minus the baseline, with intervals where there are any (coverage has none);
        nearly_equal says whether the two hit about as often, so that diversity is compared at the same price.
        """
        return None if self.comparison is None else price_table(diversity_price(self.comparison))

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each rung, ready for JSON."""
        rows: list[dict[str, Any]] = []
        price, n_shown = math.nan, sys.maxsize  # of the rung before
        for number, (rung, reranking) in enumerate(zip(self.rungs, self.rerankings, strict=True)):
            before, after = reranking.before.total, reranking.after
            gained = after.n_shown - n_shown
            row = {
                self.ladder: rung if isinstance(rung, int | float) else str(rung),
                "expected_hits" if reranking.value == "probability" else "score": after.total,
                "given_up": reranking.price,
                "given_up_share": reranking.price / abs(before) if before else 0.0,
                "items_shown": after.n_shown,
                "coverage": after.coverage,
                "price_per_item": (reranking.price - price) / gained if gained > 0 else None,
                "least_shown": int(after.exposure.min()),
                "most_shown": int(after.exposure.max()),
                "gini": after.gini,
            }
            if self.evaluations is not None:
                real = self.evaluations[number]
                row |= {"hits": real.n_hits, "accuracy": real.accuracy, "correct_coverage": real.correct_coverage}
            rows.append(row)
            price, n_shown = reranking.price, after.n_shown
        return rows

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each rung; docs/rerank.md says what the columns are."""
        import narwhals as nw

        rows = self.rows()
        # NaN instead of None, so that a column without any number is still one of floats.
        data = {name: [np.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(data, backend=library or self.rerankings[0].clicks.library).to_native()

    def plot(self, x: str | None = None) -> Figure:
        """Draw it, see `bmcd.plots.trade_off`."""
        from bmcd import plots

        return plots.trade_off(self, x)

    def __repr__(self) -> str:
        first = self.rerankings[0]
        title = f"TradeOff({len(self.rungs)} rungs of {self.ladder}, {first.clicks.n_users:,} users, k={first.k})"
        text = f"{title}\n{self.to_frame('pandas').to_string(index=False, float_format='{:,.4g}'.format)}"
        if self.comparison is None:
            return text
        plain = self.against.to_string(index=False, float_format="{:+,.4g}".format)
        return f"{text}\n{self.comparison.against} without limits, minus its rivals:\n{plain}"


def trade_off(
    model: Any,
    k: int = 10,
    *,
    min_coverage: Any = None,
    min_exposure: Any = None,
    max_exposure: Any = None,
    steps: int = 8,
    test: Clicks | Simulation | None = None,
    rivals: Mapping[str, Any] | None = None,
    clicks: Clicks | None = None,
    value: Value | None = None,
    **options: Any,
) -> TradeOff:
    """Rerank for a ladder of limits, and return how many expected hits each gain in coverage or evenness costs.

    One of the three limits is a list, the ladder; the others may be fixed limits, as in `rerank`. The model is
    asked once, and each rung is solved exactly.

    Parameters
    ----------
    model, k, clicks, value, options
        As in `rerank`.
    min_coverage, min_exposure, max_exposure
        A list of limits is the ladder. Without one, the ladder has ``steps`` rungs of min_coverage, from what the
        plain lists show to all that can be shown. If the plain lists show everything already, the rungs are of
        min_exposure, from 0 to nearly the largest floor that all items can have.
    test
        Held-out clicks, or the simulation: with it the table also has the real hits and the accuracy.
    rivals
        Other recommenders by name, fitted or not: `TradeOff.against` then says what the model gives up or gains
        against each of them in hits, coverage, novelty and rare items. It needs ``test``.

    Examples
    --------
    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> curve = bmcd.trade_off(
    ...     sim.true_probabilities(3), k=3, min_exposure=[0, 1, 2], clicks=sim.clicks, value="probability", test=sim
    ... )
    >>> curve.to_frame()[["min_exposure", "least_shown"]].to_numpy().tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    graph_solvers()
    k = check_k(k)
    if rivals and (test is None or not hasattr(model, "recommend")):
        raise InputError(
            "rivals need test=, the clicks on which they are compared, and a recommender, not a matrix."
        )
    limits: dict[str, Any] = dict(min_coverage=min_coverage, min_exposure=min_exposure, max_exposure=max_exposure)
    ladders = [name for name, one in limits.items() if isinstance(one, Iterable) and not hasattr(one, "items")]
    if len(ladders) > 1:
        raise InputError(f"only one limit can be a list, but there are {len(ladders)}: {', '.join(ladders)}.")
    if steps < 2:
        raise InputError(f"steps must be 2 or more, but it is {steps}.")
    weights = read_weights(model, k, clicks, value, options)
    ladder: Any
    rungs: list[Any]
    if ladders:
        ladder, rungs = ladders[0], list(limits[ladders[0]])
    else:
        ladder, rungs = _default_ladder(weights, k, limits, steps)
    if not rungs:
        raise InputError(f"{ladder} is an empty list: give at least one limit.")
    rerankings = tuple(_reranked(weights, k, {**limits, ladder: rung}) for rung in rungs)
    evaluations = None
    if test is not None:
        evaluations = tuple(evaluate(each.recommendations, weights.clicks, test, k=k) for each in rerankings)
    comparison = None
    if rivals and test is not None:
        comparison = compare({type(model).__name__: model, **rivals}, weights.clicks, test, k, progress=False)
    return TradeOff(ladder, tuple(rungs), rerankings, evaluations, comparison)


def _default_ladder(
    weights: Weights, k: int, limits: dict[str, Limit | None], steps: int
) -> tuple[Ladder, list[int]]:
    plain = _reranked(weights, k, limits)  # an error says why limits cannot be kept
    problem, _ = make_problem(weights, k, plain.limits)
    ladder: Ladder = "min_coverage"
    first, last = plain.after.n_shown, widest_coverage(problem)
    if first >= last or limits["min_coverage"] is not None:
        if limits["min_exposure"] is not None:
            said = "the plain lists show all items already: give a list of floors, min_exposure, or of caps."
            raise InputError(said)
        ladder, first = "min_exposure", 0
        last = min(int(problem.demand.sum()) // len(problem.n_users_of), int(problem.n_users_of.min()))
        no_scores = np.zeros(len(problem.user))
        while last > 0:
            floors = problem.limits._replace(low=np.full_like(problem.limits.low, last))
            possible = (floors.low <= floors.high).all()
            if possible and best_flow(problem._replace(limits=floors), no_scores, no_scores > 0):
                break
            last = last * 9 // 10
    return ladder, sorted({round(rung) for rung in np.linspace(first, last, steps)})
