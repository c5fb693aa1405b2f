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
from bmcd.clicks.item_table import group_numbers
from bmcd.clicks.log import Clicks
from bmcd.errors import ExposureError, InputError, InputTypeError
from bmcd.evaluation.metrics import read_lists
from bmcd.models.base import ProbabilityModel
from bmcd.models.list_rules import merged
from bmcd.models.top_k import Lists, best_items
from bmcd.utils import Floats, import_optional, listed, shown

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Limit = int | float | Mapping[Any, int | float]

# A share times a number of users may miss a whole number by a rounding error.
ROUNDING = 1e-9
# An item with a floor is a candidate of this many times as many users, where there are as many.
CHOICE = 3
# How many items a message names.
NAMED = 5


class GroupLimits(NamedTuple):
    """Floors and caps of groups of items, as numbers of recommendations; there may be no groups."""

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
    groups: GroupLimits

    def lacking(self, items: Ints, possible: Ints, k: int) -> Bools:
        """Return which items with floors are candidates, [user, place], of so few users that there is no choice.

        ``possible`` is the number of users to whom each item may be shown. Items of a group that has a floor lack
        users while the group does.
        """
        found = np.bincount(items[items >= 0], minlength=len(self.low))
        own: Bools = found < np.minimum(CHOICE * self.low, possible)
        of_item = np.append(self.groups.of_item, -1)[items]
        for g in np.flatnonzero(self.groups.low > 0).tolist():
            places = int(np.minimum((of_item == g).sum(axis=1), k).sum())
            if places < CHOICE * self.groups.low[g]:
                own |= (self.groups.of_item == g) & (found < possible)
        return own

    def kept_by(self, exposure: Ints) -> bool:
        """Return whether items that are shown this often keep all limits."""
        within = (self.low <= exposure) & (exposure <= self.high)
        shown = self.groups.shown(exposure)
        of_groups = (self.groups.low <= shown) & (shown <= self.groups.high)
        return bool(within.all() and of_groups.all()) and int((exposure > 0).sum()) >= self.cover


def read_limits(clicks: Clicks, asked: Mapping[str, Any], due: int) -> Limits:
    """Return limits, by the names of the options of `rerank`, as numbers; ``due`` recommendations are made.

    >>> clicks = Clicks.from_matrix(np.eye(4), items=list("abcd"))
    >>> limits = read_limits(clicks, {"min_exposure": {"b": 2}, "max_exposure": 0.5, "min_coverage": 0.75}, 4)
    >>> limits.low.tolist(), limits.high.tolist(), limits.cover
    ([0, 2, 0, 0], [2, 2, 2, 2], 3)
    """

    def columns(given: list[Any], name: str) -> Ints:
        return clicks.columns_of(given, f"{name} can name only items of the clicks.")

    of_items = _Counted("exposure", "item", clicks.items.tolist(), clicks.n_users, "users", columns)
    low, high = of_items.bounds(asked)
    covered, group = asked.get("min_coverage"), asked.get("group")
    cover = 0 if covered is None else _number(covered, "min_coverage", clicks.n_items, "items")
    if cover > clicks.n_items:
        raise InputError(f"min_coverage asks for {cover:,} items, but there are {clicks.n_items:,}.")
    of_item = np.full(clicks.n_items, -1, np.int64)
    if asked.get("min_group_exposure") is None and asked.get("max_group_exposure") is None:
        if group is not None:
            raise InputError("group goes with min_group_exposure or max_group_exposure.")
        none = np.zeros(0, np.int64)
        return Limits(low, high, cover, GroupLimits((), of_item, none, none))
    if cover:
        raise InputError("min_coverage and limits of groups cannot be combined. Give floors to items instead.")
    if clicks.items_table is None:
        raise InputError("limits of groups need an item table: read_clicks(..., items='items.csv').")
    column, groups = clicks.items_table.grouping(group)
    lengths = np.diff(groups.starts)
    if (several := np.flatnonzero(lengths > 1)).size:
        item = int(several[0])
        raise InputError(
            f"limits of groups need items with one {column} at most, but {several.size:,} items have several, such "
            f"as item {shown(clicks.items[item])}: {listed(list(groups.of_item(item)))}."
        )
    of_item[lengths == 1] = groups.numbers

    def numbers_of(given: list[Any], name: str) -> Ints:
        return group_numbers(groups, given, f"{name} of {column}")

    of_groups = _Counted("group_exposure", column, list(groups.names), due, "recommendations", numbers_of)
    return Limits(low, high, cover, GroupLimits(groups.names, of_item, *of_groups.bounds(asked)))


class _Counted(NamedTuple):
    """What floors and caps count: users of items, or recommendations of groups."""

    option: str
    """The floors are the option ``min_`` of this, the caps ``max_``."""
    label: str
    ids: list[Any]
    total: int
    unit: str
    places: Callable[[list[Any], str], Ints]
    """Finds ids that an option names."""

    def bounds(self, asked: Mapping[str, Any]) -> tuple[Ints, Ints]:
        """Return the floor and the cap of each item or group."""
        low = self._counts(asked, f"min_{self.option}", 0)
        high = np.minimum(self._counts(asked, f"max_{self.option}", self.total), self.total)
        if (crossed := np.flatnonzero(low > high)).size:
            named = [f"{self.label} {shown(self.ids[i])} ({low[i]:,} above {high[i]:,})" for i in crossed]
            raise ExposureError(
                f"the floor, min_{self.option}, is above the cap, max_{self.option} or the {self.total:,} "
                f"{self.unit}, of {listed(named, NAMED)}.",
                [self.ids[i] for i in crossed],
                int((low - high)[crossed].sum()),
            )
        return low, high

    def _counts(self, asked: Mapping[str, Any], name: str, otherwise: int) -> Ints:
        limit: Any = asked.get(name)
        counts = np.full(len(self.ids), otherwise, np.int64)
        if hasattr(limit, "items"):  # a dict, or a pandas Series
            given = dict(limit.items())
            counts[self.places(list(given), name)] = [
                _number(number, f"{name} of {self.label} {shown(one)}", self.total, self.unit)
                for one, number in given.items()
            ]
        elif limit is not None:
            counts[:] = _number(limit, name, self.total, self.unit)
        return counts


def _number(value: Any, name: str, total: int, what: str) -> int:
    """Return a count: a whole number as it is, any other as a share of the total. So 1 and 1.0 differ.

    What must at least be there (``min_``) is never rounded below the share, what may be there never above it.
    """
    hint = f"Give a whole number of {what}, such as 20, or a share of them between 0.0 and 1.0."
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} is {shown(value)}, which is not a number. {hint}")
    if isinstance(value, numbers.Integral):
        if int(value) < 0:
            raise InputError(f"{name} is {value}, which is below 0. {hint}")
        return int(value)
    if not 0 <= float(value) <= 1:
        raise InputError(f"{name} is {value}, which is neither whole nor a share. {hint}")
    exact = float(value) * total
    if abs(exact - round(exact)) < ROUNDING * max(total, 1):
        return round(exact)
    return math.ceil(exact) if name.startswith("min_") else math.floor(exact)


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
    lists: Lists
    """Columns of the clicks, best first, without clicked items; the first k are what `recommend` gives. The values
    are what is summed, and other columns of the recommendations."""
    candidates: int | None = None
    """The number of items of each user, where these are not all."""

    @property
    def score(self) -> Floats:
        """[user, place]: what is summed, probability or score."""
        return self.lists.values[self.value]


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
        return _of_model(model, k, clicks, options, candidates, lacking)
    fitted_to = clicks if clicks is not None else getattr(model, "clicks_", None)
    if not isinstance(fitted_to, Clicks):
        raise InputTypeError(f"pass clicks=, the Clicks that the {type(model).__name__} was fitted to.")
    if hasattr(model, "probabilities"):
        return _of_matrix(model.probabilities(k, **options), fitted_to, "probability")
    return _of_rival(model, k, fitted_to, options)


def _of_model(
    model: ProbabilityModel, k: int, clicks: Clicks | None, options: dict[str, Any], candidates: Any, lacking: Any
) -> Weights:
    """Return the weights of the best items of each user, and of the best of those that lack users."""
    own = model.clicks_with_users()
    if clicks is not None and clicks is not own and clicks != own:
        raise InputError("these are not the clicks the model was fitted to; leave clicks= out.")
    n_pairs = own.n_users * own.n_items
    if candidates == "auto":
        candidates = None if n_pairs <= ALL_PAIRS else max(CANDIDATES, k)
    if candidates is None or candidates >= own.n_items:
        candidates = None
        if n_pairs > MOST_PAIRS:
            raise InputError(
                f"rerank with candidates=None needs the probabilities of all {own.n_users:,} users for all "
                f"{own.n_items:,} items, which take {n_pairs * 8 / 2**30:.1f} GiB several times. Leave candidates "
                "out, which takes the best 100 items of each user."
            )
    size, users = candidates or own.n_items, own.users.tolist()
    lists = model.lists(size, users, horizon=k, **options)
    for _ in range(ROUNDS if lacking is not None and candidates else 0):
        if not (wanted := lacking(own, lists.items)).any():
            break
        lists = merged(lists, model.lists(size, users, wanted, horizon=k, **options), "probability")
    return Weights(own, "probability", lists, candidates)


def _of_matrix(matrix: Any, clicks: Clicks, value: Value) -> Weights:
    score, available = np.array(matrix, np.float64), ~clicks.matrix.toarray().astype(np.bool_)
    if score.shape != available.shape:
        raise InputError(f"the scores are {score.shape}, but the clicks are {available.shape}, users x items.")
    _check_scores(score, available, clicks, value)
    score = np.where(available, score, 0.0)
    order = best_items(score, available, clicks.n_items, id_ranks(clicks.items))
    placed = np.where(order >= 0, np.take_along_axis(score, np.maximum(order, 0), axis=1), 0.0)
    return Weights(clicks, value, Lists(order, {value: placed}))


def _of_rival(model: Any, k: int, clicks: Clicks, options: dict[str, Any]) -> Weights:
    """Return the weights of all that a recommender would recommend, in its own order."""
    frame = model.recommend(k=clicks.n_items, **options)
    value: Value = "probability" if "probability" in column_names(frame) else "score"
    lists = read_lists(frame, clicks)  # checks everything but the scores
    users, items, values = columns(frame, "user", "item", value)
    user, item = clicks.rows_of(users), clicks.columns_of(items)
    score, available = np.zeros(clicks.matrix.shape), np.zeros(clicks.matrix.shape, np.bool_)
    score[user, item], available[user, item] = values, True
    _check_scores(score, available, clicks, value)
    order, in_order = np.full(clicks.matrix.shape, -1, np.int64), np.zeros(clicks.matrix.shape)
    order[lists.user, lists.rank - 1] = lists.item
    in_order[lists.user, lists.rank - 1] = score[lists.user, lists.item]
    if value == "probability":
        first = read_lists(model.recommend(k=k, **options), clicks)
        if first.probability is None or np.abs(first.probability - score[first.user, first.item]).max() > 1e-6:
            raise InputError(
                f"the probabilities of {type(model).__name__} depend on k, so recommend cannot give those of all "
                "items. Give it a method probabilities(k), users x items, or pass that matrix and clicks."
            )
    return Weights(clicks, value, Lists(order, {value: in_order}))


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


def graph_solvers() -> tuple[Any, Any]:
    """Return OR-tools' classes for maximum flow and minimum cost flow, or say how to install them."""
    max_flow, min_cost_flow = (
        import_optional(f"ortools.graph.python.{name}", needed_by="reranking", extra="rerank")
        for name in ("max_flow", "min_cost_flow")
    )
    return max_flow.SimpleMaxFlow, min_cost_flow.SimpleMinCostFlow


def best_flow(problem: FlowProblem, score: Floats, plain: Bools) -> tuple[Bools, float] | None:
    """Return the recommendations with the greatest sum of scores within the limits; None if there are none.

    ``score`` and ``plain``, whether it is in the plain list, are of each pair, and so is the answer. The second is
    how far ties and rounding may have left the sum below the greatest one possible, at most.
    """
    # To the plain lists scores within 1e-6 are a tie, so an item left out can be better by that much. It counts as
    # equal here, or users whom no limit touches would get another list than without limits.
    best_left_out = np.full(len(problem.demand), -np.inf)
    np.maximum.at(best_left_out, problem.user[~plain], score[~plain])
    values = np.where(plain, np.maximum(score, best_left_out[problem.user]), score)
    least, span = (float(values.min()), float(np.ptp(values))) if values.size else (0.0, 0.0)
    n_nodes = len(problem.demand) + len(problem.limits.low) + len(problem.limits.groups.names) + 2
    most = min(LARGEST_COST, ROOM // n_nodes**2)
    unit = span / most if span > 0 else 1.0
    # Every list has the same length in all solutions, so subtracting a constant from all scores changes nothing.
    cost = -np.rint((values - least) / unit).astype(np.int64) - STAY * plain
    flow = _solve(problem, cost, 0)
    if flow is None:
        return None
    # Rounding moves each recommendation by half a unit, here and in the true optimum; STAY moves it by STAY units.
    by_rounding = int(problem.demand.sum()) * (1 + STAY) * unit if span > 0 else 0.0
    return flow > 0, by_rounding + float((values - score).sum())


def widest_coverage(problem: FlowProblem) -> int:
    """Return the largest number of different items that floors and caps, which must be feasible, allow to show."""
    without = problem._replace(limits=problem.limits._replace(cover=0))
    flow = _solve(without, np.zeros(len(problem.user), np.int64), -1)
    assert flow is not None
    return len(np.unique(problem.item[flow > 0]))


def _solve(problem: FlowProblem, cost: Ints, first_cost: int) -> Ints | None:
    """Return the cheapest flow, arc by arc, or None; `first_cost` is the cost of showing an item at all."""
    user, item, demand, (low, high, cover, groups) = problem
    n_users, n_items, n_groups = len(demand), len(low), len(groups.names)
    first = n_users + n_items
    items, nodes, sink = n_users + np.arange(n_items), first + 1 + np.arange(n_groups), first + 1 + n_groups
    has_floor = low > 0
    once = np.where(has_floor | (n_groups > 0), 0, np.minimum(high, 1))
    inside = groups.of_item >= 0
    after_item = np.where(inside, first + 1 + groups.of_item, sink)
    # An arc that must carry at least so much has carried it already, from its end to its beginning.
    supply = np.zeros(sink + 1, np.int64)
    supply[:n_users] = demand
    supply[items] = -low
    supply[first] = -max(0, cover - int(has_floor.sum()))
    np.add.at(supply, after_item[inside], low[inside])
    supply[nodes] -= groups.low
    supply[sink] = -int(supply[:sink].sum())
    if supply[sink] > 0:
        return None
    solver = graph_solvers()[1]()

    def add(tails: Any, heads: Any, capacities: Any, costs: Any) -> Any:
        heads = np.full(len(tails), heads, np.int32)
        numbers = (np.full(len(tails), of, np.int64) for of in (capacities, costs))
        return solver.add_arcs_with_capacity_and_unit_cost(tails.astype(np.int32), heads, *numbers)

    arcs = add(user, n_users + item, 1, cost)
    add(items, first, once, first_cost)
    add(items, after_item, high - low - once, 0)
    add(np.array([first]), sink, n_items, 0)
    add(nodes, sink, groups.high - groups.low, 0)
    solver.set_nodes_supplies(np.arange(sink + 1, dtype=np.int32), supply)
    status = solver.solve()
    if status == solver.INFEASIBLE:
        return None
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools' minimum cost flow ended with {status}.")
    return np.asarray(solver.flows(arcs), np.int64)


Ids = NDArray[Any]


def explain_shortfall(problem: FlowProblem, items: Ids, k: int) -> ExposureError:
    """Return the error to raise for a problem without a solution; `items` are ids."""
    return (
        _single_floors(problem, items)
        or _totals(problem, items, k)
        or blame_floors(problem, items)
        or blame_caps(problem, items)
        or (_groups(problem) if problem.limits.groups.names else _coverage(problem))
    )


def _too_few(what: str, lacking: int, remedy: str, blamed: list[Any]) -> ExposureError:
    return ExposureError(f"{what}: {lacking:,} too few. {remedy}", blamed, int(lacking))


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
    low, high, due = problem.limits.low, problem.limits.high, int(problem.demand.sum())
    what = f"{len(problem.demand):,} users with k={k} get {due:,} recommendations"
    if (lacking := int(low.sum()) - due) > 0:
        each = lacking / int((low > 0).sum())
        remedy = f"Lower min_exposure, by {each:,.1f} for each item that has a floor, or raise k."
        return _too_few(f"the floors add up to {low.sum():,}, but {what}", lacking, remedy, items[low > 0].tolist())
    places = int(np.minimum(high, problem.n_users_of).sum())
    if places >= due:
        return None
    what += f", but the items may be shown only {places:,} times under their caps"
    return _too_few(what, due - places, "Raise max_exposure, or lower k.", items.tolist())


def blame_floors(problem: FlowProblem, items: Ids) -> ExposureError | None:
    """Return an error that names items whose floors cannot be reached together, if there are any."""
    lacking, blamed = _cut(problem, problem.limits.low, sink_side=True)
    if not lacking:
        return None
    wanted = int(problem.limits.low[blamed].sum())
    what = (
        f"{_named(items[blamed])} should be shown {wanted:,} times together, but only {wanted - lacking:,} of the "
        "places in users' lists can go to them, because of what the users have clicked"
    )
    return _too_few(what, lacking, "Lower their min_exposure, or raise k.", items[blamed].tolist())


def blame_caps(problem: FlowProblem, items: Ids) -> ExposureError | None:
    """Return an error that names items whose caps leave some users without enough recommendations, if any do."""
    lacking, blamed = _cut(problem, problem.limits.high, sink_side=False)
    if not lacking:
        return None
    places = int(problem.limits.high[blamed].sum())
    others = np.bincount(problem.user[~blamed[problem.item]], minlength=len(problem.demand))
    what = (
        f"{(problem.demand > others).sum():,} users have so few other items left that they need "
        f"{places + lacking:,} recommendations of {_named(items[blamed])}, but the caps allow only {places:,}"
    )
    return _too_few(what, lacking, "Raise their max_exposure, or lower k.", items[blamed].tolist())


def _groups(problem: FlowProblem) -> ExposureError:
    """Return an error about groups: totals, single groups, then how far floors and caps can be kept together."""
    due, groups = int(problem.demand.sum()), problem.limits.groups
    names, has_floor, has_cap = np.array(groups.names, object), groups.low > 0, groups.high < due

    def written(which: Bools, numbers: Ints, word: str = "") -> list[str]:
        return [f"{shown(name)} {word}{n:,}" for name, n in zip(names[which], numbers[which], strict=True)]

    if (lacking := int(groups.low.sum()) - due) > 0:
        floors = f"{groups.low.sum():,} ({listed(written(has_floor, groups.low), NAMED)})"
        what = f"the floors of groups add up to {floors}, but there are {due:,} recommendations"
        return _too_few(what, lacking, "Lower min_group_exposure.", names[has_floor].tolist())
    most = np.minimum(problem.limits.high, problem.n_users_of)
    per_user = np.zeros((len(problem.demand), len(names) + 1), np.int64)  # the last group: none
    np.add.at(per_user, (problem.user, groups.of_item[problem.item]), 1)
    in_lists = np.minimum(per_user, problem.demand[:, None])[:, :-1].sum(axis=0)
    possible = np.minimum(in_lists, groups.shown(most))
    if (bad := np.flatnonzero(groups.low > possible)).size:
        g = int(bad[0])
        what = (
            f"{shown(names[g])} should have {groups.low[g]:,} recommendations, but at most {possible[g]:,} of the "
            "places in users' lists can go to it"
        )
        return _too_few(what, groups.low[g] - possible[g], "Lower min_group_exposure.", [names[g]])
    places = int(np.minimum(groups.high, groups.shown(most)).sum() + most[groups.of_item < 0].sum())
    if places < due:
        capped = listed(written(has_cap, groups.high), NAMED)
        what = f"the caps of groups ({capped}) allow {places:,} recommendations, but {due:,} are due"
        return _too_few(what, due - places, "Raise max_group_exposure, or lower k.", names[has_cap].tolist())
    limits = [*written(has_floor, groups.low, "at least "), *written(has_cap, groups.high, "at most ")]
    return ExposureError(
        f"the limits of items and groups ({listed(limits, 2 * NAMED)}) cannot be kept together, because of what "
        "the users have clicked. Lower floors, or raise caps.",
        names[has_floor | has_cap].tolist(),
        1,
    )


def _coverage(problem: FlowProblem) -> ExposureError:
    most, wanted = widest_coverage(problem), problem.limits.cover
    what = f"min_coverage asks for {wanted:,} different items, but at most {most:,} can be shown within the limits"
    return _too_few(what, wanted - most, "Lower min_coverage.", [])


def _cut(problem: FlowProblem, of_items: Ints, *, sink_side: bool) -> tuple[int, Bools]:
    """Return how far the greatest flow from users to items falls short, and which items a minimum cut blames.

    Of all minimum cuts it is the nearest, with the smallest set of items: seen from the sink, the items that need
    more; seen from the source, the full items of users who need more.
    """
    user, item, demand, _ = problem
    n_users, n_items = len(demand), len(of_items)
    source, sink = n_users + n_items, n_users + n_items + 1
    items = n_users + np.arange(n_items)
    tails = np.concatenate([user, np.full(n_users, source), items])
    heads = np.concatenate([n_users + item, np.arange(n_users), np.full(n_items, sink)])
    capacities = np.concatenate([np.ones(len(user), np.int64), demand, of_items])
    solver = graph_solvers()[0]()
    solver.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64))
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools' maximum flow ended with {status}.")
    lacking = int(of_items.sum() if sink_side else demand.sum()) - int(solver.optimal_flow())
    nodes = solver.get_sink_side_min_cut() if sink_side else solver.get_source_side_min_cut()
    return lacking, np.isin(items, nodes)


def _named(items: Ids) -> str:
    count = "item" if len(items) == 1 else f"{len(items):,} items"
    return f"{count} {listed([shown(item) for item in items.tolist()], NAMED)}"
