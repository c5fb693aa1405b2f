"""Samplers against the enumerated law. False alarm: 1e-6 for each chi-square, 6e-7 for each five sigma."""

import numpy as np
import pytest
from tests.reference.mallows import probabilities_enumerated

from bmcd.mallows.distances import DISTANCES, distance
from bmcd.mallows.partition import expected_distance
from bmcd.mallows.rank_scale import scale_values
from bmcd.mallows.sampling import sample

RHO = (3, 1, 4, 5, 2)  # not its own inverse, so that r o rho and r o rho^-1 cannot be mixed up
names = pytest.mark.parametrize("name", DISTANCES)


@names
@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1.0, 6.0])
def test_law(name, alpha, rotating_seed, p_value, times):
    draws = sample(RHO, alpha, 20_000 * times, name, rotating_seed)
    assert p_value(draws, probabilities_enumerated(RHO, alpha, name)) > 1e-6


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("scale", ["sqrt", "log"])
def test_law_on_a_stretched_scale(scale, rotating_seed, p_value, times):
    draws = sample(RHO, 3.0, 20_000 * times, "footrule", rotating_seed, rank_scale=scale)
    law = probabilities_enumerated(RHO, 3.0, "footrule", scale_values(5, scale).tolist())
    assert p_value(draws, law) > 1e-6


@pytest.mark.chance(1e-6)
def test_the_check_can_fail(rotating_seed, p_value, times):
    """The control: draws for rho's inverse, or for another alpha, do not pass."""
    law = probabilities_enumerated(RHO, 3.0, "kendall")
    inverse = np.argsort(RHO) + 1
    assert p_value(sample(inverse, 3.0, 20_000 * times, "kendall", rotating_seed), law) < 1e-6
    assert p_value(sample(RHO, 4.0, 20_000 * times, "kendall", rotating_seed), law) < 1e-6


@names
@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("alpha", [0.5, 4.0, 40.0])
def test_mean_distance(name, alpha, rotating_seed, times):
    n = 20 if name == "spearman" else 50  # as far as the exact mean goes
    rho = np.random.default_rng(rotating_seed).permutation(n) + 1
    size = times * (500 if name == "ulam" else 2000)
    d = distance(sample(rho, alpha, size, name, rotating_seed), rho, name)
    # Draws of the chains are slightly correlated: allow their standard error 20 % more.
    inflation = 1.2 if name in ("spearman", "ulam") else 1.0
    error = inflation * np.sqrt(d.var() / size)
    assert abs(d.mean() - expected_distance(n, alpha, name)) < 5 * error


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("name", ["footrule", "kendall", "cayley", "hamming"])
def test_a_thousand_items(name, rotating_seed, times):
    rho = np.arange(1, 1001)
    d = distance(sample(rho, 20.0, 200 * times, name, rotating_seed), rho, name)
    assert abs(d.mean() - expected_distance(1000, 20.0, name)) < 5 * d.std() / np.sqrt(d.size)


@names
def test_draws_are_rankings_and_follow_rho(name):
    rho = np.array([4, 6, 1, 3, 2, 5])
    for alpha in (0.0, 2.0, 1e4):
        draws = sample(rho, alpha, 50, name, seed=7)
        assert draws.dtype == np.int64
        np.testing.assert_array_equal(np.sort(draws, axis=1), np.tile(np.arange(1, 7), (50, 1)))
        standard = sample(np.arange(1, 7), alpha, 50, name, seed=7)
        np.testing.assert_array_equal(draws, standard[:, rho - 1])
    np.testing.assert_array_equal(draws, np.tile(rho, (50, 1)))  # at alpha = 1e4 nothing else is left


@names
def test_seeds_and_sizes(name):
    rho = np.arange(1, 9)
    first = sample(rho, 1.0, 20, name, seed=1)
    np.testing.assert_array_equal(first, sample(rho, 1.0, 20, name, seed=1))
    assert not np.array_equal(first, sample(rho, 1.0, 20, name, seed=2))
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(first, sample(rho, 1.0, 20, name, seed=rng))
    assert not np.array_equal(first, sample(rho, 1.0, 20, name, seed=rng))  # the generator moved on
    assert sample(rho, 1.0, 0, name).shape == (0, 8)
    assert sample(rho, 0.0, 0, name).shape == (0, 8)
    assert sample([1], 1.0, 3, name).tolist() == [[1], [1], [1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rho": [0, 1, 2]}, r"rho = \[0, 1, 2\] holds 0: ranks start at 1"),
        ({"rho": [[1, 2], [2, 1]]}, r"rho has shape \(2, 2\): give one consensus"),
        ({"alpha": -1.0}, "alpha is -1"),
        ({"alpha": float("nan")}, "alpha is nan"),
        ({"alpha": [1.0, 2.0]}, "give one number"),
        ({"size": -1}, "size must be a whole number, 0 or more"),
        ({"size": 2.0}, "size must be a whole number, 0 or more, but it is 2.0"),
        ({"distance": "euclid"}, "choose one of footrule"),
        ({"distance": "ulam", "rank_scale": "sqrt"}, "only the footrule has a rank scale"),
        ({"rank_scale": "cubic", "alpha": 0.0}, "rank_scale 'cubic'"),
    ],
)
def test_wrong_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample(**({"rho": [1, 2, 3], "alpha": 1.0, "size": 2} | arguments))
