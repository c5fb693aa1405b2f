"""Why limits cannot be kept: which items are to blame, and how many recommendations are lacking.

If some recommendations give every user what is due within the caps, and others keep all floors without exceeding
what is due, then there are recommendations that do both (the symmetric supply-demand theorem of Ford and Fulkerson,
Flows in Networks, II.3). So floors and caps can be examined apart, each by a maximum flow. Where the flow falls
short, a minimum cut names a set of items that cannot do what is asked, with the exact number that is lacking.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ExposureError
from bmcd.evaluation.exposure_flow import FlowProblem, graph_solvers, widest_coverage
from bmcd.evaluation.exposure_limits import NAMED, GroupLimits
from bmcd.utils import listed, shown

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
