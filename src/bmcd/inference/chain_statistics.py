"""R-hat, effective sample size and Monte Carlo standard error of one quantity, [chain, draw].

Rank-normalised and split (Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, *Rank-normalization, folding, and
localization*). A test compares the numbers with those of arviz-stats, which is not needed here.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import ndtri

from bmcd.utils import Floats


def rhat(values: Floats) -> float:
    """Return the larger of the R-hats of rank-normalised values and of their distances from the median.

    At least two chains of four draws; each chain is split in two.

    >>> bool(rhat(np.random.default_rng(0).normal(size=(4, 500))) < 1.02)
    True
    """
    halves = _split(values)
    return float(np.fmax(_rhat(_normal_scores(halves)), _rhat(_normal_scores(abs(halves - np.median(halves))))))


def ess_bulk(values: Floats) -> float:
    """Return the effective sample size of the rank-normalised values.

    >>> round(ess_bulk(np.tile(np.arange(10.0), (2, 1))), 1) < 20
    True
    """
    return _ess(_normal_scores(_split(values)))


def ess_tail(values: Floats) -> float:
    """Return the smaller of the effective sample sizes of the 5 % and the 95 % quantile.

    >>> ess_tail(np.random.default_rng(0).normal(size=(4, 500))) > 1000
    True
    """
    return min(_ess(_split((values <= np.quantile(values, at)).astype(np.float64))) for at in (0.05, 0.95))


def mcse_mean(values: Floats) -> float:
    """Return the Monte Carlo standard error of the mean: sd / sqrt(effective sample size of the mean).

    >>> round(mcse_mean(np.random.default_rng(0).normal(size=(4, 2500))), 2)
    0.01
    """
    return float(values.std(ddof=1) / math.sqrt(_ess(_split(values))))


def _split(values: Floats) -> Floats:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]]).astype(np.float64)


def _normal_scores(values: Floats) -> Floats:
    """Return normal quantiles of the average ranks, by Blom's formula."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2.0)[place.reshape(values.shape)]
    return np.asarray(ndtri((ranks - 0.375) / (values.size + 0.25)), np.float64)


def _rhat(values: Floats) -> float:
    n = values.shape[1]
    between, within = n * values.mean(axis=1).var(ddof=1), values.var(axis=1, ddof=1).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.sqrt((between / within + n - 1) / n))


def _autocovariance(values: Floats) -> Floats:
    """Return the autocovariance of each row at every lag."""
    n = values.shape[1]
    size = int(next_fast_len(2 * n, real=True))
    transformed = np.fft.rfft(values - values.mean(axis=1, keepdims=True), n=size, axis=1)
    return np.asarray(np.fft.irfft(abs(transformed) ** 2, n=size, axis=1)[:, :n] / n)


def _ess(values: Floats) -> float:
    """Return the effective sample size by Geyer's initial monotone sequence over the chains together."""
    if np.ptp(values) < np.finfo(float).resolution:
        return float(values.size)
    n_chains, n = values.shape
    by_lag = _autocovariance(values).mean(axis=0)
    within = by_lag[0] * n / (n - 1.0)
    total = by_lag[0] + (values.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0)
    correlation = 1.0 - (within - by_lag) / total
    correlation[0] = 1.0
    # Sums of neighbours, of lags (0, 1), (2, 3), ..., for as long as they are positive.
    rho = np.zeros(n)
    rho[0], rho[1] = even, odd = 1.0, correlation[1]
    t = 1
    while t < n - 3 and even + odd > 0.0:
        even, odd = correlation[t + 1], correlation[t + 2]
        if even + odd >= 0.0:
            rho[t + 1], rho[t + 2] = even, odd
        t += 2
    end = t - 2
    if even > 0.0:
        rho[end + 1] = even
    for t in range(1, end - 1, 2):  # and never rising
        if rho[t + 1] + rho[t + 2] > rho[t - 1] + rho[t]:
            rho[t + 1] = rho[t + 2] = (rho[t - 1] + rho[t]) / 2.0
    time = -1.0 + 2.0 * rho[: end + 1].sum() + rho[end + 1 : end + 2].sum()
    return float(values.size / max(time, 1.0 / math.log10(values.size)))
