"""Metropolis moves on permutations for the six distances, and a chain of them.

The state is sigma = r o rho^-1 with values 0..n-1; the target is exp(-theta d(sigma, identity)). One sweep
is n proposals. The proposals are symmetric, so the acceptance ratio is exp(-theta * change of distance):

* footrule, spearman: swap two entries, their positions a gap apart that is drawn log-uniformly from
  1..n-1. Near the consensus only short gaps are accepted, far from it long ones mix best; all scales get a
  share. The change costs O(1).
* kendall: the same swap; the change costs O(gap).
* cayley, hamming: swap two entries at positions drawn uniformly; O(cycle length) and O(1).
* ulam: take one entry out and put it back elsewhere; the change is recomputed, O(n log n).
"""

# Numba kernels carry no annotations: arrays in them are untyped on purpose.
# mypy: disable-error-code="no-untyped-def"

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from bmcd.mallows.distances import (
    CAYLEY,
    DISTANCES,
    FOOTRULE,
    HAMMING,
    ULAM,
    change_by_swap,
    check_distance,
    cost_of_swap,
    distance_from_scratch,
    is_additive,
    longest_increasing,
    make_scratch,
)
from bmcd.mallows.rank_scale import scale_values

GAPS = 1024  # entries of the table of gaps


def metropolis_sample(
    n: int,
    theta: float,
    distance: str,
    size: int,
    burn_in: int,
    thin: int,
    rng: np.random.Generator,
    *,
    rank_scale: ArrayLike = "linear",
) -> NDArray[np.int64]:
    """Return states of one Metropolis chain (Metropolis et al. 1953) for exp(-theta d(sigma, identity)).

    The chain starts at the identity, does `burn_in` sweeps, then keeps a state after every `thin` sweeps: an int64
    array (size, n) with values 1..n. The draws are correlated and, since the burn-in is finite, approximate. A
    sweep costs O(n) for footrule, spearman and hamming (2 microseconds at n = 100), and O(n^2 log n) for ulam.

    >>> metropolis_sample(4, 0.0, "ulam", 2, 5, 5, np.random.default_rng(1)).shape
    (2, 4)
    """
    check_distance(distance, rank_scale)
    out = np.empty((size, n), np.int64)
    _chain(out, theta, DISTANCES.index(distance), scale_values(n, rank_scale), gap_table(n), burn_in, thin, rng)
    return out


def gap_table(n: int) -> NDArray[np.int64]:
    """Return a table of log-uniform gaps in 1..n-1: a lookup is cheaper than a power for each proposal."""
    quantiles = (np.arange(GAPS) + 0.5) / GAPS
    gaps: NDArray[np.float64] = np.floor(np.exp(quantiles * np.log(max(n, 2))))
    return np.clip(gaps, 1, max(n - 1, 1)).astype(np.int64)


@numba.njit(cache=True)
def _chain(out, theta, code, g, gaps, burn_in, thin, rng):
    size, n = out.shape
    sigma = np.arange(n)
    totals = np.zeros(2)
    scratch = make_scratch(n)
    for _ in range(burn_in):
        metropolis(sigma, totals, theta, 0.0, code, g, gaps, n, scratch, rng)
    for row in range(size):
        for _ in range(thin):
            metropolis(sigma, totals, theta, 0.0, code, g, gaps, n, scratch, rng)
        for t in range(n):
            out[row, t] = sigma[t] + 1


@numba.njit(cache=True)
def distance_to_identity(sigma, code, g):
    """Return the distance of one permutation of 0..n-1 to the identity, from scratch."""
    n = sigma.size
    identity = np.arange(1, n + 1).reshape(1, n)
    return 1.0 * distance_from_scratch(code, sigma.reshape(1, n), 0, identity, 0, g, make_scratch(n))


@numba.njit(cache=True)
def _reinsert(sigma, a, b):
    """Take the entry at position a out and put it back so that it stands at position b."""
    moved = sigma[a]
    if a < b:
        for t in range(a, b):
            sigma[t] = sigma[t + 1]
    else:
        for t in range(a, b, -1):
            sigma[t] = sigma[t - 1]
    sigma[b] = moved


@numba.njit(cache=True)
def metropolis(sigma, totals, theta, beta, code, g, gaps, proposals, scratch, rng):
    """Do Metropolis proposals for exp(-theta d - beta footrule), on sigma and totals = (d, footrule) in place.

    The footrule term serves annealing from the footrule model. With beta = 0 the footrule distance is not updated.
    One uniform number serves for a proposal: its first digits choose the positions, and the rest of its 53 bits
    (some 30) decides on acceptance.
    """
    n = sigma.shape[0]
    if n < 2:
        return
    if code == ULAM:
        for _ in range(proposals):
            u = rng.random() * n
            a = int(u)
            b = int((u - a) * n)
            if a == b:
                continue
            _reinsert(sigma, a, b)
            change = n - longest_increasing(sigma, scratch[0]) - totals[0]
            if change > 0 and rng.random() >= np.exp(-theta * change):
                _reinsert(sigma, b, a)
            else:
                totals[0] += change
        return
    anywhere, additive = code in (CAYLEY, HAMMING), is_additive(code)
    orders, identity = sigma.reshape(1, n), np.arange(1, n + 1).reshape(1, n)
    d, footrule = totals[0], totals[1]
    for _ in range(proposals):
        u = rng.random() * n
        a = int(u)
        u -= a
        if anywhere:
            u *= n
            b = int(u)
            u -= b
            if a == b:
                continue
            if b < a:
                a, b = b, a
        else:
            u *= GAPS
            k = int(u)
            u -= k
            b = a + gaps[k]
            if b >= n:
                continue
        places = g[a], g[b], g[sigma[a]], g[sigma[b]]
        if additive:
            change = 1.0 * cost_of_swap(code, *places)
        else:
            change = 1.0 * change_by_swap(code, orders, 0, identity, 0, a, b, d, scratch)
        change_footrule = cost_of_swap(FOOTRULE, *places) if beta > 0 else 0.0
        energy = theta * change + beta * change_footrule
        if energy <= 0 or u < np.exp(-energy):
            sigma[a], sigma[b] = sigma[b], sigma[a]
            d += change
            footrule += change_footrule
    totals[0] = d
    totals[1] = footrule
