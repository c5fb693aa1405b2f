"""Estimates of log Z and E[d], with standard errors, where no exact answer is within reach.

`importance` is annealed importance sampling, which is unbiased for Z and has a standard error from independent
runs. `asymptotic` is the large-n limit that others use. It is kept for comparison; its error is unknown.
"""

# Numba kernels carry no annotations: arrays in them are untyped on purpose.
# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass
from math import lgamma

import numba
import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.mallows.distances import DISTANCES, FOOTRULE, ULAM, check_distance, make_scratch
from bmcd.mallows.footrule_scan import expected_distance_scan, log_partition_scan, sample_scan
from bmcd.mallows.metropolis import distance_to_identity, gap_table, metropolis, metropolis_sample
from bmcd.mallows.rank_scale import scale_values
from bmcd.utils import Floats, Integers

RUNS = 160
# Steps are chosen for a variance of the log weight near TARGET_VARIANCE, within the budget of proposals.
TARGET_VARIANCE = 0.1
# A sweep does not make the next state independent of the last; this many times more steps make up for it.
MIXING_SWEEPS = 4.0
MIN_STEPS = 40
BUDGET = 100_000_000  # swaps, some 4 seconds
MIN_STEPS_AT_TARGET = 20
MIN_EFFECTIVE = 30.0
MIN_EFFECTIVE_SHARE = 0.1
# Distances near enough to the footrule to start from its exact draws; the others start from uniform ones.
NEAR_FOOTRULE = ("spearman", "kendall")


@dataclass(frozen=True)
class Estimate:
    """Estimates of log Z and E[d], and their standard errors.

    `expected_distance_error` is nan where fewer than 30 runs carry the mean, so that its error is unknown.
    """

    log_partition: float
    log_partition_error: float
    expected_distance: float
    expected_distance_error: float


# --------------------------------------------------------------------------- annealed importance sampling


def importance(
    n: int,
    theta: float,
    distance: str,
    rng: np.random.Generator,
    *,
    rank_scale: ArrayLike = "linear",
    effort: float = 1.0,
) -> Estimate:
    """Estimate log Z and E[d] by annealed importance sampling (Neal 2001, Statistics and Computing 11).

    Each of 160 independent runs starts with an exact draw from the footrule model with some beta. Metropolis moves
    at 0 = s_0 < s_1 < ... = 1 lead it to the target through exp(-U_s), U_s = (1 - s) beta footrule + s theta d. Its
    weight is w = prod_k exp(-(s_{k+1} - s_k) (theta d - beta footrule)), with the distances before the k-th moves,
    and E[w] = Z / Z_footrule(beta) exactly, whatever the mixing. So log Z = log Z_footrule + log mean w, with
    standard error sd(w) / (mean(w) sqrt(runs)) (delta method), and E[d] = sum w d / sum w, where d is averaged over
    some more steps at the target.

    For spearman and kendall beta is chosen to match the mean footrule distance of the target, which is the
    nearest footrule model in the sense of Kullback and Leibler; for the others beta = 0, a uniform start.
    A pilot measures the spread of theta d - beta footrule along the way. The s_k are spaced evenly in
    thermodynamic length, the integral of that spread, and their number grows with its square, up to a budget
    of 1e8 proposals (`effort` multiplies both). Spearman, alpha = 3 to 100: standard error of log Z 0.01 to
    0.04 in 0.1 s at n = 50, 0.5 s at n = 100, 2 s at n = 200.

    Raises InputError where the effective number of runs, (sum w)^2 / sum w^2, is below 30 or below a tenth of the
    runs, because the standard error itself could not be trusted then.

    >>> from bmcd.mallows.exact_partition import hamming
    >>> estimate = importance(5, 0.5, "hamming", np.random.default_rng(0))
    >>> abs(estimate.log_partition - hamming(5, 0.5)[0]) < 5 * estimate.log_partition_error
    True
    """
    check_distance(distance, rank_scale)
    code, g, gaps = DISTANCES.index(distance), scale_values(n, rank_scale), gap_table(n)
    widths = np.diff(g)
    beta = _nearest_footrule(n, theta, distance, widths, rng) if distance in NEAR_FOOTRULE else 0.0
    # An ulam proposal costs O(n log n) instead of O(1), so it gets fewer of them between steps.
    proposals = max(1, n // 4) if code == ULAM else n
    cost = max(1.0, n / 3) if code == ULAM else 1.0

    grid, length = _thermodynamic_length(n, theta, beta, code, g, gaps, proposals, rng)
    affordable = effort * BUDGET / (RUNS * proposals * cost)
    wanted = effort * MIXING_SWEEPS * (n / proposals) * length[-1] ** 2 / TARGET_VARIANCE
    steps = int(max(min(wanted, affordable), MIN_STEPS))
    steps_at_target = max(MIN_STEPS_AT_TARGET, steps // 2)
    schedule = np.interp(np.linspace(0, length[-1], steps + 1), length, grid)

    start = sample_scan(widths, beta, RUNS, rng) - 1
    log_weight, mean_d = _anneal(start, schedule, theta, beta, steps_at_target, code, g, gaps, proposals, rng)
    return _summarise(n, theta, log_partition_scan(widths, beta), log_weight, mean_d)


def _nearest_footrule(n: int, theta: float, distance: str, widths: Floats, rng: np.random.Generator) -> float:
    """Return the beta whose footrule model has the target's mean footrule distance, from a short chain."""
    states = metropolis_sample(n, theta, distance, 100, 100, 2, rng)
    wanted = float(np.abs(states - np.arange(1, n + 1)).sum(axis=1).mean())
    # Any beta is valid, so a rough root will do; keep away from 0 distance, where beta would be infinite.
    wanted = max(wanted, 0.1)
    low, high = 0.0, 1.0
    while expected_distance_scan(widths, high) > wanted and high < 64:
        high *= 2
    for _ in range(20):
        middle = (low + high) / 2
        if expected_distance_scan(widths, middle) > wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _thermodynamic_length(
    n: int,
    theta: float,
    beta: float,
    code: int,
    g: Floats,
    gaps: Integers,
    proposals: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Return a grid of s from 0 to 1 and, from a pilot, the integral of sd(theta d - beta footrule) up to each."""
    chains, points, sweeps = 16, 40, 4
    start = sample_scan(np.diff(g), beta, chains * sweeps, rng) - 1
    spread = np.array([_difference(sigma, theta, beta, code, g) for sigma in start]).std()
    # From where s first matters on: from there to 1 the spread often falls about as a power of s.
    lowest = min(0.1, 0.1 / max(float(spread), 1e-9))
    grid = np.concatenate([[0.0], np.geomspace(lowest, 1.0, points)])
    grid[-1] = 1.0
    spreads = _pilot(start[:chains], grid, theta, beta, sweeps, code, g, gaps, proposals, rng)
    # spread * s is the smooth quantity in log s; on the first stretch the spread is flat.
    pieces = np.empty(points)
    pieces[0] = spreads[0] * grid[1]
    pieces[1:] = 0.5 * np.diff(np.log(grid[1:])) * (spreads[1:-1] * grid[1:-1] + spreads[2:] * grid[2:])
    # A floor keeps the length increasing where the pilot saw no spread at all (all chains at the consensus).
    return grid, np.concatenate([[0.0], np.cumsum(np.maximum(pieces, 1e-3))])


def _summarise(n: int, theta: float, log_base: float, log_weight: Floats, mean_d: Floats) -> Estimate:
    runs = log_weight.size
    top = float(log_weight.max())
    w = np.exp(log_weight - top)
    total = float(w.sum())
    effective = float(total**2 / (w**2).sum())
    needed = max(MIN_EFFECTIVE, MIN_EFFECTIVE_SHARE * runs)
    if effective < needed:
        raise InputError(
            f"importance sampling breaks down at n_items={n}, alpha={theta * n:g}: of {runs} runs only "
            f"{effective:.1f} count, and {needed:g} are needed before a standard error can be trusted. "
            "Use a smaller alpha, fewer items, or a distance with an exact answer for any n "
            "(footrule, kendall, cayley, hamming)"
        )
    share = w / total
    mean = float((share * mean_d).sum())
    # Near the consensus few runs, or none, ever leave it: then their spread is not informative about the error.
    carriers = 1 / float(((share * mean_d / mean) ** 2).sum()) if mean > 0 else 0.0
    error = float(((share * (mean_d - mean)) ** 2).sum() * runs / (runs - 1)) ** 0.5
    return Estimate(
        log_partition=log_base + top + float(np.log(total / runs)),
        log_partition_error=float(w.std(ddof=1)) / (total / runs) / runs**0.5,
        expected_distance=mean,
        expected_distance_error=error if carriers >= MIN_EFFECTIVE else float("nan"),
    )


@numba.njit(cache=True)
def _difference(sigma, theta, beta, code, g):
    return theta * distance_to_identity(sigma, code, g) - beta * distance_to_identity(sigma, FOOTRULE, g)


@numba.njit(cache=True)
def _anneal(start, schedule, theta, beta, more, code, g, gaps, proposals, rng):
    """Return the log weight of each run, and its mean distance over ``more`` steps at the target.

    Those steps leave the target's law unchanged, so averaging over them keeps the weighted mean valid.
    """
    runs, n = start.shape
    log_weight = np.zeros(runs)
    mean_d = np.zeros(runs)
    scratch = make_scratch(n)
    totals = np.empty(2)
    for run in range(runs):
        sigma = start[run].copy()
        totals[0] = distance_to_identity(sigma, code, g)
        totals[1] = distance_to_identity(sigma, FOOTRULE, g)
        for k in range(1, schedule.shape[0]):
            s = schedule[k]
            log_weight[run] -= (s - schedule[k - 1]) * (theta * totals[0] - beta * totals[1])
            metropolis(sigma, totals, s * theta, (1.0 - s) * beta, code, g, gaps, proposals, scratch, rng)
        for _ in range(more):
            metropolis(sigma, totals, theta, 0.0, code, g, gaps, proposals, scratch, rng)
            mean_d[run] += totals[0] / more
    return log_weight, mean_d


@numba.njit(cache=True)
def _pilot(start, grid, theta, beta, sweeps, code, g, gaps, proposals, rng):
    """Return the standard deviation of theta d - beta footrule at each grid point, over chains and sweeps."""
    chains, n = start.shape
    seen = np.empty((grid.shape[0], chains * sweeps))
    scratch = make_scratch(n)
    totals = np.empty(2)
    for chain in range(chains):
        sigma = start[chain].copy()
        totals[0] = distance_to_identity(sigma, code, g)
        for k in range(grid.shape[0]):
            for sweep in range(sweeps):
                theta_k, beta_k = grid[k] * theta, (1.0 - grid[k]) * beta
                metropolis(sigma, totals, theta_k, beta_k, code, g, gaps, proposals, scratch, rng)
                seen[k, chain * sweeps + sweep] = _difference(sigma, theta, beta, code, g)
    out = np.empty(grid.shape[0])
    for k in range(grid.shape[0]):
        out[k] = np.std(seen[k])
    return out


# ---------------------------------------------------------------------------------- the large-n limit


def asymptotic(n: int, theta: float, distance: str, *, rank_scale: ArrayLike = "linear") -> tuple[float, float]:
    """Return (log Z, E[d]) in the limit of many items (Mukherjee 2016, Annals of Statistics 44, theorem 1.5).

    (log Z - log n!) / n tends to the largest value of -theta mu[d] - KL(mu || uniform) over measures mu on the
    square with uniform margins. On the n by n grid the best mu is x_i exp(-theta d(i, j)) x_j, with x found by
    Sinkhorn scaling (IPFP), and the value is log n! - 2 n log n - 2 sum_i log x_i. This is the approximation of
    Vitelli et al. (2018, JMLR 18, section 2.2) and of the R package BayesMallows. Use it for comparison only, since
    its error is not known in general. On this grid it never exceeds log Z, because it puts the least permanent of a
    doubly stochastic matrix, n! / n^n (van der Waerden's bound), in place of the permanent of the scaled matrix.
    For footrule and spearman. O(n^2) for each of some tens to thousands of iterations.

    >>> value, mean = asymptotic(100, 0.03, "footrule")
    >>> round(value, 2), round(mean, 1)  # exact: 283.87 and 2051.0
    (283.65, 2065.3)
    """
    check_distance(distance, rank_scale)
    if distance not in ("footrule", "spearman"):
        raise InputError(
            f"method='asymptotic' is for the footrule and spearman distances, not {distance!r}: use method='auto'"
        )
    g = scale_values(n, rank_scale)
    cost = np.abs(g[:, None] - g[None, :])
    if distance == "spearman":
        cost = cost**2
    kernel = np.exp(-theta * cost)  # underflow to 0 does no harm: the diagonal is 1
    x = np.full(n, 1.0 / n)
    for _ in range(20_000):
        margin = x * (kernel @ x)
        if np.max(np.abs(margin * n - 1)) < 1e-11:
            break
        # The matrix is symmetric, so one vector is enough. The root is the geometric mean of the old vector and of
        # Sinkhorn's new one, without which the iteration would swing to and fro.
        x = np.sqrt(x / (n * (kernel @ x)))
    else:
        raise InputError(
            f"the scaling for method='asymptotic' did not converge at n_items={n}, alpha={theta * n:g}: "
            f"margins are off by {np.max(np.abs(margin * n - 1)):.1e}; use method='auto'"
        )
    log_z = lgamma(n + 1) - 2 * n * np.log(n) - 2 * np.sum(np.log(x))
    return float(log_z), float(n * (x @ (kernel * cost) @ x))
