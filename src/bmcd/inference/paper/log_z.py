"""log Z of all six distances inside compiled code, where proposals for alpha need it at any value.

| distance                       | method       | cost                                         |
|--------------------------------|--------------|----------------------------------------------|
| footrule, any rank scale       | SCAN         | n^2 / 4                                      |
| kendall                        | INVERSIONS   | n                                            |
| cayley                         | CYCLES       | n                                            |
| hamming; ulam to 80 items      | COUNTS       | n                                            |
| spearman to 12 items           | SUBSETS      | n 2^n                                        |
| spearman and ulam beyond       | TABLE        | a lookup (`bmcd.inference.paper.log_z_table`) |

All but TABLE are exact. `bmcd.mallows.log_partition` is what users call; the tests compare the two.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.inference.paper.log_z_table import make_table
from bmcd.mallows import exact_partition
from bmcd.mallows.footrule_scan import scan_both_halves

SCAN, INVERSIONS, CYCLES, COUNTS, SUBSETS, TABLE = range(6)
# Up to here n 2^n additions for each proposal of alpha cost less than the rest of ten iterations.
SUBSET_LIMIT = 12


class LogZMethod(NamedTuple):
    """How log Z is computed, and from what; the fields of the other methods are empty."""

    method: int
    n_items: int
    max_alpha: float  # no proposal above; infinite unless TABLE, or asked for
    gaps: NDArray[np.float64] = np.zeros(0)  # SCAN: g(t + 1) - g(t)
    log_counts: NDArray[np.float64] = np.zeros(0)  # COUNTS: log number of rankings at distance 0, 1, ...
    alpha_unit: float = 1.0  # TABLE: the knots stand at equal steps of x = log(1 + alpha / alpha_unit), from 0
    knot_step: float = 1.0
    coefficients: NDArray[np.float64] = np.zeros((0, 4))  # TABLE: [interval, power] of x - knot, power 0 to 3


def choose_method(distance: str, scale: NDArray[np.float64], max_alpha: float | None = None) -> LogZMethod:
    """Return what `log_z_at` needs for ``distance`` on the ranks ``scale``: an exact method, or a table.

    ``max_alpha`` is where a table ends. Exact methods have no end unless it is given.
    """
    n, end = scale.size, np.inf if max_alpha is None else float(max_alpha)
    if distance == "footrule":
        return LogZMethod(SCAN, n, end, gaps=np.diff(scale))
    if distance == "kendall":
        return LogZMethod(INVERSIONS, n, end)
    if distance == "cayley":
        return LogZMethod(CYCLES, n, end)
    if distance == "hamming":
        return LogZMethod(COUNTS, n, end, log_counts=exact_partition.hamming_log_counts(n))
    if distance == "ulam" and n <= exact_partition.ULAM_LIMIT:
        return LogZMethod(COUNTS, n, end, log_counts=exact_partition.ulam_log_counts(n).copy())
    if distance == "spearman" and n <= SUBSET_LIMIT:
        return LogZMethod(SUBSETS, n, end)
    table = make_table(distance, n, max_alpha)
    coefficients = np.ascontiguousarray(table.spline.c[::-1].T)
    return LogZMethod(TABLE, n, table.last, alpha_unit=table.unit, knot_step=table.step, coefficients=coefficients)


@numba.njit(cache=True, nogil=True)
def log_z_at(source, alpha):
    """Return log Z_n(alpha) for 0 < alpha <= max_alpha; ``source`` is a `LogZMethod`."""
    n = source.n_items
    theta = alpha / n
    if n == 1:
        return 0.0
    if source.method == SCAN:
        return scan_both_halves(source.gaps, theta, False)[0]
    if source.method == INVERSIONS:
        return exact_partition.kendall(n, theta)[0]
    if source.method == CYCLES:
        return exact_partition.cayley(n, theta)[0]
    if source.method == COUNTS:
        return exact_partition.from_log_counts(source.log_counts, theta)[0]
    if source.method == SUBSETS:
        return math.log1p(exact_partition.permanent_over_subsets(n, theta)[0])
    x = math.log1p(alpha / source.alpha_unit)
    interval = min(int(x / source.knot_step), source.coefficients.shape[0] - 1)
    row = source.coefficients[interval]
    x -= interval * source.knot_step
    return row[0] + x * (row[1] + x * (row[2] + x * row[3]))
