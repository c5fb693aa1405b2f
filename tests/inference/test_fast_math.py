"""exp and log1p for loops against those of the C library, and rates by taste against the product of matrices."""

import math

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bmcd.inference.arrivals import FARTHEST, arrival_rates, arrival_rates_by_taste, exp_of_minus, log1p_of


@numba.njit
def in_a_loop(x, exps, logs):
    for i in range(x.size):
        exps[i] = exp_of_minus(x[i])
        logs[i] = log1p_of(x[i])


@given(st.floats(0.0, FARTHEST))
def test_exp(x):
    assert math.isclose(exp_of_minus(x), math.exp(-x), rel_tol=2e-14)


@given(st.floats(0.0, 1e300))
def test_log1p(x):
    assert math.isclose(log1p_of(x), math.log1p(x), rel_tol=2e-14, abs_tol=1e-300)


def test_ends():
    assert exp_of_minus(0.0) == 1.0
    assert log1p_of(0.0) == 0.0
    for x in (FARTHEST, 1e4, math.inf):
        assert 0.0 < exp_of_minus(x) < 1e-300


@given(st.integers(1, 40))
def test_a_loop_gives_what_single_numbers_give(n):
    """Whatever part of a loop a number falls into, the one for many or the one for those left over."""
    x = np.random.default_rng(n).gamma(0.3, 30.0, size=n)
    exps, logs = np.empty(n), np.empty(n)
    in_a_loop(x, exps, logs)
    assert exps.tolist() == [exp_of_minus(value) for value in x]
    assert logs.tolist() == [log1p_of(value) for value in x]


@given(st.integers(1, 11), st.integers(1, 70))
def test_rates_by_taste_are_those_by_item(n_tastes, n_items):
    rng = np.random.default_rng([n_tastes, n_items])
    q, visits = rng.random((n_items, n_tastes), np.float32), rng.random(n_tastes, np.float32)
    rates, other = np.empty(n_items, np.float32), np.empty(n_items)
    arrival_rates_by_taste(visits, np.float32(0.5), np.ascontiguousarray(q.T), rates)
    arrival_rates(visits, np.float32(0.5), q, other)
    # Sums of up to 11 numbers in single precision.
    np.testing.assert_allclose(rates, q.astype(float) @ (visits + 0.5).astype(float), rtol=2e-6)
    np.testing.assert_allclose(other, rates, rtol=2e-6)
