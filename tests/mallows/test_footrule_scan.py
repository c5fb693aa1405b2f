"""The scan for the plain footrule model against enumeration, a slow twin, and answers known for every n."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.mallows import block_log_weight, expected_distance_enumerated, log_partition_enumerated

from bmcd.mallows.footrule_scan import (
    MAX_TABLE_ITEMS,
    backward_messages,
    expected_distance_scan,
    log_partition_scan,
    sample_scan,
)
from bmcd.mallows.rank_scale import scale_values

alphas = st.sampled_from([0.0, 1e-9, 0.1, 1.0, 3.0, 10.0, 50.0, 200.0])


@st.composite
def scales(draw, max_items):
    """A rank scale of any shape, steep, flat or both."""
    steps = draw(st.lists(st.floats(0.01, 100.0), min_size=0, max_size=max_items - 1))
    return scale_values(len(steps) + 1, np.concatenate([[0.0], np.cumsum(steps)]))


@given(scale=scales(6), alpha=alphas)
def test_against_enumeration(scale, alpha):
    n = scale.size
    gaps, g = np.diff(scale), scale.tolist()
    # 1e-10 as asked for, relative, and 1e-14 for a log Z near zero, which adds to the consensus weight of 1.
    assert log_partition_scan(gaps, alpha / n) == pytest.approx(
        log_partition_enumerated(n, alpha, "footrule", g), rel=1e-10, abs=1e-14
    )
    assert expected_distance_scan(gaps, alpha / n) == pytest.approx(
        expected_distance_enumerated(n, alpha, "footrule", g), rel=1e-10, abs=1e-14
    )


@given(n=st.integers(1, 60), alpha=alphas, name=st.sampled_from(["linear", "sqrt", "log"]))
def test_against_the_slow_scan(n, alpha, name):
    everything = range(1, n + 1)
    slow = block_log_weight(everything, everything, scale_values(n, name), alpha / n)
    gaps = np.diff(scale_values(n, name))
    assert log_partition_scan(gaps, alpha / n) == pytest.approx(slow, rel=1e-12, abs=1e-12)
    table, log_scale = backward_messages(gaps, alpha / n)
    assert math.log(table[0, 0]) + log_scale[0] == pytest.approx(slow, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 1000, 5000, 20_000])
def test_uniform_rankings_for_every_n(n):
    """alpha = 0: Z = n! and E[d] = (n^2 - 1) / 3. One scale for all cells passes this at 10,000, not at 20,000."""
    gaps = np.diff(scale_values(n))
    assert log_partition_scan(gaps, 0.0) == pytest.approx(math.lgamma(n + 1), rel=1e-12)
    assert expected_distance_scan(gaps, 0.0) == pytest.approx((n * n - 1) / 3, rel=1e-11)


@pytest.mark.parametrize("alpha", [0.3, 3.0, 100.0, 3000.0, 1e5])
def test_the_mean_is_the_derivative(alpha):
    n, step = 1000, 1e-4
    gaps = np.diff(scale_values(n))
    slope = (
        log_partition_scan(gaps, alpha * (1 + step) / n) - log_partition_scan(gaps, alpha * (1 - step) / n)
    ) / (2 * alpha * step)
    # A central difference: relative error of order step^2, and rounding of log Z over the step.
    assert expected_distance_scan(gaps, alpha / n) == pytest.approx(-n * slope, rel=1e-6, abs=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize("n", [100, 500])
@pytest.mark.parametrize("alpha", [0.5, 3.0, 50.0, 1000.0])
def test_fifty_digits(n, alpha):
    """The recursion as the paper trail has it, in 50-digit arithmetic."""
    import mpmath

    with mpmath.workdps(50):
        decay = [mpmath.exp(-2 * mpmath.mpf(alpha) / n * m) for m in range(n + 2)]
        cells = [mpmath.mpf(1)]
        for t in range(1, n + 1):
            padded = [mpmath.mpf(0), *cells, mpmath.mpf(0), mpmath.mpf(0)]
            cells = [
                ((2 * m + 1) * padded[m + 1] + padded[m] + (m + 1) ** 2 * padded[m + 2])
                * (decay[m] if t < n else 1)
                for m in range(min(t, n - t) + 1)
            ]
        exact = float(mpmath.log(cells[0]))
    assert log_partition_scan(np.diff(scale_values(n)), alpha / n) == pytest.approx(exact, rel=1e-12)


def test_draws_refuse_tables_beyond_memory():
    with pytest.raises(ValueError, match="10001 items"):
        sample_scan(np.diff(scale_values(MAX_TABLE_ITEMS + 1)), 0.1, 1, np.random.default_rng(0))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 30.0, 300.0, 3000.0])
@pytest.mark.parametrize("shape", ["linear", "sqrt", "log", "steep", "flat"])
def test_a_scan_from_the_other_end_agrees(shape, alpha):
    """Turning the ranks round changes no distance. Gaps that differ by 10^13 make cells die and come back."""
    n = 1000
    t = np.arange(n) / n
    gaps = np.diff(scale_values(n, {"steep": np.exp(30 * t), "flat": -np.exp(-15 * t)}.get(shape, shape)))
    forwards, backwards = (log_partition_scan(np.ascontiguousarray(g), alpha / n) for g in (gaps, gaps[::-1]))
    assert forwards == pytest.approx(backwards, rel=1e-11)
    table, log_scale = backward_messages(gaps, alpha / n)
    assert math.log(table[0, 0]) + log_scale[0] == pytest.approx(forwards, rel=1e-10)
