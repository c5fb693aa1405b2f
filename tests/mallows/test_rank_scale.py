import numpy as np
import pytest

from bmcd.mallows import distance, expected_distance, log_partition, sample
from bmcd.mallows.rank_scale import scale_values


@pytest.mark.parametrize("name", ["linear", "sqrt", "log", [1, 10, 100, 1000]])
def test_every_scale_spans_n_minus_1(name):
    g = scale_values(4, name)
    assert g[0] == 1.0
    assert g[-1] == pytest.approx(4.0)
    assert (np.diff(g) > 0).all()


def test_sqrt_makes_the_top_cost_more():
    steps = np.diff(scale_values(10, "sqrt"))
    assert (np.diff(steps) < 0).all()


def test_a_shift_or_stretch_of_the_scale_changes_nothing():
    given = np.array([0.0, 1.0, 5.0, 6.0])
    np.testing.assert_allclose(scale_values(4, given), scale_values(4, 7.0 * given - 3.0))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ("cubic", "'linear', 'sqrt', 'log'"),
        ([1.0, 2.0], r"shape \(2,\).*3 ranks"),
        ([1.0, 2.0, 2.0], "2.0 at rank 2 to 2.0 at rank 3"),
        ([1.0, np.nan, 2.0], "rank 2 is nan"),
    ],
)
def test_refusals(scale, message):
    with pytest.raises(ValueError, match=message):
        scale_values(3, scale)


def test_the_public_functions_take_it():
    rho = [2, 1, 3, 4]
    draws = sample(rho, 2.0, 4000, rank_scale="log", seed=3)
    mean = distance(draws, rho, rank_scale="log").mean()
    exact = expected_distance(4, 2.0, rank_scale="log")
    # The distance is at most 6 here, so its standard error is below 3 / sqrt(4000); five of them: 6e-7.
    assert mean == pytest.approx(exact, abs=5 * 3 / np.sqrt(4000))
    assert log_partition(4, 2.0, rank_scale="log") != log_partition(4, 2.0)
