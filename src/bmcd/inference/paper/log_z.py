"""log Z of all six distances inside compiled code, where proposals for alpha need it at any value.

| distance                       | method       | cost        |
|--------------------------------|--------------|-------------|
| footrule, any rank scale       | SCAN         | n^2 / 4     |
| kendall                        | INVERSIONS   | n           |
| cayley                         | CYCLES       | n           |
| hamming; ulam to 80 items      | COUNTS       | n           |
| spearman to 12 items           | SUBSETS      | n 2^n       |
| spearman and ulam beyond       | TABLE        | a lookup    |

All but TABLE are exact. `bmcd.mallows.log_partition` is what users call; the tests compare the two.

At the knots of a table log Z is exact where that is feasible (spearman to 20 items), and otherwise estimated by
annealed importance sampling. A cubic spline is fitted to log Z *and* to its slope -E[d] / n by least squares,
each weighted with its standard error, and tied to log n! at alpha = 0. The slope matters more than the value: the
number of a cluster's users multiplies an error of the slope, and a spline through noisy values alone would put
false modes into the posterior of alpha. `table_uncertainty` returns what the estimates leave in doubt.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from functools import cache
from math import lgamma, log1p
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from bmcd.mallows import estimation, exact_partition
from bmcd.mallows.footrule_scan import scan_both_halves
from bmcd.utils import Floats

KNOTS = 40
LEAST_KNOTS = 8
# Least standard error a knot can have: what is exact, and the known value at 0, weigh this much.
EXACT = 1e-9


class LogZUncertainty(NamedTuple):
    """Standard errors of a table, by alpha."""

    log_z: Floats
    slope: Floats  # of log Z by alpha


def is_estimated(distance: str, n_items: int) -> bool:
    """Return whether the paper's sampler has to estimate log Z."""
    limits = {"spearman": exact_partition.SPEARMAN_LIMIT, "ulam": exact_partition.ULAM_LIMIT}
    return n_items > limits.get(distance, n_items)


def table_uncertainty(
    distance: str, n_items: int, alphas: Floats, max_alpha: float | None = None
) -> LogZUncertainty:
    """Return what the errors of the knots leave in doubt, for a distance whose log Z `is_estimated`."""
    table = make_table(distance, n_items, max_alpha)
    x = np.log1p(alphas / table.unit)
    value, slope = (
        np.sqrt(((row @ table.covariance) * row).sum(-1)) for row in (table.basis(x), table.basis(x, 1))
    )
    return LogZUncertainty(value, slope / (table.unit + alphas))


class LogZTable(NamedTuple):
    """A fitted table of log Z, and how sure it is."""

    unit: float  # knots stand at equal steps of x = log(1 + alpha / unit)
    step: float
    last: float  # the largest alpha
    spline: CubicSpline  # log Z by x
    basis: CubicSpline  # the splines that are 1 at one knot and 0 at the others
    covariance: Floats  # of log Z at the knots


@cache
def make_table(distance: str, n: int, max_alpha: float | None) -> LogZTable:
    """Return the table of log Z up to ``max_alpha``, or as far as data can matter; made once in a process."""
    # Near 0, log Z bends where alpha / n times the spread of d under uniform rankings is about 1.
    spread = n * (n + 1) * np.sqrt(n - 1) / 6 if distance == "spearman" else 0.9 * n ** (1 / 6)
    unit = float(n / spread)
    # Here nearly every ranking drawn is the consensus, so no data lie beyond: a swap of neighbours costs
    # exp(-2) under spearman; the (n - 1)^2 rankings at ulam distance 1 weigh exp(-2) together.
    wanted = max_alpha or (float(n) if distance == "spearman" else 2 * n * (np.log(n) + 1))
    step = log1p(wanted / unit) / (KNOTS - 1)
    x = step * np.arange(KNOTS)
    alphas = unit * np.expm1(x)
    values, slopes = np.zeros((2, KNOTS)), np.zeros((2, KNOTS))  # estimate, standard error
    values[:, 0] = lgamma(n + 1), EXACT
    # Half of the largest distance is the mean over all rankings; ulam's mean is not known, its value is enough.
    slopes[:, 0] = (-(n * n - 1) / 6, EXACT) if distance == "spearman" else (0.0, np.inf)
    for k in range(1, KNOTS):
        try:
            values[:, k], slopes[:, k] = knot(distance, n, float(alphas[k]), k)
        except ValueError:
            # Importance sampling breaks down here (ulam: it cannot cross from nearly uniform to nearly sorted). The
            # table then ends at the knot before, unless more was asked for.
            if max_alpha is not None or k < LEAST_KNOTS:
                raise
            x, alphas, values, slopes = x[:k], alphas[:k], values[:, :k], slopes[:, :k]
            break
    slopes *= unit * np.exp(x)  # d alpha / d x
    basis = CubicSpline(x, np.eye(x.size))
    weights = 1 / np.concatenate([values[1], slopes[1]])
    design = np.concatenate([np.eye(x.size), basis(x, 1)]) * weights[:, None]
    target = np.concatenate([values[0], slopes[0]]) * weights
    fitted = CubicSpline(x, np.linalg.lstsq(design, target)[0])
    inverse = np.linalg.pinv(design).astype(np.float64)  # and not that of design' design: weights differ by 10^9
    return LogZTable(unit, step, float(alphas[-1]), fitted, basis, inverse @ inverse.T)


def knot(distance: str, n: int, alpha: float, k: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return (log Z, standard error) and (d log Z / d alpha, standard error), infinite where nothing is known."""
    if distance == "spearman" and n <= exact_partition.SPEARMAN_LIMIT:
        log_z, mean = exact_partition.spearman(n, alpha / n)
        return (log_z, EXACT), (-mean / n, EXACT)
    # The seed depends on the knot only: every chain and every resumed run has the same table.
    estimate = estimation.importance(n, alpha / n, distance, np.random.default_rng([n, k]))
    value = estimate.log_partition, max(estimate.log_partition_error, EXACT)
    if np.isnan(estimate.expected_distance_error):
        return value, (0.0, np.inf)
    return value, (-estimate.expected_distance / n, max(estimate.expected_distance_error / n, EXACT))


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
