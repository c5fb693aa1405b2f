"""Recommendations as a flow from users to items, after Antikacioglu and Ravi (2017), solved by OR-tools.

Every user sends out one unit for each recommendation due, along an arc to an item not clicked. An item keeps as
many units as its floor asks for, and passes on to the sink what is shown above the floor, up to the cap. Where
min_coverage asks for a number of different items, the first unit of each item without a floor may pass through a
node that keeps that number: so the choice of the items is part of the optimum. With limits of groups, items pass
on to their group, and the group to the sink, which keeps floors and caps in the same way. All capacities are whole
numbers, and so is the cheapest flow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.evaluation.exposure_limits import Limits
from bmcd.utils import import_optional

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

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
