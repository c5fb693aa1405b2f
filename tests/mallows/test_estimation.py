"""Estimates are judged in their own standard errors, with a new seed on every run.

A |z| above 5 has probability 6e-7 for a normal law; the estimates are averages of 160 slightly skewed
weights, so reckon with 1e-5 for each comparison, below 1e-3 for a run of this whole file.
"""

from math import lgamma

import numpy as np
import pytest
from scipy import stats
from tests.reference.mallows import probabilities_enumerated

from bmcd.mallows import estimation
from bmcd.mallows.distances import DISTANCES, distance
from bmcd.mallows.estimation import asymptotic, importance
from bmcd.mallows.metropolis import gap_table, metropolis_sample
from bmcd.mallows.partition import expected_distance, log_partition

CASES = [
    ("footrule", 30, 3.0),
    ("footrule", 50, 3.0),
    ("kendall", 30, 20.0),
    ("kendall", 50, 5.0),
    ("hamming", 30, 40.0),
    ("hamming", 50, 20.0),
    ("cayley", 30, 30.0),
    ("spearman", 15, 0.5),
    ("spearman", 15, 10.0),
    ("spearman", 20, 3.0),
    ("ulam", 40, 20.0),
]


def z_scores(name, n, alpha, rng, scale="linear", effort=1.0):
    estimate = importance(n, alpha / n, name, rng, rank_scale=scale, effort=effort)
    log_z = log_partition(n, alpha, name, scale, method="exact")
    mean = expected_distance(n, alpha, name, scale, method="exact")
    return (
        (estimate.log_partition - log_z) / estimate.log_partition_error,
        (estimate.expected_distance - mean) / estimate.expected_distance_error,
    )


@pytest.mark.chance(5e-5)
@pytest.mark.parametrize(("name", "n", "alpha"), CASES)
def test_importance_meets_the_exact_answer(name, n, alpha, rotating_seed, times):
    z = z_scores(name, n, alpha, np.random.default_rng(rotating_seed), effort=times)
    assert np.max(np.abs(z)) < 5, z


@pytest.mark.chance(5e-5)
def test_importance_on_a_stretched_scale(rotating_seed, times):
    z = z_scores("footrule", 20, 3.0, np.random.default_rng(rotating_seed), "sqrt", times)
    assert np.max(np.abs(z)) < 5, z


def has_spread_one(z):
    """Sum of squares of 20 z-scores between the 1e-6 quantiles of chi-square: spread 0.33 to 1.8."""
    low, high = stats.chi2.ppf(1e-6, z.size), stats.chi2.isf(1e-6, z.size)
    return low < np.sum(z**2) < high


@pytest.mark.chance(1e-4)
@pytest.mark.parametrize(
    ("name", "n", "alpha"),
    [
        ("spearman", 15, 5.0),
        ("kendall", 30, 5.0),
        ("hamming", 50, 20.0),
        ("footrule", 20, 3.0),
        ("ulam", 30, 20.0),
    ],
)
def test_standard_errors_are_honest(name, n, alpha, rotating_seed, times):
    """False alarm: 4e-6 for normal scores in each case, perhaps ten times that with their skewness."""
    streams = np.random.default_rng(rotating_seed).spawn(20)
    z = np.array([z_scores(name, n, alpha, rng, effort=times) for rng in streams])
    assert has_spread_one(z[:, 0]), z[:, 0]
    assert has_spread_one(z[:, 1]), z[:, 1]
    assert not has_spread_one(4 * z[:, 0])  # the control: an error stated four times too small is caught
    assert np.all(np.abs(z.mean(axis=0)) < 5 / np.sqrt(20))  # no bias


@pytest.mark.parametrize(("n", "alpha"), [(50, 3.0), (50, 20.0), (100, 20.0)])
def test_standard_error_is_small_where_it_is_needed(n, alpha):
    estimate = importance(n, alpha / n, "spearman", np.random.default_rng(0))
    assert estimate.log_partition_error < 0.06
    assert estimate.expected_distance_error < 0.02 * estimate.expected_distance


def test_importance_at_alpha_zero_is_exact():
    for name in DISTANCES:
        estimate = importance(12, 0.0, name, np.random.default_rng(0))
        assert estimate.log_partition == pytest.approx(lgamma(13), rel=1e-5)


def test_few_effective_runs_are_refused(monkeypatch):
    monkeypatch.setattr(estimation, "BUDGET", 1)
    with pytest.raises(ValueError, match=r"alpha=80: of 160 runs only \d+\.\d count, and 30 are needed"):
        importance(60, 80.0 / 60, "footrule", np.random.default_rng(0))


def test_importance_is_determined_by_its_generator():
    first, again, other = (importance(25, 0.1, "ulam", np.random.default_rng(s)) for s in (3, 3, 4))
    assert first == again
    assert first != other


# ------------------------------------------------------------------------------------------- asymptotic


@pytest.mark.parametrize("name", ["footrule", "spearman"])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0, 5.0, 50.0])
def test_asymptotic_bounds_log_z_from_below(name, alpha):
    for n in (1, 2, 9, 15):
        assert log_partition(n, alpha, name, method="asymptotic") <= log_partition(n, alpha, name) + 1e-9


def test_asymptotic_at_alpha_zero():
    log_z, mean = asymptotic(40, 0.0, "spearman")
    assert log_z == pytest.approx(lgamma(41), rel=1e-12)
    assert mean == pytest.approx(40 * (40**2 - 1) / 6, rel=1e-9)


def test_asymptotic_nears_the_footrule_as_items_grow():
    gaps = [
        (log_partition(n, 3.0) - log_partition(n, 3.0, method="asymptotic")) / log_partition(n, 3.0)
        for n in (10, 40, 160, 640)
    ]
    assert np.all(np.diff(gaps) < 0)
    assert 0 < gaps[-1] < 1e-4
    exact = expected_distance(640, 3.0)
    assert expected_distance(640, 3.0, method="asymptotic") == pytest.approx(exact, rel=2e-3)


def test_asymptotic_mean_is_its_own_derivative():
    n, alpha, h = 30, 4.0, 1e-4
    up, down = (asymptotic(n, (alpha + s) / n, "spearman")[0] for s in (h, -h))
    assert asymptotic(n, alpha / n, "spearman")[1] == pytest.approx(-n * (up - down) / (2 * h), rel=1e-5)


def test_asymptotic_error_is_unknown():
    value, error = log_partition(50, [3.0], method="asymptotic", return_error=True)
    assert value.shape == (1,)
    assert np.isnan(error[0])


# ------------------------------------------------------------------------------------------- Metropolis


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("theta", [0.0, 0.3])
def test_chain_has_the_right_law(name, theta, rotating_seed, times):
    """Chi-square over the 24 rankings of 4; 20 sweeps apart the draws are as good as independent.

    False alarm: 1e-6 in each of 12 cases.
    """
    draws = metropolis_sample(4, theta, name, 20_000 * times, 50, 20, np.random.default_rng(rotating_seed))
    law = probabilities_enumerated((1, 2, 3, 4), 4 * theta, name)
    seen = {r: 0 for r in law}
    for row in draws.tolist():
        seen[tuple(row)] += 1
    expected = [p * len(draws) for p in law.values()]
    assert stats.chisquare(list(seen.values()), expected).pvalue > 1e-6


@pytest.mark.chance(1e-5)
def test_chain_on_a_stretched_scale(rotating_seed, times):
    rng = np.random.default_rng(rotating_seed)
    draws = metropolis_sample(12, 0.4, "footrule", 4000 * times, 100, 20, rng, rank_scale="log")
    d = distance(draws, np.arange(1, 13), "footrule", "log")
    mean = expected_distance(12, 12 * 0.4, "footrule", "log")
    assert abs(d.mean() - mean) < 5 * d.std() / np.sqrt(len(d)) * 1.2  # a little autocorrelation


def test_gaps_cover_all_scales():
    for n in (1, 2, 3, 10, 1000):
        gaps = gap_table(n)
        assert gaps.min() == 1
        assert gaps.max() <= max(n - 1, 1)
    assert gap_table(1000).max() > 900
