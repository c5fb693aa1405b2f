"""Draw rankings from the Mallows model: exact and independent for four distances, a Metropolis chain for two."""

# Numba kernels carry no annotations: arrays in them are untyped on purpose.
# mypy: disable-error-code="no-untyped-def"

import numba
import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.mallows.distances import check_alpha, check_distance, check_ranks
from bmcd.mallows.exact_partition import hamming_log_counts
from bmcd.mallows.footrule_scan import sample_scan
from bmcd.mallows.metropolis import metropolis_sample
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import Integers, check_count

# Sweeps of n proposals. The distance's autocorrelation time was at most 30 sweeps for every case tried
# (spearman to n = 500, ulam to n = 60, alpha from 0 to 200; mostly 2 to 14).
BURN_IN = 500
THIN = 50


def sample(
    rho: ArrayLike,
    alpha: float,
    size: int,
    distance: str = "footrule",
    seed: int | np.random.Generator = 0,
    *,
    rank_scale: ArrayLike = "linear",
) -> Integers:
    """Draw rankings from P(r) = exp(-alpha / n * d(r, rho)) / Z_n(alpha): int64 array (size, n), 1 is best.

    Exact independent draws for

    * footrule, any `rank_scale`: a random walk through the scan of `bmcd.mallows.footrule_scan`, O(n) a draw after
      O(n^2) once,
    * kendall: repeated insertion (Doignon, Pekec and Regenwetter 2004), O(n^2) a draw,
    * cayley: the Chinese restaurant process, item j + 1 opening a cycle with probability
      1 / (1 + j exp(-theta)) (after Diaconis 1988, chapter 6), O(n),
    * hamming: the number of displaced items from its exact law, which items uniformly, then a uniform
      derangement by rejection (e = 2.7 attempts on average), O(n),

    and, whatever the distance, for alpha = 0 (uniform). For **spearman and ulam** with alpha > 0 the draws
    come from one Metropolis chain: 500 sweeps of burn-in from rho, then every 50th sweep. They are
    approximate, and neighbouring draws are slightly correlated; a draw costs O(n) for spearman
    (0.3 ms at n = 100) and O(n^2 log n) for ulam (2 ms at n = 60).

    `seed` is an int, or a numpy Generator that is then advanced.

    >>> sample([1, 2, 3, 4], alpha=3.0, size=2, distance="kendall", seed=1).shape
    (2, 4)
    >>> sample([2, 1, 3], alpha=1000.0, size=1).tolist()  # all but certain to be rho itself
    [[2, 1, 3]]
    """
    check_distance(distance, rank_scale)
    consensus = check_ranks(rho, "rho")
    if consensus.ndim != 1:
        raise InputError(f"rho has shape {consensus.shape}: give one consensus ranking, a vector of n ranks")
    alphas = check_alpha(alpha)
    if alphas.ndim:
        raise InputError(f"alpha has shape {alphas.shape}: give one number, finite and 0 or more")
    n, n_draws = consensus.size, check_count("size", size, 0)
    theta = float(alphas) / n
    rng = np.random.default_rng(seed)
    g = scale_values(n, rank_scale)  # also refuses a wrong rank scale
    if theta == 0:
        sigma = rng.permuted(np.tile(np.arange(1, n + 1), (n_draws, 1)), axis=1)
    elif distance == "footrule":
        sigma = sample_scan(np.diff(g), theta, n_draws, rng)
    elif distance == "kendall":
        sigma = _kendall_draws(n, theta, n_draws, rng)
    elif distance == "cayley":
        sigma = _cayley_draws(n, theta, n_draws, rng)
    elif distance == "hamming":
        sigma = _hamming_draws(n, _draw_displaced(n, theta, n_draws, rng), rng)
    else:
        sigma = metropolis_sample(n, theta, distance, n_draws, BURN_IN, THIN, rng)
    # sigma[t] is the rank of the item at consensus rank t; item i stands at consensus rank rho_i.
    return sigma[:, consensus - 1]


def _draw_displaced(n: int, theta: float, size: int, rng: np.random.Generator) -> Integers:
    """Draw how many items are out of place, from its exact law."""
    exponents = hamming_log_counts(n) - theta * np.arange(n + 1)
    weights = np.exp(exponents - exponents.max())
    return rng.choice(n + 1, size=size, p=weights / weights.sum())


@numba.njit(cache=True)
def _kendall_draws(n, theta, size, rng):
    """Insert items in consensus order: an item that ends up before k of the j earlier ones costs k inversions."""
    out = np.empty((size, n), np.int64)
    order = np.empty(n, np.int64)
    for row in range(size):
        for j in range(n):
            # k on 0..j with probability proportional to exp(-theta k), by inversion; expm1 and log1p keep
            # a tiny theta right.
            if theta < 1e-290:
                k = int(rng.random() * (j + 1))
            else:
                k = int(-np.log1p(rng.random() * np.expm1(-theta * (j + 1))) / theta)
            k = min(k, j)  # rounding may touch the upper end
            for place in range(j, j - k, -1):
                order[place] = order[place - 1]
            order[j - k] = j
        for place in range(n):
            out[row, order[place]] = place + 1
    return out


@numba.njit(cache=True)
def _cayley_draws(n, theta, size, rng):
    """Give each item a new cycle or, at a cost of theta, a place right after an earlier item."""
    q = np.exp(-theta)
    out = np.empty((size, n), np.int64)
    for row in range(size):
        for j in range(n):
            out[row, j] = j + 1
            if rng.random() * (1.0 + j * q) >= 1.0:
                k = int(rng.random() * j)
                out[row, j], out[row, k] = out[row, k], out[row, j]
    return out


@numba.njit(cache=True)
def _hamming_draws(n, displaced, rng):
    """Displace that number of items in each draw: which ones at random, then a random derangement of them."""
    size = displaced.shape[0]
    out = np.empty((size, n), np.int64)
    items = np.arange(n)
    image = np.empty(n, np.int64)
    for row in range(size):
        d = displaced[row]
        for t in range(d):  # a uniform subset of d items to the front
            other = t + int(rng.random() * (n - t))
            items[t], items[other] = items[other], items[t]
        fixed = d > 0
        while fixed:  # shuffle until none of them is in its place
            fixed = False
            for t in range(d):
                other = int(rng.random() * (t + 1))
                image[t] = image[other]
                image[other] = t
            for t in range(d):
                if image[t] == t:
                    fixed = True
                    break
        for t in range(n):
            out[row, t] = t + 1
        for t in range(d):
            out[row, items[t]] = items[image[t]] + 1
    return out
