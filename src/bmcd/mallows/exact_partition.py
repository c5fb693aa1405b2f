"""log Z and E[d] without estimates: product formulas, and sums over counts, subsets and partitions of n.

Each function takes n and theta = alpha / n and returns (log Z, E[d]), without checks: `bmcd.mallows.partition`
checks and dispatches. kendall, cayley and hamming take O(n); spearman (n <= 20) sums over subsets, ulam (n <= 80)
over partitions of n. Compiled, because the paper's sampler needs log Z for every proposal of alpha. All sums have
positive terms, and log Z is formed with log1p around the consensus (distance 0, weight 1), so that neither a tiny
theta nor a huge one costs relative accuracy.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from functools import cache
from math import lgamma

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


SPEARMAN_LIMIT = 20
ULAM_LIMIT = 80


def spearman(n: int, theta: float) -> tuple[float, float]:
    """Return (log Z, E[d]) for d = sum of squared rank differences, n <= SPEARMAN_LIMIT.

    Z is the permanent of exp(-theta (t - i)^2), summed over subsets: f[S] is the weight of giving the ranks
    in S to the first |S| items, f[S] = sum_{i in S} f[S without i] exp(-theta (|S| - i)^2). All terms are
    positive, so nothing cancels. O(n 2^n) time, two arrays of 2^n.

    >>> [round(value, 12) for value in spearman(2, 0.0)]
    [0.69314718056, 1.0]
    """
    others, moment = permanent_over_subsets(n, theta)
    return float(np.log1p(others)), float(moment / (1 + others))


@numba.njit(cache=True)
def permanent_over_subsets(n, theta):
    """Return the weight of all permutations but the identity, and the sum of weight times distance.

    The identity's weight 1 is left out of `weight` and put back where it is used (the set is 1..k), so
    that a Z barely above 1 keeps its digits.
    """
    factor = np.empty(n)
    for gap in range(n):
        factor[gap] = np.exp(-theta * gap * gap)
    size = 1 << n
    weight = np.zeros(size)
    moment = np.zeros(size)
    for chosen in range(1, size):
        k = 0
        left = chosen
        while left:
            left &= left - 1
            k += 1
        total = 0.0
        total_moment = 0.0
        for i in range(n):
            if chosen >> i & 1:
                before = chosen ^ (1 << i)
                gap = k - 1 - i
                step = factor[abs(gap)]
                before_weight = weight[before]
                if before == (1 << (k - 1)) - 1:  # the identity so far ...
                    if gap == 0:  # ... and still: not counted
                        total += before_weight
                        total_moment += moment[before]
                        continue
                    before_weight += 1.0
                total += before_weight * step
                total_moment += (moment[before] + before_weight * gap * gap) * step
        weight[chosen] = total
        moment[chosen] = total_moment
    return weight[size - 1], moment[size - 1]


def ulam(n: int, theta: float) -> tuple[float, float]:
    """Return (log Z, E[d]) for d = n minus the longest increasing subsequence, n <= ULAM_LIMIT.

    >>> [round(value, 12) for value in ulam(3, 0.0)]  # distances 0, 1, 1, 1, 1, 2
    [1.791759469228, 1.0]
    """
    log_z, mean = from_log_counts(ulam_log_counts(n), theta)
    return log_z, mean


@cache
def ulam_log_counts(n: int) -> NDArray[np.float64]:
    """Return the log number of permutations at Ulam distance d = 0..n-1 from the identity.

    By the Robinson-Schensted correspondence (Schensted 1961) it is the sum of (f^lambda)^2 over the
    partitions lambda of n with largest part n - d, where f^lambda = n! / product of hook lengths (Frame,
    Robinson and Thrall 1954). Visits all p(n) partitions, 16 million at n = 80 (half a second), on the first
    call for each n.

    >>> np.exp(ulam_log_counts(3)).round(12).tolist()
    [1.0, 4.0, 1.0]
    """
    shares = _largest_part_law(n, float(np.exp(lgamma(n + 1))))
    out: NDArray[np.float64] = np.log(shares[:0:-1]) + lgamma(n + 1)
    out[0] = 0.0  # the identity alone, exactly
    out.flags.writeable = False  # the cache hands the same array to everyone
    return out


@numba.njit(cache=True)
def _largest_part_law(n, factorial):
    """Return share[l], the sum over partitions of n with largest part l of n! / hooks^2 (the Plancherel measure).

    A diagram is built from its shortest row upwards. A hook reaches over its own row and the rows below, so a new,
    longer row on top leaves the hooks of the others as they are. `column[j]` counts rows longer than j. Doubles
    suffice: hooks <= n! < 1e308 for n <= 170.
    """
    share = np.zeros(n + 1)
    column = np.zeros(n + 1, np.int64)
    row = np.zeros(n + 1, np.int64)  # row[depth] = length of the row placed at that depth
    hooks = np.ones(n + 1)  # hooks[depth] = product over the rows placed before it
    left = np.zeros(n + 1, np.int64)  # left[depth] = cells still to place at that depth
    left[0] = n
    depth = 0
    row[0] = 0
    while depth >= 0:
        shortest = row[depth]
        if shortest > 0:  # take the last row tried at this depth off again
            for j in range(shortest):
                column[j] -= 1
        elif depth > 0:
            shortest = row[depth - 1] - 1
        length = shortest + 1
        rest = left[depth]
        if 2 * length <= rest:  # room for this row and one at least as long
            product = hooks[depth]
            for j in range(length):
                product *= length - j + column[j]
                column[j] += 1
            row[depth] = length
            hooks[depth + 1] = product
            left[depth + 1] = rest - length
            depth += 1
            row[depth] = 0
        else:  # the rest as one last row, then back
            product = hooks[depth]
            for j in range(rest):
                product *= rest - j + column[j]
            share[rest] += factorial / product / product
            row[depth] = 0
            depth -= 1
    return share
