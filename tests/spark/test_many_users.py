"""A hundred thousand users on a local session."""

import numpy as np
import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them


def test_a_hundred_thousand_users(spark, tmp_path):
    clicks = bmcd.simulate_tastes(100_000, 20, n_tastes=3, mean_clicks=3, seed=2).clicks
    model = bmcd.Tastes(3).fit(clicks, draws=2, warmup=5, chains=2, max_users=1_000)
    model.save(tmp_path / "model.bmcd")
    path = tmp_path / "clicks.parquet"
    clicks.to_frame().to_parquet(path)
    found = bmcd.spark.recommend(spark.read.parquet(str(path)), tmp_path / "model.bmcd", 2).toArrow()
    assert found.num_rows == 200_000
    order, want = found.sort_by([("user", "ascending"), ("rank", "ascending")]), model.recommend(2)
    for name in want:
        np.testing.assert_array_equal(order.column(name).to_numpy(), want[name].to_numpy())
