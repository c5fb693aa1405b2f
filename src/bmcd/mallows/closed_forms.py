"""log Z and E[d] where a formula is known: kendall, cayley, hamming, and any distance whose counts are known.

Each function takes n and theta = alpha / n and returns (log Z, E[d]), in O(n) and without checks. Compiled, because
the paper's sampler needs log Z for every proposal of alpha. All sums have positive terms, and log Z is formed with
log1p around the consensus (distance 0, weight 1), so that neither a tiny theta nor a huge one costs relative
accuracy.
"""

# Numba kernels carry no annotations: arrays in them are untyped on purpose.
# mypy: disable-error-code="no-untyped-def"

import math

import numba
import numpy as np
from numpy.typing import NDArray

# B_2k / (2k)! for k = 1, 2, ...: the series of x / expm1(x). At x <= 1 what is left out is below 1e-17.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600,
    -3617 / 10670622842880000, 43867 / 5109094217170944000, -174611 / 802857662698291200000,
)  # fmt: skip


@numba.njit(cache=True, nogil=True)
def _log1mexp(x):
    """Return log(1 - exp(-x)) for x > 0 (Maechler 2012: switch at log 2)."""
    return math.log(-math.expm1(-x)) if x < 0.6931471805599453 else math.log1p(-math.exp(-x))


@numba.njit(cache=True, nogil=True)
def _reciprocal_expm1(x):
    """Return 1 / expm1(x) for x > 0, without overflow."""
    return math.exp(-x) / -math.expm1(-x)


@numba.njit(cache=True, nogil=True)
def _h(x):
    """Return 1 / expm1(x) - 1 / x + 1 / 2 for 0 <= x <= 1, by its series, in which the two poles have cancelled."""
    total = 0.0
    for coefficient in _BERNOULLI[::-1]:
        total = total * x * x + coefficient
    return total * x


@numba.njit(cache=True, nogil=True)
def kendall(n, theta):
    """Use Z = prod_{j=1..n} (1 - q^j) / (1 - q) with q = exp(-theta) (Mallows 1957; Fligner and Verducci 1986).

    The distance is a sum of independent truncated geometric variables V_j on 0..j-1, with
    E[V_j] = 1 / expm1(theta) - j / expm1(j theta) = (j - 1) / 2 + h(theta) - j h(j theta).
    The first form is exact for large j theta, the second for small.
    """
    if theta < 1e-290:  # so near 0 that j * theta is not a normal number
        return math.lgamma(n + 1.0), n * (n - 1) / 4
    log_z, mean, first = 0.0, 0.0, _log1mexp(theta)
    for j in range(2, n + 1):
        log_z += _log1mexp(j * theta) - first
        if j * theta <= 1.0:
            mean += (j - 1) / 2 + _h(theta) - j * _h(j * theta)
        else:
            mean += _reciprocal_expm1(theta) - j * _reciprocal_expm1(j * theta)
    return log_z, mean


@numba.njit(cache=True, nogil=True)
def cayley(n, theta):
    """Use Z = prod_{j=1..n-1} (1 + j exp(-theta)) (Diaconis 1988, chapter 6; Fligner and Verducci 1986)."""
    log_z, mean, q = 0.0, 0.0, math.exp(-theta)
    for j in range(1, n):
        log_z += math.log1p(j * q)
        mean += j * q / (1.0 + j * q)
    return log_z, mean


@numba.njit(cache=True, nogil=True)
def from_log_counts(log_counts, theta):
    """Use the log number of permutations at each distance d = 0, 1, ..., of which there is one at distance 0."""
    top = 0.0
    for d in range(log_counts.size):
        top = max(top, log_counts[d] - theta * d)
    others, walked = 0.0, 0.0
    for d in range(1, log_counts.size):
        weight = math.exp(log_counts[d] - theta * d - top)
        others += weight
        walked += weight * d
    total = others + math.exp(-top)
    # Distance 0 has weight 1; log1p keeps a log Z near 0 exact.
    return math.log1p(others) if top == 0.0 else top + math.log(total), walked / total


def hamming(n: int, theta: float) -> tuple[float, float]:
    """Use Z = sum_{d=0..n} C(n, d) D_d exp(-theta d), D_d the derangements (Fligner and Verducci 1986).

    >>> [round(value, 12) for value in hamming(2, 0.0)]
    [0.69314718056, 1.0]
    """
    log_z, mean = from_log_counts(hamming_log_counts(n), theta)
    return log_z, mean


def hamming_log_counts(n: int) -> NDArray[np.float64]:
    """Return the log number of permutations with d entries out of place, d = 0..n: C(n, d) D_d.

    D_d are the derangements, D_d / d! = sum_{k<=d} (-1)^k / k!, hence C(n, d) D_d = n (n-1) ... (n-d+1) times
    that sum.

    >>> np.exp(hamming_log_counts(3)).round(12).tolist()
    [1.0, 0.0, 3.0, 2.0]
    """
    share, term = [1.0], 1.0
    for k in range(1, n + 1):
        term /= -k
        share.append(share[-1] + term)
    out: NDArray[np.float64] = np.concatenate([[0.0], np.cumsum(np.log(np.arange(n, 0.0, -1)))])
    out[2:] += np.log(share[2:])
    if n >= 1:
        out[1] = -np.inf  # one entry alone cannot be out of place
    return out
