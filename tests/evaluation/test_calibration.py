"""Calibration against numbers worked out by hand, other libraries, and its definition."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

import bmcd
from bmcd.evaluation import Calibration, cutoff_for

P = np.repeat([0.1, 0.2, 0.3, 0.6], 10)
HIT = np.concatenate([np.arange(10) < hits for hits in (2, 2, 4, 5)])


def test_by_hand():
    """Two bins of width 0.5: 0.2 and 0.4 with one hit, 0.6 and 1 with one hit."""
    calibration = Calibration.of([0.2, 0.4, 0.6, 1.0], [False, True, False, True], bin_width=0.5)
    assert calibration.lower.tolist() == [0, 0.5]
    assert calibration.upper.tolist() == [0.5, 1]
    assert calibration.bin_n.tolist() == [2, 2]
    assert calibration.bin_probability.tolist() == pytest.approx([0.3, 0.8])
    assert calibration.bin_hit_rate.tolist() == [0.5, 0.5]
    assert calibration.brier == pytest.approx((0.04 + 0.36 + 0.36 + 0) / 4)
    assert calibration.reliability == pytest.approx((0.2**2 + 0.3**2) / 2)
    assert calibration.resolution == 0
    assert calibration.uncertainty == 0.25
    # Probabilities lie 0.1 and 0.2 off their bin's mean, on the side of the hit, which lies 0.5 off.
    assert calibration.within_bin == pytest.approx((0.01 + 0.04) / 2 - 2 * (0.1 * 0.5 + 0.2 * 0.5) / 2)
    assert calibration.expected_calibration_error == pytest.approx((0.2 + 0.3) / 2)
    assert calibration.log_score == pytest.approx(-np.log([0.8, 0.4, 0.4, 1]).mean())
    assert (calibration.mean_probability, calibration.hit_rate) == (pytest.approx(0.55), 0.5)


def test_other_libraries_say_the_same():
    """model-diagnostics 1.5.0 (decompose: its recalibrated values are the bins' hit rates, since these rise);
    ECE with 10 bins: pycalib 0.1.0.dev6 and uncertainty-calibration 0.1.4. Asked once."""
    calibration = Calibration.of(P, HIT, bin_width=0.1)
    assert calibration.brier == pytest.approx(0.21)
    assert calibration.reliability == pytest.approx(0.0075)
    assert calibration.resolution == pytest.approx(0.016875)
    assert calibration.uncertainty == pytest.approx(0.219375)
    assert calibration.within_bin == pytest.approx(0, abs=1e-15)
    assert calibration.expected_calibration_error == pytest.approx(0.07499999999999998)


@pytest.mark.chance(0)
def test_scikit_learn_says_the_same(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    p = rng.beta(3, 7, 5000)
    hit = rng.random(5000) < p
    calibration = Calibration.of(p, hit)
    rate, mean = calibration_curve(hit, p, n_bins=100, strategy="uniform")
    assert calibration.bin_hit_rate == pytest.approx(rate)
    assert calibration.bin_probability == pytest.approx(mean)
    assert calibration.brier == pytest.approx(brier_score_loss(hit, p))
    assert calibration.log_score == pytest.approx(log_loss(hit, p))


def test_an_impossible_hit_has_a_finite_log_score_as_in_scikit_learn():
    assert Calibration.of([0.0, 0.5], [1, 0]).log_score == pytest.approx(log_loss([1, 0], [0.0, 0.5]))


probabilities = st.one_of(st.floats(0, 1), st.integers(0, 100).map(lambda i: i / 100))
outcomes = st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=30)


@given(outcomes, st.sampled_from([0.01, 0.05, 0.1, 0.25, 1.0]))
def test_the_parts_of_the_brier_score_add_up_and_bins_hold_what_they_say(pairs, width):
    p, hit = (np.array(side) for side in zip(*pairs, strict=True))
    calibration = Calibration.of(p, hit, width)
    total = calibration.reliability - calibration.resolution + calibration.uncertainty + calibration.within_bin
    assert calibration.brier == pytest.approx(total, abs=1e-12)
    bins = (calibration.lower, calibration.upper, calibration.bin_n, calibration.bin_hit_rate)
    for lower, upper, n, rate in zip(*bins, strict=True):
        inside = (lower <= p) & ((p < upper) | ((upper == 1) & (p == 1)))
        assert n == inside.sum()
        assert rate == pytest.approx(hit[inside].mean())
    assert calibration.bin_n.sum() == len(p)


def test_bins_start_where_decimals_say():
    """0.29 / 0.01 and 3 * 0.1 are not what they seem in binary; 0.29 must open its bin all the same."""
    p = np.arange(100) / 100
    calibration = Calibration.of(p, np.zeros(100, dtype=bool))
    assert calibration.bin_n.tolist() == [1] * 100
    assert calibration.lower.tolist() == p.tolist()


@pytest.mark.parametrize("width", [0, -0.1, 0.3, 2, float("nan")])
def test_a_bin_width_that_does_not_divide_1_is_refused(width):
    with pytest.raises(ValueError, match="bin_width must divide 1"):
        Calibration.of([0.5], [True], width)


def test_to_frame_and_to_dict():
    calibration = Calibration.of(P, HIT, 0.1)
    assert calibration.to_frame().columns.tolist() == ["lower", "upper", "n", "probability", "hit_rate"]
    assert calibration.to_frame("pyarrow")["n"].to_pylist() == [10] * 4
    again = json.loads(json.dumps(calibration.to_dict(), allow_nan=False))
    assert again["bins"][3] == {
        "lower": 0.6,
        "upper": 0.7,
        "n": 10,
        "probability": pytest.approx(0.6),
        "hit_rate": 0.5,
    }
    assert again["cutoffs"][2] == {"cutoff": 0.2, "n": 30, "share": 0.75, "accuracy": pytest.approx(11 / 30)}
    assert calibration.cutoff_for(0.45, min_kept=20) == cutoff_for(P, HIT, 0.45, min_kept=20) == 0.3
    assert calibration.cutoff_table([0.2])["n"].tolist() == [30]


@pytest.mark.chance(1e-5)
def test_the_true_probabilities_of_a_simulation_are_calibrated(rotating_seed, times):
    """Mean probability and hit rate differ by chance alone: within 5 standard errors, by user (false alarm 1e-6).

    The supplement's misprint, rank < n_clicked + k, was 11.8 to 13.3 standard errors off for seeds 0 to 3.
    """
    import pandas as pd

    n_users = 2000 * times
    sim = bmcd.simulate(n_users=n_users, seed=rotating_seed)
    p = sim.true_probabilities(5)
    items = np.argsort(-p, axis=1)[:, :5]
    frame = pd.DataFrame({"user": np.repeat(sim.clicks.users, 5), "item": items.ravel()})
    frame["rank"], frame["probability"] = np.tile(np.arange(1, 6), n_users), np.take_along_axis(p, items, 1).ravel()
    evaluation = bmcd.evaluate(frame, sim.clicks, sim)
    expected = evaluation.calibration.probability.reshape(n_users, 5).sum(axis=1)
    off = evaluation.per_user["accuracy"].numerator - expected
    assert abs(off.mean()) < 5 * off.std(ddof=1) / np.sqrt(n_users)
    assert evaluation.accuracy == pytest.approx(evaluation.calibration.hit_rate)
