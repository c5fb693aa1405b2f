"""Limits on how often items are shown, the value of showing them, and the lists of highest value within limits."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import column_names, columns
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.item_table import ItemGroups, group_numbers
from bmcd.clicks.log import Clicks
from bmcd.errors import ExposureError, InputError, InputTypeError
from bmcd.evaluation.metrics import read_lists
from bmcd.models.base import ProbabilityModel
from bmcd.models.list_rules import merged
from bmcd.models.top_k import best_items
from bmcd.utils import Floats, import_optional, listed, shown

Ints = NDArray[np.int64]
Limit = int | float | Mapping[Any, int | float]

# A share times a number of users may miss a whole number by a rounding error.
ROUNDING = 1e-9
# An item with a floor is a candidate of this many times as many users, where there are as many.
CHOICE = 3
# How many items a message names.
NAMED = 5


class GroupLimits(NamedTuple):
    """Floors and caps of groups of items, as numbers of recommendations."""

    names: tuple[str, ...]
    of_item: Ints
    """[item]: the number of its group, -1 without one."""
    low: Ints
    """[group]"""
    high: Ints
    """[group]"""

    def shown(self, exposure: Ints) -> Ints:
        """Return how many recommendations are of each group, given how often each item is shown."""
        inside = self.of_item >= 0
        counts = np.bincount(self.of_item[inside], weights=exposure[inside], minlength=len(self.names))
        return counts.astype(np.int64)


class Limits(NamedTuple):
    """What the recommendations must keep, items in the order of the clicks."""

    low: Ints
    """[item]: the floor, the least number of users to whom the item is shown."""
    high: Ints
    """[item]: the cap, the largest number of users to whom it is shown."""
    cover: int
    """The least number of different items shown."""
    groups: GroupLimits | None = None

    def lacking(self, items: Ints, possible: Ints, k: int) -> NDArray[np.bool_]:
        """Return which items with floors are candidates, [user, place], of so few users that there is no choice.

        ``possible`` is the number of users to whom each item may be shown. Items of a group that has a floor lack
        users while the group does.
        """
        found = np.bincount(items[items >= 0], minlength=len(self.low))
        own: NDArray[np.bool_] = found < np.minimum(CHOICE * self.low, possible)
        if self.groups is not None:
            of_item = np.append(self.groups.of_item, -1)[items]
            for g in np.flatnonzero(self.groups.low > 0).tolist():
                places = int(np.minimum((of_item == g).sum(axis=1), k).sum())
                short = (self.groups.of_item == g) & (found < possible)
                own |= short & (places < CHOICE * self.groups.low[g])
        return own

    def kept_by(self, exposure: Ints) -> bool:
        """Return whether items that are shown this often keep all limits."""
        within = (self.low <= exposure) & (exposure <= self.high)
        if self.groups is not None:
            shown = self.groups.shown(exposure)
            if (shown < self.groups.low).any() or (shown > self.groups.high).any():
                return False
        return bool(within.all()) and int((exposure > 0).sum()) >= self.cover


def read_limits(
    min_exposure: Limit | None, max_exposure: Limit | None, min_coverage: int | float | None, clicks: Clicks
) -> Limits:
    """Return floors and caps as numbers of users, and the number of items to show.

    >>> clicks = Clicks.from_matrix(np.eye(4), items=list("abcd"))
    >>> limits = read_limits({"b": 2}, 0.5, 0.75, clicks)
    >>> limits.low.tolist(), limits.high.tolist(), limits.cover
    ([0, 2, 0, 0], [2, 2, 2, 2], 3)
    """
    low = _of_items(min_exposure, "min_exposure", clicks, otherwise=0)
    high = np.minimum(_of_items(max_exposure, "max_exposure", clicks, otherwise=clicks.n_users), clicks.n_users)
    if (crossed := np.flatnonzero(low > high)).size:
        named = [f"item {shown(clicks.items[i])} ({low[i]:,} above {high[i]:,})" for i in crossed]
        raise ExposureError(
            f"the floor, min_exposure, is above the cap, max_exposure or the {clicks.n_users:,} users, of "
            f"{listed(named, NAMED)}.",
            clicks.items[crossed].tolist(),
            int((low - high)[crossed].sum()),
        )
    cover = 0 if min_coverage is None else _number(min_coverage, "min_coverage", clicks.n_items, "items", math.ceil)
    if cover > clicks.n_items:
        raise InputError(f"min_coverage asks for {cover:,} items, but there are {clicks.n_items:,}.")
    return Limits(low, high, cover)


def with_groups(
    limits: Limits, group: str | None, least: Limit | None, most: Limit | None, clicks: Clicks, due: int
) -> Limits:
    """Return limits with floors and caps of groups; ``due`` is the number of all recommendations."""
    if least is None and most is None:
        if group is not None:
            raise InputError("group goes with min_group_exposure or max_group_exposure.")
        return limits
    if limits.cover:
        raise InputError("min_coverage and limits of groups cannot be combined. Give floors to items instead.")
    if clicks.items_table is None:
        raise InputError("limits of groups need an item table: read_clicks(..., items='items.csv').")
    name, groups = clicks.items_table.grouping(group)
    lengths = np.diff(groups.starts)
    if (several := np.flatnonzero(lengths > 1)).size:
        item = int(several[0])
        raise InputError(
            f"limits of groups need items with one {name} at most, but {several.size:,} items have several, such "
            f"as item {shown(clicks.items[item])}: {listed(list(groups.of_item(item)))}."
        )
    of_item = np.full(clicks.n_items, -1, np.int64)
    of_item[lengths == 1] = groups.numbers
    low = _of_groups(least, "min_group_exposure", name, groups, due, 0)
    high = np.minimum(_of_groups(most, "max_group_exposure", name, groups, due, due), due)
    if (crossed := np.flatnonzero(low > high)).size:
        named = [f"{shown(groups.names[g])} ({low[g]:,} above {high[g]:,})" for g in crossed]
        raise ExposureError(
            f"the floor, min_group_exposure, is above the cap or the {due:,} recommendations in {name} "
            f"{listed(named, NAMED)}.",
            [groups.names[g] for g in crossed],
            int((low - high)[crossed].sum()),
        )
    return limits._replace(groups=GroupLimits(groups.names, of_item, low, high))


def _of_groups(limit: Limit | None, name: str, column: str, groups: ItemGroups, due: int, otherwise: int) -> Ints:
    round_off = math.ceil if name == "min_group_exposure" else math.floor
    counts = np.full(len(groups.names), otherwise, np.int64)
    if limit is not None and hasattr(limit, "items"):
        given = dict(limit.items())
        for g, (one, number) in zip(
            group_numbers(groups, list(given), f"{name} of {column}"), given.items(), strict=True
        ):
            counts[g] = _number(number, f"{name} of {shown(one)}", due, "recommendations", round_off)
    elif limit is not None:
        counts[:] = _number(limit, name, due, "recommendations", round_off)
    return counts


def _of_items(limit: Limit | None, name: str, clicks: Clicks, otherwise: int) -> Ints:
    # A floor is never rounded below the share asked for, a cap never above it.
    round_off = math.ceil if name == "min_exposure" else math.floor
    counts = np.full(clicks.n_items, otherwise, np.int64)
    if limit is not None and hasattr(limit, "items"):  # a dict, or a pandas Series
        given = dict(limit.items())
        columns = clicks.columns_of(given, f"{name} can name only items of the clicks.")
        for column, (item, number) in zip(columns, given.items(), strict=True):
            counts[column] = _number(number, f"{name} of item {shown(item)}", clicks.n_users, "users", round_off)
    elif limit is not None:
        counts[:] = _number(limit, name, clicks.n_users, "users", round_off)
    return counts


def _number(value: Any, name: str, total: int, what: str, round_off: Any) -> int:
    """Return a count: a whole number as it is, any other as a share of the total. So 1 and 1.0 differ."""
    hint = f"Give a whole number of {what}, such as 20, or a share of them between 0.0 and 1.0."
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        if int(value) < 0:
            raise InputError(f"{name} is {value}, which is below 0. {hint}")
        return int(value)
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        raise InputTypeError(f"{name} is {shown(value)}, which is not a number. {hint}")
    if not 0 <= float(value) <= 1:
        raise InputError(f"{name} is {value}, which is neither whole nor a share. {hint}")
    exact = float(value) * total
    return round(exact) if abs(exact - round(exact)) < ROUNDING * max(total, 1) else int(round_off(exact))


Bools = NDArray[np.bool_]
Value = Literal["probability", "score"]
# Larger arrays of users x items are refused: several of them are needed.
MOST_PAIRS = 2**28
# Of more pairs than this, the best items of each user are candidates, unless it is said otherwise.
ALL_PAIRS, CANDIDATES = 2_000_000, 100
# How often more users are looked for who may be shown items with floors.
ROUNDS = 8


class Weights(NamedTuple):
    """The items that may be shown to each user, in the plain order, and what each is worth."""

    clicks: Clicks
    value: Value
    """What the scores are, which is also the name of their column."""
    items: NDArray[np.int64]
    """[user, place]: columns of the clicks, best first, -1 where there are fewer; the first k are what `recommend`
    gives. Clicked items are not there."""
    score: Floats
    """[user, place]: what is summed, probability or score; 0 where there is no item."""
    more_columns: dict[str, Floats]
    """Other columns of the recommendations, such as the Monte Carlo standard error."""
    candidates: int | None = None
    """The number of items of each user, where these are not all."""


def read_weights(
    model: Any,
    k: int,
    clicks: Clicks | None,
    value: Value | None,
    options: dict[str, Any],
    candidates: int | Literal["auto"] | None = "auto",
    lacking: Callable[[Clicks, NDArray[np.int64]], Bools] | None = None,
) -> Weights:
    """Return the weights of a fitted recommender, or of a matrix with the clicks it was made from.

    With ``candidates`` they are those of that many items of each user, and of as many of the items that are
    ``lacking`` in them to reach floors, asked for again until enough users have them.
    """
    is_number = isinstance(candidates, int) and not isinstance(candidates, bool) and candidates >= k
    if not is_number and candidates not in ("auto", None):
        raise InputError(f"candidates must be a number of items, at least k, 'auto' or None, not {candidates!r}.")
    if value not in (None, "probability", "score"):
        raise InputError(f"value must be 'probability' or 'score', but it is {value!r}.")
    if not hasattr(model, "recommend"):
        if isinstance(model, type) or not isinstance(clicks, Clicks) or options:
            raise InputTypeError(
                "rerank takes a fitted recommender, or a users x items matrix of scores together with clicks=, the "
                f"Clicks they were made from (and no other options): not {shown(model)}."
            )
        return _of_matrix(model, clicks, value or "score")
    if value is not None:
        raise InputError("value is only for a matrix: a recommender itself says what it gives.")
    if isinstance(model, ProbabilityModel):
        own = model.clicks_with_users()
        if clicks is not None and clicks is not own and clicks != own:
            raise InputError("these are not the clicks the model was fitted to; leave clicks= out.")
        if (size := _size(candidates, own)) is not None:
            return _of_best(model, k, own, options, size, lacking)
        return _of_model(model, k, own, options)
    fitted_to = clicks if clicks is not None else getattr(model, "clicks_", None)
    if not isinstance(fitted_to, Clicks):
        raise InputTypeError(f"pass clicks=, the Clicks that the {type(model).__name__} was fitted to.")
    if hasattr(model, "probabilities"):
        return _of_matrix(model.probabilities(k, **options), fitted_to, "probability")
    return _of_rival(model, k, fitted_to, options)


def _size(candidates: int | Literal["auto"] | None, clicks: Clicks) -> int | None:
    """Return how many candidates each user has, None for all items."""
    if candidates == "auto":
        return None if clicks.n_users * clicks.n_items <= ALL_PAIRS else CANDIDATES
    return None if candidates is None or candidates >= clicks.n_items else candidates


def _of_best(
    model: ProbabilityModel, k: int, clicks: Clicks, options: dict[str, Any], size: int,
    lacking: Callable[[Clicks, NDArray[np.int64]], Bools] | None,
) -> Weights:  # fmt: skip
    """Return the weights of the best items of each user, and of the best of those that lack users."""
    lists = model.lists(max(size, k), horizon=k, **options)
    for _ in range(ROUNDS if lacking is not None else 0):
        assert lacking is not None
        if not (wanted := lacking(clicks, lists.items)).any():
            break
        more = model.lists(max(size, k), None, wanted, horizon=k, **options)
        lists = merged(lists, more, "probability")
    others = {name: of for name, of in lists.values.items() if name != "probability"}
    return Weights(clicks, "probability", lists.items, lists.values["probability"], others, size)


def _of_model(model: ProbabilityModel, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    if (size := clicks.n_users * clicks.n_items) > MOST_PAIRS:
        shape = f"all {clicks.n_users:,} users for all {clicks.n_items:,} items"
        raise InputError(
            f"rerank with candidates=None needs the probabilities of {shape}, which take "
            f"{size * 8 / 2**30:.1f} GiB several times. Leave candidates out, which takes the best 100 items "
            "of each user."
        )
    blocks = [predictions for _, predictions in model.prediction_blocks(k, **options)]
    probability, mcse, tie_breaker = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    return _weights(clicks, "probability", probability, tie_breaker, {"mcse": mcse})


def _of_matrix(matrix: Any, clicks: Clicks, value: Value) -> Weights:
    score = np.array(matrix, np.float64)
    if score.shape != clicks.matrix.shape:
        raise InputError(f"the scores are {score.shape}, but the clicks are {clicks.matrix.shape}, users x items.")
    _check_scores(score, ~clicks.matrix.toarray(), clicks, value)
    return _weights(clicks, value, score)


def _weights(
    clicks: Clicks,
    value: Value,
    score: Floats,
    tie_breaker: Floats | None = None,
    more_columns: dict[str, Floats] | None = None,
) -> Weights:
    available = ~np.asarray(clicks.matrix.toarray(), np.bool_)
    score = np.where(available, score, 0.0)
    order = best_items(score, available, clicks.n_items, id_ranks(clicks.items), tie_breaker)

    def placed(of: Floats) -> Floats:
        return np.where(order >= 0, np.take_along_axis(of, np.maximum(order, 0), axis=1), 0.0)

    return Weights(
        clicks, value, order, placed(score), {name: placed(of) for name, of in (more_columns or {}).items()}
    )


def _of_rival(model: Any, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    """Return the weights of all that a rival would recommend, in its own order."""
    frame = model.recommend(k=clicks.n_items, **options)
    value: Value = "probability" if "probability" in column_names(frame) else "score"
    lists = read_lists(frame, clicks)  # checks everything but the scores
    users, items, values = columns(frame, "user", "item", value)
    user, item = clicks.rows_of(users), clicks.columns_of(items)
    score, available = np.zeros(clicks.matrix.shape), np.zeros(clicks.matrix.shape, np.bool_)
    score[user, item], available[user, item] = values, True
    _check_scores(score, available, clicks, value)
    order = np.full(clicks.matrix.shape, -1, np.int64)
    order[lists.user, lists.rank - 1] = lists.item
    in_order = np.zeros(clicks.matrix.shape)
    in_order[lists.user, lists.rank - 1] = score[lists.user, lists.item]
    if value == "probability":
        first = read_lists(model.recommend(k=k, **options), clicks)
        if first.probability is None or np.abs(first.probability - score[first.user, first.item]).max() > 1e-6:
            raise InputError(
                f"the probabilities of {type(model).__name__} depend on k, so recommend cannot give those of all "
                "items. Give it a method probabilities(k), users x items, or pass that matrix and clicks."
            )
    return Weights(clicks, value, order, in_order, {})


def _check_scores(score: Floats, available: Bools, clicks: Clicks, value: Value) -> None:
    good, rule = np.isfinite(score), "finite"
    if value == "probability":
        good, rule = (score >= -1e-9) & (score <= 1 + 1e-9), "between 0 and 1"
    if (bad := np.argwhere(available & ~good)).size:
        user, item = bad[0]
        raise InputError(
            f"the {value} of user {shown(clicks.users[user])} and item {shown(clicks.items[item])} is "
            f"{score[user, item]}, and {len(bad) - 1:,} more are not {rule}."
        )


# Costs are whole numbers up to this. With many nodes they must be smaller, or the solver would exceed 64 bits: it
# multiplies costs by the number of nodes, and sums them along paths.
LARGEST_COST = 2**30
ROOM = 2**60
# An arc of the plain list is this many units cheaper, so that items that tie stay where they were, even where
# rounding has put them one unit apart.
STAY = 2


class FlowProblem(NamedTuple):
    """Who may be shown what, and within which limits; users and items are numbered in the order of their ids."""

    user: Ints
    """The user of each pair of a user and an item that may be shown, ascending."""
    item: Ints
    """Its item, ascending for each user."""
    demand: Ints
    """[user]: the number of recommendations due."""
    limits: Limits

    @property
    def n_users_of(self) -> Ints:
        """[item]: the number of users to whom it may be shown."""
        return np.bincount(self.item, minlength=len(self.limits.low)).astype(np.int64)


class Solution(NamedTuple):
    """What to show, and how far from the optimum it can be."""

    chosen: Bools
    """[pair]: whether the item is shown to the user."""
    largest_error: float
    """How far ties and rounding may have left the sum of the scores below the greatest one possible, at most."""


def graph_solvers() -> tuple[Any, Any]:
    """Return OR-tools' classes for maximum flow and minimum cost flow, or say how to install them."""
    max_flow, min_cost_flow = (
        import_optional(f"ortools.graph.python.{name}", needed_by="reranking", extra="rerank")
        for name in ("max_flow", "min_cost_flow")
    )
    return max_flow.SimpleMaxFlow, min_cost_flow.SimpleMinCostFlow


def best_flow(problem: FlowProblem, score: NDArray[np.float64], plain: Bools) -> Solution | None:
    """Return the recommendations with the greatest sum of scores within the limits; None if there are none.

    ``score`` and ``plain``, whether it is in the plain list, are of each pair.
    """
    # To the plain lists scores within 1e-6 are a tie, so an item left out can be better by that much. It counts as
    # equal here, or users whom no limit touches would get another list than without limits.
    best_left_out = np.full(len(problem.demand), -np.inf)
    np.maximum.at(best_left_out, problem.user[~plain], score[~plain])
    values = np.where(plain, np.maximum(score, best_left_out[problem.user]), score)
    least, span = (float(values.min()), float(np.ptp(values))) if values.size else (0.0, 0.0)
    n_nodes = len(problem.demand) + len(problem.limits.low) + 2
    n_nodes += 0 if problem.limits.groups is None else len(problem.limits.groups.names)
    most = min(LARGEST_COST, ROOM // n_nodes**2)
    unit = span / most if span > 0 else 1.0
    # Every list has the same length in all solutions, so subtracting a constant from all scores changes nothing.
    cost = -np.rint((values - least) / unit).astype(np.int64) - STAY * plain
    flow = _solve(problem, cost, np.zeros(len(problem.limits.low), np.int64))
    if flow is None:
        return None
    # Rounding moves each recommendation by half a unit, here and in the true optimum; STAY moves it by STAY units.
    by_rounding = int(problem.demand.sum()) * (1 + STAY) * unit if span > 0 else 0.0
    return Solution(flow > 0, by_rounding + float((values - score).sum()))


def widest_coverage(problem: FlowProblem) -> int:
    """Return the largest number of different items that floors and caps, which must be feasible, allow to show."""
    without = problem._replace(limits=problem.limits._replace(cover=0))
    flow = _solve(without, np.zeros(len(problem.user), np.int64), np.full(len(problem.limits.low), -1, np.int64))
    assert flow is not None
    return len(np.unique(problem.item[flow > 0]))


def _solve(problem: FlowProblem, cost: Ints, first_cost: Ints) -> Ints | None:
    """Return the cheapest flow, arc by arc, or None; `first_cost` is the cost of showing an item at all."""
    user, item, demand, (low, high, cover, groups) = problem
    n_users, n_items = len(demand), len(low)
    first = n_users + n_items
    n_groups = 0 if groups is None else len(groups.names)
    sink = first + 1 + n_groups
    has_floor = low > 0
    n_more_items = max(0, cover - int(has_floor.sum()))
    items = n_users + np.arange(n_items)
    once = np.where(has_floor | (n_groups > 0), 0, np.minimum(high, 1))
    # An arc that must carry at least so much has carried it already, from its end to its beginning.
    supply = np.zeros(sink + 1, np.int64)
    supply[:n_users] = demand
    supply[items] = -low
    supply[first] = -n_more_items
    after_item = np.full(n_items, sink)
    if groups is not None:
        inside = groups.of_item >= 0
        after_item[inside] = first + 1 + groups.of_item[inside]
        np.add.at(supply, after_item[inside], low[inside])
        supply[first + 1 : sink] -= groups.low
    supply[sink] = -int(supply[:sink].sum())
    if supply[sink] > 0:
        return None
    solver = graph_solvers()[1]()
    arcs = _add(solver, user, n_users + item, np.ones(len(user)), cost)
    _add(solver, items, np.full(n_items, first), once, first_cost)
    _add(solver, items, after_item, high - low - once, np.zeros(n_items))
    _add(solver, np.array([first]), np.array([sink]), np.array([n_items]), np.zeros(1))
    if groups is not None:
        nodes = first + 1 + np.arange(n_groups)
        _add(solver, nodes, np.full(n_groups, sink), groups.high - groups.low, np.zeros(n_groups))
    solver.set_nodes_supplies(np.arange(sink + 1, dtype=np.int32), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools' minimum cost flow ended with {status}.")
    return np.asarray(solver.flows(arcs), np.int64)


def _add(solver: Any, tails: Any, heads: Any, capacities: Any, costs: Any) -> Any:
    return solver.add_arcs_with_capacity_and_unit_cost(
        tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64), costs.astype(np.int64)
    )


Ids = NDArray[Any]


def explain_shortfall(problem: FlowProblem, items: Ids, k: int) -> ExposureError:
    """Return the error to raise for a problem without a solution; `items` are ids."""
    return (
        _single_floors(problem, items)
        or _totals(problem, items, k)
        or blame_floors(problem, items)
        or blame_caps(problem, items)
        or (_coverage(problem) if problem.limits.groups is None else _groups(problem, problem.limits.groups))
    )


def _single_floors(problem: FlowProblem, items: Ids) -> ExposureError | None:
    low, possible = problem.limits.low, problem.n_users_of
    if not (bad := np.flatnonzero(low > possible)).size:
        return None
    reasons = [
        f"item {shown(items[i])} should be shown to {low[i]:,} users, but only {possible[i]:,} have not clicked "
        f"it: {low[i] - possible[i]:,} too few"
        for i in bad[:NAMED]
    ]
    reasons += [f"and {len(bad) - NAMED:,} more items likewise"] if len(bad) > NAMED else []
    lacking = int((low - possible)[bad].sum())
    return ExposureError(f"{'; '.join(reasons)}. Lower min_exposure.", items[bad].tolist(), lacking)


def _totals(problem: FlowProblem, items: Ids, k: int) -> ExposureError | None:
    low, high = problem.limits.low, problem.limits.high
    n_users, due = len(problem.demand), int(problem.demand.sum())
    what = f"{n_users:,} users with k={k} get {due:,} recommendations"
    if (floors := int(low.sum())) > due:
        return ExposureError(
            f"the floors add up to {floors:,}, but {what}: {floors - due:,} too few. Lower min_exposure, by "
            f"{(floors - due) / max(int((low > 0).sum()), 1):,.1f} for each item that has a floor, or raise k.",
            items[low > 0].tolist(),
            floors - due,
        )
    if (places := int(np.minimum(high, problem.n_users_of).sum())) < due:
        return ExposureError(
            f"{what}, but the items may be shown only {places:,} times under their caps: {due - places:,} too few. "
            "Raise max_exposure, or lower k.",
            items.tolist(),
            due - places,
        )
    return None


def blame_floors(problem: FlowProblem, items: Ids) -> ExposureError | None:
    """Return an error that names items whose floors cannot be reached together, if there are any."""
    lacking, blamed = _cut(problem, problem.limits.low, sink_side=True)
    if not lacking:
        return None
    wanted = int(problem.limits.low[blamed].sum())
    return ExposureError(
        f"{_named(items[blamed])} should be shown {wanted:,} times together, but only {wanted - lacking:,} of the "
        f"places in users' lists can go to them, because of what the users have clicked: {lacking:,} too few. "
        "Lower their min_exposure, or raise k.",
        items[blamed].tolist(),
        lacking,
    )


def blame_caps(problem: FlowProblem, items: Ids) -> ExposureError | None:
    """Return an error that names items whose caps leave some users without enough recommendations, if any do."""
    lacking, blamed = _cut(problem, problem.limits.high, sink_side=False)
    if not lacking:
        return None
    places = int(problem.limits.high[blamed].sum())
    others = np.bincount(problem.user[~blamed[problem.item]], minlength=len(problem.demand))
    return ExposureError(
        f"{(problem.demand > others).sum():,} users have so few other items left that they need "
        f"{places + lacking:,} recommendations of {_named(items[blamed])}, but the caps allow only {places:,}: "
        f"{lacking:,} too few. Raise their max_exposure, or lower k.",
        items[blamed].tolist(),
        lacking,
    )


def _groups(problem: FlowProblem, groups: GroupLimits) -> ExposureError:
    """Return an error about groups: totals, single groups, then how far floors and caps can be kept together."""
    due = int(problem.demand.sum())
    if (floors := int(groups.low.sum())) > due:
        names = [f"{shown(groups.names[g])} {groups.low[g]:,}" for g in np.flatnonzero(groups.low > 0)]
        return ExposureError(
            f"the floors of groups add up to {floors:,} ({listed(names, NAMED)}), but there are {due:,} "
            f"recommendations: {floors - due:,} too few. Lower min_group_exposure.",
            [groups.names[g] for g in np.flatnonzero(groups.low > 0)],
            floors - due,
        )
    most = np.minimum(problem.limits.high, problem.n_users_of)
    own = groups.of_item[problem.item]
    per_user = np.zeros((len(problem.demand), len(groups.names) + 1), np.int64)
    np.add.at(per_user, (problem.user, own), 1)
    possible = np.minimum(np.minimum(per_user, problem.demand[:, None])[:, :-1].sum(axis=0), groups.shown(most))
    if (bad := np.flatnonzero(groups.low > possible)).size:
        g = int(bad[0])
        return ExposureError(
            f"{shown(groups.names[g])} should have {groups.low[g]:,} recommendations, but at most {possible[g]:,} "
            f"of the places in users' lists can go to it: {groups.low[g] - possible[g]:,} too few. Lower "
            "min_group_exposure.",
            [groups.names[g]],
            int(groups.low[g] - possible[g]),
        )
    without = int(most[groups.of_item < 0].sum())
    places = int(np.minimum(groups.high, groups.shown(most)).sum()) + without
    if places < due:
        capped = [f"{shown(groups.names[g])} {groups.high[g]:,}" for g in np.flatnonzero(groups.high < due)]
        return ExposureError(
            f"the caps of groups ({listed(capped, NAMED)}) allow {places:,} recommendations, but {due:,} are due: "
            f"{due - places:,} too few. Raise max_group_exposure, or lower k.",
            [groups.names[g] for g in np.flatnonzero(groups.high < due)],
            due - places,
        )
    floors_of = [f"{shown(groups.names[g])} at least {groups.low[g]:,}" for g in np.flatnonzero(groups.low > 0)]
    caps_of = [f"{shown(groups.names[g])} at most {groups.high[g]:,}" for g in np.flatnonzero(groups.high < due)]
    return ExposureError(
        f"the limits of items and groups ({listed([*floors_of, *caps_of], 2 * NAMED)}) cannot be kept together, "
        "because of what the users have clicked. Lower floors, or raise caps.",
        [groups.names[g] for g in np.flatnonzero((groups.low > 0) | (groups.high < due))],
        1,
    )


def _coverage(problem: FlowProblem) -> ExposureError:
    most, wanted = widest_coverage(problem), problem.limits.cover
    return ExposureError(
        f"min_coverage asks for {wanted:,} different items, but at most {most:,} can be shown within the limits: "
        f"{wanted - most:,} too few. Lower min_coverage.",
        [],
        wanted - most,
    )


def _cut(problem: FlowProblem, of_items: NDArray[np.int64], *, sink_side: bool) -> tuple[int, NDArray[np.bool_]]:
    """Return how far the greatest flow from users to items falls short, and which items a minimum cut blames.

    Of all minimum cuts it is the nearest, with the smallest set of items: seen from the sink, the items that need
    more; seen from the source, the full items of users who need more.
    """
    user, item, demand, _ = problem
    n_users, n_items = len(demand), len(of_items)
    source, sink = n_users + n_items, n_users + n_items + 1
    tails = np.concatenate([user, np.full(n_users, source), n_users + np.arange(n_items)])
    heads = np.concatenate([n_users + item, np.arange(n_users), np.full(n_items, sink)])
    capacities = np.concatenate([np.ones(len(user), np.int64), demand, of_items])
    solver = graph_solvers()[0]()
    solver.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64))
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools' maximum flow ended with {status}.")
    lacking = int(of_items.sum() if sink_side else demand.sum()) - int(solver.optimal_flow())
    nodes = solver.get_sink_side_min_cut() if sink_side else solver.get_source_side_min_cut()
    return lacking, np.isin(n_users + np.arange(n_items), nodes)


def _named(items: Ids) -> str:
    count = "item" if len(items) == 1 else f"{len(items):,} items"
    return f"{count} {listed([shown(item) for item in items.tolist()], NAMED)}"
