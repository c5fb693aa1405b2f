"""bmcd.spark.evaluate gives the measures of bmcd.evaluate."""

import numpy as np
import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them


def test_measures_are_those_of_evaluate(spark, tmp_path):
    clicks = bmcd.simulate_tastes(200, 25, n_tastes=3, mean_clicks=7, seed=4).clicks.at_least(4)
    train, test = clicks.hold_out(2, seed=1)
    model = bmcd.Tastes(3).fit(train, draws=4, warmup=10, chains=2, n_threads=1)
    model.save(tmp_path / "model.bmcd")
    want = bmcd.evaluate(model.recommend(k=3), train, test, k=3)
    frames = [
        spark.createDataFrame(part.to_frame().values.tolist(), "user bigint, item bigint") for part in (train, test)
    ]
    found = bmcd.spark.evaluate(*frames, tmp_path / "model.bmcd", 3)
    assert (found.n_users, found.n_hits) == (want.n_users, want.n_hits)
    assert found.n_recommendations == want.n_recommendations
    for name in ("accuracy", "coverage", "correct_coverage"):
        assert getattr(found, name) == pytest.approx(getattr(want, name), rel=1e-12)
    calibration = want.calibration
    for name in ("brier", "expected_calibration_error", "promise_gap"):
        assert getattr(found, name) == pytest.approx(getattr(calibration, name), rel=1e-9, abs=1e-12)
    np.testing.assert_array_equal(found.calibration["n"], calibration.bin_n)
    np.testing.assert_allclose(found.calibration["lower"], calibration.lower)
    np.testing.assert_allclose(found.calibration["hit_rate"], calibration.bin_hit_rate)
    # The standard error of a ratio of sums over users, as the bootstrap would find it.
    shown = model.recommend(k=3)
    hit = test.matrix.toarray()[test.rows_of(shown["user"]), test.columns_of(shown["item"])]
    hits = np.bincount(test.rows_of(shown["user"]), hit)
    error = np.sqrt(((hits - 3 * found.accuracy) ** 2).sum()) / (3 * len(hits))
    assert found.accuracy_se == pytest.approx(error)
    assert f"for {train.n_users:,} users" in str(found)
