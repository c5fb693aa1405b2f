"""Why limits cannot be kept: which items are to blame, and how much is lacking.

If there are recommendations with all that is due to the users within the caps, and others with all floors and no
more than is due, then there are some that do both (the symmetric supply-demand theorem of Ford and Fulkerson, Flows
in Networks, II.3). So floors and caps can be looked at apart, each by a maximum flow; where it falls short, a
minimum cut names a set of items that cannot do what is asked, with the exact number that is lacking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ExposureError
from bmcd.exposure.flow import Problem, graph_solvers, widest_coverage
from bmcd.exposure.limits import NAMED
from bmcd.system.text import listed, shown

Ints = NDArray[np.int64]


def explain_shortfall(problem: Problem, items: NDArray[Any], k: int) -> ExposureError:
    """The error to raise for a problem without a solution; `items` are ids."""
    found = _floor_of_one(problem, items) or _totals(problem, items, k)
    return found or _floors_together(problem, items) or _caps_together(problem, items) or _coverage(problem)


def _floor_of_one(problem: Problem, items: NDArray[Any]) -> ExposureError | None:
    low, possible = problem.limits.low, problem.available.sum(axis=0)
    if not (bad := np.flatnonzero(low > possible)).size:
        return None
    named = [
        f"item {shown(items[i])} should be shown to {low[i]:,} users, but only {possible[i]:,} have not clicked "
        f"it: {low[i] - possible[i]:,} too few"
        for i in bad
    ]
    lacking = int((low - possible)[bad].sum())
    return ExposureError(f"{'; '.join(_first(named))}. Lower min_exposure.", items[bad].tolist(), lacking)


def _totals(problem: Problem, items: NDArray[Any], k: int) -> ExposureError | None:
    low, high, _ = problem.limits
    n_users, due = problem.available.shape[0], int(problem.demand.sum())
    what = f"{n_users:,} users with k={k} get {due:,} recommendations"
    if (floors := int(low.sum())) > due:
        return ExposureError(
            f"the floors add up to {floors:,}, but {what}: {floors - due:,} too few. Lower min_exposure, by "
            f"{(floors - due) / max(int((low > 0).sum()), 1):,.1f} for each item that has a floor, or raise k.",
            items[low > 0].tolist(),
            floors - due,
        )
    if (places := int(np.minimum(high, problem.available.sum(axis=0)).sum())) < due:
        return ExposureError(
            f"{what}, but the items may be shown only {places:,} times under their caps: {due - places:,} too few. "
            "Raise max_exposure, or lower k.",
            items.tolist(),
            due - places,
        )
    return None


def _floors_together(problem: Problem, items: NDArray[Any]) -> ExposureError | None:
    low = problem.limits.low
    lacking, cut = _cut(problem, low, sink_side=True)
    if not lacking:
        return None
    blamed = np.flatnonzero(cut)
    wanted = int(low[blamed].sum())
    return ExposureError(
        f"{_these(items[blamed])} should be shown {wanted:,} times together, but only {wanted - lacking:,} of the "
        f"places in users' lists can go to them, by what these have not clicked: {lacking:,} too few. Lower their "
        "min_exposure, or raise k.",
        items[blamed].tolist(),
        lacking,
    )


def _caps_together(problem: Problem, items: NDArray[Any]) -> ExposureError | None:
    high = problem.limits.high
    lacking, cut = _cut(problem, high, sink_side=False)
    if not lacking:
        return None
    blamed = np.flatnonzero(cut)
    places = int(high[blamed].sum())
    elsewhere = problem.available[:, ~cut].sum(axis=1)
    need = np.maximum(problem.demand - elsewhere, 0)
    return ExposureError(
        f"{(need > 0).sum():,} users have so few other items left that they need {places + lacking:,} "
        f"recommendations of {_these(items[blamed])}, but the caps allow only {places:,}: {lacking:,} "
        "too few. Raise their max_exposure, or lower k.",
        items[blamed].tolist(),
        lacking,
    )


def _coverage(problem: Problem) -> ExposureError:
    most, wanted = widest_coverage(problem), problem.limits.cover
    return ExposureError(
        f"min_coverage asks for {wanted:,} different items, but at most {most:,} can be shown within the limits: "
        f"{wanted - most:,} too few.",
        [],
        wanted - most,
    )


def _cut(problem: Problem, of_items: Ints, *, sink_side: bool) -> tuple[int, NDArray[np.bool_]]:
    """How far the flow from users to items stays below what it should be, and the items on one side of a cut.

    The nearest cut: the smallest set of items that explains it. From the sink, items that want more; from the
    source, items that are full for users who want more.
    """
    available, demand, _ = problem
    n_users, n_items = available.shape
    source, sink = n_users + n_items, n_users + n_items + 1
    user, item = np.nonzero(available)
    tails = np.concatenate([user, np.full(n_users, source), n_users + np.arange(n_items)])
    heads = np.concatenate([n_users + item, np.arange(n_users), np.full(n_items, sink)])
    capacities = np.concatenate([np.ones(len(user), np.int64), demand, of_items])
    solver = graph_solvers()[0]()
    solver.add_arcs_with_capacity(tails.astype(np.int32), heads.astype(np.int32), capacities.astype(np.int64))
    status = solver.solve(source, sink)
    if status != solver.OPTIMAL:
        raise RuntimeError(f"OR-tools' maximum flow ended with {status}.")
    lacking = int(of_items.sum() if sink_side else demand.sum()) - int(solver.optimal_flow())
    side = np.array(solver.get_sink_side_min_cut() if sink_side else solver.get_source_side_min_cut(), np.int64)
    cut = np.zeros(n_items, np.bool_)
    cut[side[(side >= n_users) & (side < source)] - n_users] = True
    return lacking, cut


def _these(items: NDArray[Any]) -> str:
    return ("item " if len(items) == 1 else f"{len(items):,} items ") + listed(
        list(map(shown, items.tolist())), NAMED
    )


def _first(named: list[str]) -> list[str]:
    return named if len(named) <= NAMED else [*named[:NAMED], f"and {len(named) - NAMED:,} more items likewise"]
