"""A summary of many runs, and how far it is from the paper's, in standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from scipy import stats

from experiments.differences import Difference

# In the order of the paper's tables.
STATISTICS = ("min", "25 %", "median", "75 %", "max", "mean", "sd")
# The distance between the quartiles of a normal distribution, in standard deviations.
QUARTILES_APART = 1.349
# Samples from which the standard errors of order statistics are taken; they are then right to 1 %.
SAMPLES = 20_000


def summarize(values: Sequence[float]) -> dict[str, float]:
    """Return the paper's summary of a measure over runs.

    >>> summarize([1.0, 2.0, 3.0, 4.0])["mean"]
    2.5
    """
    array = np.asarray(values, dtype=np.float64)
    quantiles = np.percentile(array, [0, 25, 50, 75, 100])
    sd = array.std(ddof=1) if array.size > 1 else np.nan
    return dict(zip(STATISTICS, [*quantiles.tolist(), float(array.mean()), float(sd)], strict=True))


def differences(
    ours: Mapping[str, float], n_ours: int, paper: Mapping[str, float], n_paper: int
) -> dict[str, float]:
    """Return our statistics minus the paper's, each in standard errors of that difference.

    Both are taken for samples of normal distributions with their own standard deviations; where the paper gives
    none, it is taken from its quartiles. The smallest and the largest of many runs cannot be compared with those of
    few, so they are left out if the numbers of runs differ.

    >>> ours = {"mean": 0.30, "sd": 0.01}
    >>> round(differences(ours, 16, {"mean": 0.29, "sd": 0.0}, 16)["mean"], 2)
    4.0
    """
    sd_paper = paper["sd"] if "sd" in paper else (paper["75 %"] - paper["25 %"]) / QUARTILES_APART
    in_standard_errors = {}
    for name in STATISTICS:
        if name not in paper or name not in ours or (n_ours != n_paper and name in ("min", "max")):
            continue
        error = np.hypot(ours["sd"] * unit_error(name, n_ours), sd_paper * unit_error(name, n_paper))
        in_standard_errors[name] = in_errors(ours[name] - paper[name], float(error))
    return in_standard_errors


def mean_difference(values: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the mean over runs of values less others, paired, with the 95 % interval of Student's t.

    >>> mean_difference([2.0, 3.0, 4.0], [1.0, 1.0, 1.0])
    Difference(value=2.0, low=-0.48..., high=4.48...)
    """
    gaps = np.subtract(values, others)
    mean, reach = float(gaps.mean()), float(stats.t.ppf(0.975, gaps.size - 1) * stats.sem(gaps))
    return Difference(mean, mean - reach, mean + reach)


def in_errors(difference: float, error: float) -> float:
    """Return a difference in standard errors; NaN if it is not 0 while the error is 0 or not known."""
    if difference == 0:
        return 0.0
    return difference / error if error > 0 else float("nan")


@cache
def unit_error(statistic: str, n: int) -> float:
    """Return the standard error of a statistic of n draws from a normal distribution with standard deviation 1.

    >>> abs(unit_error("mean", 25) - 0.2) < 0.005
    True
    """
    if n < 2:
        return float("nan")
    draws = np.sort(np.random.default_rng(0).standard_normal((SAMPLES, n)), axis=1)
    if statistic == "mean":
        return float(1 / np.sqrt(n))
    if statistic == "sd":
        return float(draws.std(axis=1, ddof=1).std())
    share = {"min": 0, "25 %": 25, "median": 50, "75 %": 75, "max": 100}[statistic]
    return float(np.percentile(draws, share, axis=1).std())
