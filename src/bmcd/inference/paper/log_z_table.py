"""Tables of log Z by alpha, for the distances that have no formula that is cheap at any alpha.

These are spearman beyond 12 items and ulam beyond 80. At the knots log Z is exact where that is feasible (spearman
to 20 items), and otherwise estimated by annealed importance sampling. A cubic spline is fitted to log Z *and* to
its slope -E[d] / n by least squares, each weighted with its standard error, and tied to log n! at alpha = 0. The
slope matters more than the value: the number of a cluster's users multiplies an error of the slope, and a spline
through noisy values alone would put false modes into the posterior of alpha. `table_uncertainty` tells what the
estimates leave in doubt.
"""

from __future__ import annotations

from functools import cache
from math import lgamma, log1p
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from bmcd.mallows import estimation, exact_partition
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
