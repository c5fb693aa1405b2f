"""The race for the next k against its definition: every order of arrival enumerated, and simulated."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.tastes import race_integral

from bmcd.inference.arrivals import race_corrected, race_stays


def by_enumeration(rates, k):
    """Sum over all orders of the first k arrivals; each next item comes with its share of the rates left."""
    probability = np.zeros(rates.size)
    for first in permutations(range(rates.size), k):
        left, p = rates.sum(), 1.0
        for item in first:
            p *= rates[item] / left
            left -= rates[item]
        probability[list(first)] += p
    return probability


some_rates = st.lists(st.floats(1e-3, 1e2), min_size=2, max_size=6).map(np.array)


@given(some_rates, st.integers(1, 4))
def test_the_integral_is_the_sum_over_all_orders(rates, k):
    k = min(k, rates.size - 1)
    np.testing.assert_allclose(race_integral(rates, k), by_enumeration(rates, k), atol=1e-9)


@pytest.mark.chance(1e-4)
def test_the_integral_agrees_with_simulated_races(rotating_seed, times):
    rng = np.random.default_rng(rotating_seed)
    rates, k, n_races = rng.gamma(0.3, size=60) + 1e-4, 8, 40_000 * times
    arrival = rng.exponential(size=(n_races, rates.size)) / rates
    among = np.argpartition(arrival, k, axis=1)[:, :k]
    frequency = np.bincount(among.ravel(), minlength=rates.size) / n_races
    p = race_integral(rates, k)
    # 60 comparisons at 5 standard errors: a false alarm in 30,000 runs. Half a count is allowed for rare items.
    error = np.sqrt(p * (1 - p) / n_races) + 0.5 / n_races
    assert (np.abs(frequency - p) < 5 * error).all()


def random_races(seed, number):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        n = int(rng.integers(20, 400))
        rates = rng.gamma(10 ** rng.uniform(-1, 0.5), size=n) + 1e-9
        yield rates / rates.sum(), int(rng.integers(1, min(20, n // 2) + 1))


@pytest.mark.chance(1e-3)
def test_the_stated_errors_hold(rotating_seed):
    """Of 60 random races the largest error stays below twice what the module states for 2,000."""
    corrected, uncorrected = [], []
    for rates, k in random_races(rotating_seed, 60):
        exact = race_integral(rates, k)
        assert exact.sum() == pytest.approx(k, abs=1e-7)
        out = np.empty(rates.size)
        race_corrected(rates, k, float(k), out)
        assert out.sum() == pytest.approx(k, rel=1e-6)
        assert ((out >= -1e-9) & (out <= 1 + 1e-9)).all()
        corrected.append(np.abs(out - exact).max())
        t = race_stays(rates, k, float(k), out)
        uncorrected.append(np.abs(-np.expm1(-rates * t) - exact).max())
    assert max(uncorrected) < 2 * 0.070
    assert max(corrected) < 2 * 0.017
    assert np.median(corrected) < np.median(uncorrected) / 3


@given(some_rates, st.integers(1, 5), st.floats(1e-3, 1e3))
def test_the_time_does_not_depend_on_where_the_search_starts(rates, k, start):
    k = min(k, rates.size - 1)
    t = race_stays(rates, k, start, np.empty(rates.size))
    assert -np.expm1(-rates * t).sum() == pytest.approx(k, rel=2e-7)


def test_only_ratios_of_rates_matter():
    rates = np.array([0.5, 0.2, 0.2, 0.05, 0.05])
    one, two = np.empty(5), np.empty(5)
    race_corrected(rates, 2, 1.0, one)
    race_corrected(1e6 * rates, 2, 1.0, two)
    np.testing.assert_allclose(one, two, rtol=1e-5)
    assert (np.diff(one) <= 1e-12).all()
