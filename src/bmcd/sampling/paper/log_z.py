"""log Z of all six distances inside compiled code, where proposals for alpha need it at any value.

| distance                       | method       | cost                          |
|--------------------------------|--------------|-------------------------------|
| footrule, any rank scale       | SCAN         | n^2 / 4                       |
| kendall                        | INVERSIONS   | n                             |
| cayley                         | CYCLES       | n                             |
| hamming; ulam to 80 items      | COUNTS       | n                             |
| spearman to 12 items           | SUBSETS      | n 2^n                         |
| spearman and ulam beyond       | TABLE        | a lookup (`bmcd.sampling.paper.log_z_table`) |

All but TABLE are exact; their twins are in `bmcd.mallows`.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.counting import _permanent_over_subsets
from bmcd.mallows.footrule_scan import _scan

SCAN, INVERSIONS, CYCLES, COUNTS, SUBSETS, TABLE = range(6)


class Partition(NamedTuple):
    """What log Z is computed from; a method uses its own fields, the others are empty."""

    method: int
    n_items: int
    gaps: NDArray[np.float64]  # SCAN: g(t + 1) - g(t)
    log_counts: NDArray[np.float64]  # COUNTS: log number of rankings at distance 0, 1, ...
    alpha_unit: float  # TABLE: the knots stand at equal steps of x = log(1 + alpha / alpha_unit), from 0
    knot_step: float
    coefficients: NDArray[np.float64]  # TABLE: [interval, power] of x - knot, power 0 to 3
    max_alpha: float  # no proposal above; infinite unless TABLE


@numba.njit(cache=True, nogil=True)
def _log1mexp(x):
    """log(1 - exp(-x)) for x > 0 (Maechler 2012: switch at log 2)."""
    return math.log(-math.expm1(-x)) if x < 0.6931471805599453 else math.log1p(-math.exp(-x))


@numba.njit(cache=True, nogil=True)
def log_partition_kernel(partition, alpha):
    """log Z_n(alpha) for 0 < alpha <= max_alpha."""
    n = partition.n_items
    theta = alpha / n
    if n == 1:
        return 0.0
    if partition.method == SCAN:
        return _scan(partition.gaps, theta, False)[0]
    if partition.method == INVERSIONS:
        if theta < 1e-290:
            return math.lgamma(n + 1.0)
        total, first = 0.0, _log1mexp(theta)
        for j in range(2, n + 1):
            total += _log1mexp(j * theta) - first
        return total
    if partition.method == CYCLES:
        total, q = 0.0, math.exp(-theta)
        for j in range(1, n):
            total += math.log1p(j * q)
        return total
    if partition.method == COUNTS:
        counts = partition.log_counts
        top = 0.0
        for d in range(counts.size):
            top = max(top, counts[d] - theta * d)
        total = 0.0
        for d in range(1, counts.size):
            total += math.exp(counts[d] - theta * d - top)
        # Distance 0 has weight 1; log1p keeps a log Z near 0 exact.
        return math.log1p(total) if top == 0.0 else top + math.log(total + math.exp(-top))
    if partition.method == SUBSETS:
        return math.log1p(_permanent_over_subsets(n, theta)[0])
    x = math.log1p(alpha / partition.alpha_unit)
    interval = min(int(x / partition.knot_step), partition.coefficients.shape[0] - 1)
    row = partition.coefficients[interval]
    x -= interval * partition.knot_step
    return row[0] + x * (row[1] + x * (row[2] + x * row[3]))
