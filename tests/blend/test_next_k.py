"""The race for the next k clicks: against bisection, and as a distribution of k clicks."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import blend as reference

from bmcd.blend.next_k import next_k, time_of_next_k

NEAR = 1e-10


@st.composite
def races(draw):
    """Log rates of up to 30 items, how many items share each, the outside option or -inf, and k."""
    n = draw(st.integers(1, 30))
    scores = draw(st.lists(st.floats(-15, 15), min_size=n, max_size=n))
    mult = draw(st.lists(st.sampled_from([0, 1, 1, 1, 2, 500]), min_size=n, max_size=n))
    outside = draw(st.one_of(st.just(-math.inf), st.floats(-15, 15)))
    if not any(mult):
        mult[0] = 1
    k = draw(st.one_of(st.integers(1, 40), st.sampled_from([1000, 10**6, 2**70])))
    return np.array(scores), np.array(mult, float), outside, k


@given(races())
def test_it_agrees_with_bisection(race):
    scores, mult, outside, k = race
    found, elsewhere = next_k(scores, mult, outside, k)
    slow, slow_elsewhere, _ = reference.race(scores, mult, outside, k)
    competing = mult > 0
    np.testing.assert_allclose(found[competing], slow[competing], rtol=NEAR, atol=NEAR)
    assert elsewhere == pytest.approx(slow_elsewhere, rel=NEAR, abs=NEAR)


@given(races())
def test_items_and_the_outside_sum_to_k(race):
    scores, mult, outside, k = race
    found, elsewhere = next_k(scores, mult, outside, k)
    wanted = k if outside > -math.inf else min(k, mult.sum())
    assert (mult * found).sum() + elsewhere == pytest.approx(wanted, rel=NEAR)
    assert ((found >= 0) & (found <= 1)).all()


@given(races(), st.floats(-200, 200))
def test_only_differences_of_log_rates_matter(race, shift):
    scores, mult, outside, k = race
    found, elsewhere = next_k(scores, mult, outside, k)
    moved, moved_elsewhere = next_k(scores + shift, mult, outside + shift, k)
    np.testing.assert_allclose(moved, found, rtol=1e-9, atol=1e-9)
    assert moved_elsewhere == pytest.approx(elsewhere, rel=1e-9, abs=1e-9)


@given(races())
def test_an_item_twice_is_two_items(race):
    scores, mult, outside, k = race
    each = np.minimum(mult, 3)
    together, _ = next_k(scores, each, outside, k)
    apart, _ = next_k(np.repeat(scores, each.astype(int)), np.ones(int(each.sum())), outside, k)
    np.testing.assert_allclose(apart, np.repeat(together, each.astype(int)), rtol=1e-9, atol=1e-9)


@given(races(), st.floats(1e-6, 1e6))
def test_the_start_of_the_search_does_not_matter(race, factor):
    scores, mult, outside, k = race
    largest = max(scores.max(), outside)
    rates = np.where(mult > 0, np.exp(scores - largest), 0.0)
    r_outside = math.exp(outside - largest) if outside > -math.inf else 0.0
    stays, other = np.empty(len(rates)), np.empty(len(rates))
    t = time_of_next_k(rates, mult, len(rates), r_outside, float(k), 0.0, stays)
    begun = factor if math.isinf(t) else t * factor
    again = time_of_next_k(rates, mult, len(rates), r_outside, float(k), begun, other)
    assert math.isinf(again) == math.isinf(t)
    np.testing.assert_allclose(other, stays, atol=NEAR)


def test_when_everything_is_certain():
    found, elsewhere = next_k(np.array([3.0, -700.0, 0.0]), np.ones(3), -math.inf, 3)
    assert found.tolist() == [1, 1, 1]
    assert elsewhere == 0
    assert next_k(np.zeros(2), np.ones(2), -math.inf, 2**70)[0].tolist() == [1, 1]
    found, elsewhere = next_k(np.zeros(2), np.ones(2), 0.0, 2**70)
    assert found.tolist() == [1, 1]
    assert elsewhere == pytest.approx(2**70 - 2)


def test_an_item_that_nearly_never_comes():
    found, _ = next_k(np.array([0.0, 0.0, -690.0]), np.ones(3), -math.inf, 2)
    assert found.sum() == pytest.approx(2, rel=NEAR)
    assert found[2] < NEAR
