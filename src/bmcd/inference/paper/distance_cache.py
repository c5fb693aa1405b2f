"""Distances between users and consensuses: how a proposal changes them, and what is kept of them.

All six distances are symmetric and right-invariant, so one function serves both kinds of proposal. The ranking that
moves is given by its order (position -> item), the other one by its ranks (item -> rank). For a user's move the
other ranking is a consensus, for a consensus move it is a user's. Changes by a swap are in `mallows/distances.py`.

Distances are whole numbers. The footrule on a stretched rank scale is counted in fractions 2^-k of a rank (see
`whole_scale` in sampler.py), so that sums do not depend on their order, and distances that were updated equal
recomputed distances, bit for bit.

Cost of one change, L the leap size, n the number of items:

=========  ==================  ==============
distance   swap                leap-and-shift
=========  ==================  ==============
footrule   4                   L + 1
spearman   1                   L + 1
hamming    4                   L + 1
kendall    distance of ranks   L
cayley     length of a cycle   n
ulam       n log n             n log n
=========  ==================  ==============
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.distances import (
    KENDALL,
    distance_from_scratch,
    distance_of_permutation,
    make_scratch,
)


@numba.njit(cache=True, nogil=True)
def list_leap(orders, j, origin, target, scale, moved):
    """List the items that a leap moves, and their places before and after; return how many."""
    step = 1 if target > origin else -1
    moved[0, 0], moved[1, 0], moved[2, 0] = orders[j, origin], scale[origin], scale[target]
    size = 1
    for t in range(origin, target, step):
        moved[0, size], moved[1, size], moved[2, size] = orders[j, t + step], scale[t + step], scale[t]
        size += 1
    return size


@numba.njit(cache=True, nogil=True)
def change_by_leap(code, orders, j, others, k, origin, target, distance, scratch):
    """Return the change when the item at ``origin`` leaps to ``target`` and those in between shift by one.

    Additive distances change by the costs of the items in `list_leap`; this is for the others.
    """
    step = 1 if target > origin else -1
    first = others[k, orders[j, origin]] - 1
    if code == KENDALL:
        change = 0
        # The item that leaps changes sides with each of those it passes, and with no other.
        for t in range(origin, target, step):
            x = others[k, orders[j, t + step]] - 1
            change += 1 if (x > first) == (step > 0) else -1
        return change
    for t in range(orders.shape[1]):
        scratch[0, t] = others[k, orders[j, t]] - 1
    for t in range(origin, target, step):
        scratch[0, t] = scratch[0, t + step]
    scratch[0, target] = first
    return distance_of_permutation(code, scratch) - distance


class PaperModel(NamedTuple):
    """What stays the same through a run, apart from the partition function."""

    code: int  # place in `bmcd.mallows.distances.DISTANCES`
    scale: NDArray[np.int64]  # g(1), ..., g(n) in units
    unit: float  # a distance is a whole number of these
    user_start: NDArray[np.int64]  # [user + 1], differences are the numbers of clicks
    rate: float
    concentration: float
    alpha_update: int
    leap_size: int
    by_swap: bool
    key: NDArray[np.uint64]


class PaperCache(NamedTuple):
    """What is kept because rebuilding it from the state is slow. Whole numbers, except for log Z."""

    ranks: NDArray[np.signedinteger]  # [user, item], as in the state, in 16 bits where possible
    order: NDArray[np.signedinteger]  # [user, position], the item at each position, likewise
    rho_order: NDArray[np.int64]  # [cluster, position]
    distances: NDArray[np.int64]  # [user, cluster]
    log_z: NDArray[np.float64]  # [cluster]


class PaperTally(NamedTuple):
    """How many proposals a sweep made, and how many were accepted."""

    alpha: NDArray[np.int64]  # [0 proposed, 1 accepted; cluster]
    rho: NDArray[np.int64]  # proposed, accepted
    ranks: NDArray[np.int64]  # proposed, accepted


class PaperTrace(NamedTuple):
    """What is recorded of every sweep of a stretch: see `PaperTally` and `sum_up`."""

    log_joint: NDArray[np.float64]  # [sweep]
    within_distance: NDArray[np.float64]  # [sweep]
    counts: NDArray[np.int64]  # [sweep, cluster]
    alpha: NDArray[np.int64]  # [sweep, 2, cluster]
    rho: NDArray[np.int64]  # [sweep, 2]
    ranks: NDArray[np.int64]  # [sweep, 2]

    @classmethod
    def of(cls, n_sweeps: int, n_clusters: int) -> PaperTrace:
        """Return a trace with room for ``n_sweeps`` sweeps."""
        shapes = ((n_clusters,), (2, n_clusters), (2,), (2,))
        counts = [np.zeros((n_sweeps, *shape), np.int64) for shape in shapes]
        return cls(np.zeros(n_sweeps), np.zeros(n_sweeps), *counts)


@numba.njit(cache=True, nogil=True)
def fill_distances(state, cache, model):
    """Compute all distances between users and consensuses from scratch."""
    scratch = make_scratch(model.scale.size)
    for j in range(cache.order.shape[0]):
        for c in range(state.rho.shape[0]):
            cache.distances[j, c] = distance_from_scratch(
                model.code, cache.order, j, state.rho, c, model.scale, scratch
            )


@numba.njit(cache=True, nogil=True)
def sum_up(state, cache, model):
    """Return the log joint density without constants, the users' distances to their consensus, and label counts."""
    n_clusters = state.alpha.size
    counts = np.zeros(n_clusters, np.int64)
    within = np.zeros(n_clusters, np.int64)
    for j in range(state.labels.size):
        counts[state.labels[j]] += 1
        within[state.labels[j]] += cache.distances[j, state.labels[j]]
    log_joint = 0.0
    for c in range(n_clusters):
        log_joint += (counts[c] + model.concentration - 1.0) * math.log(state.tau[c]) - counts[c] * cache.log_z[c]
        log_joint -= state.alpha[c] * (within[c] * model.unit / model.scale.size + model.rate)
    return log_joint, within.sum() * model.unit, counts
