"""log Z and E[d] by counting: spearman (n <= 20) over subsets, ulam (n <= 80) over partitions of n.

There are no checks here; `bmcd.mallows.partition` checks and dispatches.
"""

# Numba kernels carry no annotations: arrays in them are untyped on purpose.
# mypy: disable-error-code="no-untyped-def"

from functools import cache
from math import lgamma

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.closed_forms import from_log_counts

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
