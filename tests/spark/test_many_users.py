"""A hundred thousand users on a local session."""

import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them


@pytest.mark.deep
def test_a_hundred_thousand_users(spark, tmp_path):
    clicks = bmcd.simulate_tastes(100_000, 60, n_tastes=4, mean_clicks=5, seed=2).clicks
    model = bmcd.Tastes(4).fit(clicks, draws=4, warmup=10, chains=2, max_users=2_000)
    model.save(tmp_path / "model.bmcd")
    path = tmp_path / "clicks.parquet"
    clicks.to_frame().to_parquet(path)
    found = bmcd.spark.recommend(spark.read.parquet(str(path)), tmp_path / "model.bmcd", 3).collect()
    assert len(found) == 300_000
    by_user = {}
    for row in found:
        by_user.setdefault(row["user"], []).append((row["rank"], row["item"], row["probability"], row["mcse"]))
    want = model.recommend(3)
    columns = [want[name].tolist() for name in ("user", "rank", "item", "probability", "mcse")]
    for user, *row in zip(*columns, strict=True):
        assert tuple(row) in by_user[user]
