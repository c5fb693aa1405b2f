"""Log partition function and mean distance where a formula is known: kendall, cayley, hamming.

Each function takes n and theta = alpha / n and returns (log Z, E[d]). No checks here. All sums have
positive terms, and log Z is formed with log1p around the consensus (distance 0, weight 1), so that
neither a tiny theta nor a huge one costs relative accuracy.
"""

from math import lgamma

import numpy as np
from numpy.typing import NDArray

__all__ = ["cayley", "from_log_counts", "hamming", "hamming_log_counts", "kendall"]

Floats = NDArray[np.float64]

# B_2k / (2k)! for k = 1, 2, ...: the series of x / expm1(x). At x <= 1 what is left out is below 1e-17.
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)


def _log1mexp(x: Floats) -> Floats:
    """log(1 - exp(-x)) for x > 0 (Maechler 2012: switch at log 2)."""
    small = x < np.log(2)
    out = np.empty_like(x)
    out[small] = np.log(-np.expm1(-x[small]))
    out[~small] = np.log1p(-np.exp(-x[~small]))
    return out


def _reciprocal_expm1(x: Floats) -> Floats:
    """1 / expm1(x) for x > 0, without overflow."""
    return np.exp(-x) / -np.expm1(-x)


def _h(x: Floats) -> Floats:
    """1 / expm1(x) - 1 / x + 1 / 2 for 0 <= x <= 1, by its series: the two poles cancel on paper."""
    square = x * x
    total = np.zeros_like(x)
    for coefficient in reversed(_BERNOULLI):
        total = total * square + coefficient
    return total * x


def kendall(n: int, theta: float) -> tuple[float, float]:
    """Z = prod_{j=1..n} (1 - q^j) / (1 - q) with q = exp(-theta) (Mallows 1957; Fligner and Verducci 1986).

    The distance is a sum of independent truncated geometric variables V_j on 0..j-1, with
    E[V_j] = 1 / expm1(theta) - j / expm1(j theta) = (j - 1) / 2 + h(theta) - j h(j theta).
    The first form is exact for large j theta, the second for small. O(n).

    >>> [round(value, 12) for value in kendall(2, 0.0)]  # both rankings alike: log 2 and half an inversion
    [0.69314718056, 0.5]
    """
    if theta < 1e-290:  # so near 0 that j * theta is not a normal number
        return lgamma(n + 1), n * (n - 1) / 4
    j = np.arange(1.0, n + 1)
    first = np.full(n, theta)
    log_z = float(np.sum(_log1mexp(j * theta) - _log1mexp(first)))
    small = j * theta <= 1
    near, far = j[small], j[~small]
    mean = np.sum((near - 1) / 2 + _h(first[small]) - near * _h(near * theta))
    mean += np.sum(_reciprocal_expm1(first[~small]) - far * _reciprocal_expm1(far * theta))
    return log_z, float(mean)


def cayley(n: int, theta: float) -> tuple[float, float]:
    """Z = prod_{j=1..n-1} (1 + j exp(-theta)) (Diaconis 1988, chapter 6; Fligner and Verducci 1986). O(n).

    >>> [round(value, 12) for value in cayley(3, 0.0)]  # distances 0, 1, 1, 1, 2, 2: log 6 and 7 / 6
    [1.791759469228, 1.166666666667]
    """
    odds = np.arange(1.0, n) * np.exp(-theta)
    return float(np.sum(np.log1p(odds))), float(np.sum(odds / (1 + odds)))


def hamming_log_counts(n: int) -> Floats:
    """log of the number of permutations with d entries out of place, d = 0..n: C(n, d) D_d.

    D_d are the derangements, D_d / d! = sum_{k<=d} (-1)^k / k!, hence C(n, d) D_d = n (n-1) ... (n-d+1) times
    that sum.

    >>> np.exp(hamming_log_counts(3)).round(12).tolist()
    [1.0, 0.0, 3.0, 2.0]
    """
    share, term = [1.0], 1.0
    for k in range(1, n + 1):
        term /= -k
        share.append(share[-1] + term)
    out = np.concatenate([[0.0], np.cumsum(np.log(np.arange(n, 0.0, -1)))])
    out[2:] += np.log(share[2:])
    if n >= 1:
        out[1] = -np.inf  # one entry alone cannot be out of place
    return out


def from_log_counts(log_counts: Floats, theta: float) -> tuple[float, float]:
    """(log Z, E[d]) from the log number of permutations at each distance d = 0, 1, ...

    >>> [round(value, 12) for value in from_log_counts(np.log([1.0, 1.0]), 0.0)]
    [0.69314718056, 0.5]
    """
    d = np.arange(log_counts.size)
    exponents = log_counts - theta * d
    top = float(np.max(exponents))
    weights = np.exp(exponents - top)
    mean = float(np.sum(weights * d) / np.sum(weights))
    if top > 0:
        return top + float(np.log(np.sum(weights))), mean
    return float(np.log1p(np.sum(weights[1:]))), mean


def hamming(n: int, theta: float) -> tuple[float, float]:
    """Z = sum_{d=0..n} C(n, d) D_d exp(-theta d), D_d the derangements (Fligner and Verducci 1986). O(n).

    >>> [round(value, 12) for value in hamming(2, 0.0)]
    [0.69314718056, 1.0]
    """
    return from_log_counts(hamming_log_counts(n), theta)
