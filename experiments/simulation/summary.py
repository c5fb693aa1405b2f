"""Many runs in a few numbers, and how far these are from the paper's, in standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

# The order of the paper's tables.
STATISTICS = ("min", "25 %", "median", "75 %", "max", "mean", "sd")
# Of a normal distribution: from one quartile to the other, in standard deviations.
QUARTILES_APART = 1.349
# Draws from which the standard errors of order statistics are taken; they are then right to 1 %.
DRAWS = 20_000


def summarize(values: Sequence[float]) -> dict[str, float]:
    """The paper's summary of one measure over runs.

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
    """Ours minus the paper's, statistic by statistic, in standard errors of that difference.

    Both are taken for samples of a normal distribution with their own standard deviation; where the paper gives
    none it is taken from its quartiles. Smallest and largest are only to be compared between as many runs, so with
    other numbers of runs they are left out.

    >>> ours = {"mean": 0.30, "sd": 0.01}
    >>> round(differences(ours, 16, {"mean": 0.29, "sd": 0.0}, 16)["mean"], 2)
    4.0
    """
    sd_paper = paper["sd"] if "sd" in paper else (paper["75 %"] - paper["25 %"]) / QUARTILES_APART
    found = {}
    for name in STATISTICS:
        if name not in paper or name not in ours or (n_ours != n_paper and name in ("min", "max")):
            continue
        error = np.hypot(ours["sd"] * unit_error(name, n_ours), sd_paper * unit_error(name, n_paper))
        found[name] = in_errors(ours[name] - paper[name], float(error))
    return found


def in_errors(difference: float, error: float) -> float:
    """A difference in standard errors; nan where the error is not known or 0 and the difference is not."""
    if difference == 0:
        return 0.0
    return difference / error if error > 0 else float("nan")


@cache
def unit_error(statistic: str, n: int) -> float:
    """The standard error of a statistic of n draws from a normal distribution with standard deviation 1.

    >>> abs(unit_error("mean", 25) - 0.2) < 0.005
    True
    """
    if n < 2:
        return float("nan")
    draws = np.sort(np.random.default_rng(0).standard_normal((DRAWS, n)), axis=1)
    if statistic == "mean":
        return float(1 / np.sqrt(n))
    if statistic == "sd":
        return float(draws.std(axis=1, ddof=1).std())
    share = {"min": 0, "25 %": 25, "median": 50, "75 %": 75, "max": 100}[statistic]
    return float(np.percentile(draws, share, axis=1).std())
