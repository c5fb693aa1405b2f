"""What the paper's sampler works on besides the state of a chain: settings, kept distances, tallies."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.inference.paper.distance_changes import distance_from_scratch, make_scratch


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
    rho: NDArray[np.int64]  # [cluster, item], a copy, to see whether the state has changed
    distances: NDArray[np.int64]  # [user, cluster]
    log_z: NDArray[np.float64]  # [cluster]


class PaperTally(NamedTuple):
    """How many proposals a sweep made, and how many were accepted."""

    alpha: NDArray[np.int64]  # [0 proposed, 1 accepted, 2 above the largest alpha; cluster]
    rho: NDArray[np.int64]  # proposed, accepted
    ranks: NDArray[np.int64]  # proposed, accepted


class PaperTrace(NamedTuple):
    """What is recorded of every sweep of a stretch: see `PaperTally` and `sum_up`."""

    log_joint: NDArray[np.float64]  # [sweep]
    within_distance: NDArray[np.float64]  # [sweep]
    counts: NDArray[np.int64]  # [sweep, cluster]
    alpha: NDArray[np.int64]  # [sweep, 3, cluster]
    rho: NDArray[np.int64]  # [sweep, 2]
    ranks: NDArray[np.int64]  # [sweep, 2]

    @classmethod
    def of(cls, n_sweeps: int, n_clusters: int) -> PaperTrace:
        """Return a trace with room for so many sweeps."""
        shapes = ((n_clusters,), (3, n_clusters), (2,), (2,))
        counts = [np.zeros((n_sweeps, *shape), np.int64) for shape in shapes]
        return cls(np.zeros(n_sweeps), np.zeros(n_sweeps), *counts)


@numba.njit(cache=True, nogil=True)
def invert_ranks(ranks, order):
    """Fill ``order`` row by row; return the first row that is not a ranking of 1..n, or -1."""
    n_items = ranks.shape[1]
    for j in range(ranks.shape[0]):
        order[j] = -1
        for i in range(n_items):
            rank = ranks[j, i]
            if not 1 <= rank <= n_items or order[j, rank - 1] != -1:
                return j
            order[j, rank - 1] = i
    return -1


@numba.njit(cache=True, nogil=True)
def are_same(ranks, others):
    """Return whether two matrices of whole numbers, of one shape, are equal."""
    for j in range(ranks.shape[0]):
        n_different = 0
        for i in range(ranks.shape[1]):  # to the end of the row: a loop without exit is four times as fast
            n_different += ranks[j, i] != others[j, i]
        if n_different > 0:
            return False
    return True


@numba.njit(cache=True, nogil=True)
def fill_distances(cache, model):
    """Compute all distances between users and consensuses from scratch."""
    scratch = make_scratch(model.scale.size)
    for j in range(cache.order.shape[0]):
        for c in range(cache.rho.shape[0]):
            cache.distances[j, c] = distance_from_scratch(
                model.code, cache.order, j, cache.rho, c, model.scale, scratch
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
