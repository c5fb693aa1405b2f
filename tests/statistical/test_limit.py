"""With the true parameters of the paper's simulation: the limit of accuracy, and calibration."""

import numpy as np
import pytest

import bmcd


def recommend_with_the_truth(seed, k):
    """Hits and probabilities of the k best items of each user."""
    simulation = bmcd.simulate(seed=seed)
    probability = simulation.true_probabilities(k)
    best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
    truth = simulation.next_items(k).matrix.toarray()
    return np.take_along_axis(truth, best, 1).mean(), np.take_along_axis(probability, best, 1).mean()


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize(("k", "limit"), [(5, 0.283), (10, 0.451)])
def test_limit_and_calibration(k, limit, rotating_seed, times):
    """Over 20 new seeds. The hit rate has a standard error of 0.0012 (k = 5) and 0.0008 (k = 10), so 0.006 (as
    asked for) and 0.01 are five and more of them."""
    results = np.array([recommend_with_the_truth(rotating_seed + run, k) for run in range(20 * times)])
    hit_rate, probability = results.mean(axis=0)
    assert hit_rate == pytest.approx(limit, abs=0.006)
    assert probability == pytest.approx(hit_rate, abs=0.01)


@pytest.mark.chance(1e-5)
def test_calibration_within_bins(rotating_seed, times):
    """Not only on average: recommended at 30 %, right in 30 % of cases. z of each bin below 5."""
    simulation = bmcd.simulate(3000 * times, seed=rotating_seed)
    k = 5
    probability = simulation.true_probabilities(k).ravel()
    hit = simulation.next_items(k).matrix.toarray().ravel()
    for low in np.arange(0.0, 0.45, 0.05):
        chosen = (probability > low) & (probability <= low + 0.05)
        if chosen.sum() < 500:
            continue
        # Hits of one user exclude each other, which makes the true error smaller than the binomial one.
        error = np.sqrt((probability[chosen] * (1 - probability[chosen])).sum()) / chosen.sum()
        assert abs(hit[chosen].mean() - probability[chosen].mean()) < 5 * error
