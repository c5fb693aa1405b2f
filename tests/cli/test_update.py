"""`bmcd update`: more clicks for a model file."""

import pandas as pd
import pytest

import bmcd


@pytest.fixture(scope="module")
def rows():
    frame = bmcd.load_dataset("eshop").to_frame()[:6_000][["user", "item"]]
    return frame.assign(time=pd.Timestamp("2026-03-01") + pd.to_timedelta(range(6_000), unit="min"))


@pytest.fixture(scope="module")
def model(rows, run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("update")
    rows[:5_000].to_csv(folder / "clicks.csv", index=False)
    found = run("fit", folder / "clicks.csv", "-o", folder / "model.bmcd", "--refresh", "12h", "--quiet")
    assert found.code == 0, found.err
    return folder / "model.bmcd"


def test_the_model_is_that_of_python(run, rows, model, tmp_path):
    rows[5_000:].to_csv(tmp_path / "new.csv", index=False)
    before = model.read_bytes()
    found = run("update", model, tmp_path / "new.csv", "-o", tmp_path / "new.bmcd", "--keep", "72h", "--json")
    assert found.code == 0, found.err
    assert model.read_bytes() == before
    want = bmcd.load(model).update(rows[5_000:], keep="72h")
    updated = bmcd.load(tmp_path / "new.bmcd")
    assert updated.clicks_ == want.clicks_
    assert updated.recommend(3).equals(want.recommend(3))
    said = found.json()
    assert (said["n_read"], said["n_before"], said["n_clicks"]) == (1_000, 5_000, 72 * 60 + 1)


def test_without_output_the_file_itself_is_updated(run, rows, model, tmp_path):
    mine = tmp_path / "mine.bmcd"
    mine.write_bytes(model.read_bytes())
    rows[5_000:].to_csv(tmp_path / "new.csv", index=False)
    said = run("update", mine, tmp_path / "new.csv")
    assert said.code == 0, said.err
    assert "1,000 clicks read; the model has 6,000 now (before: 5,000)" in said.out
    assert bmcd.load(mine).as_of_ == rows["time"].max()


def test_what_cannot_be_updated_is_refused(refused, rows, model, tmp_path):
    rows[5_000:][["user", "item"]].to_csv(tmp_path / "untimed.csv", index=False)
    assert "has times, but the clicks to add" in refused("update", model, tmp_path / "untimed.csv")
    bmcd.load(model).save(tmp_path / "no.bmcd", clicks=False)
    assert "saved without the clicks" in refused("update", tmp_path / "no.bmcd", tmp_path / "untimed.csv")
    clicks = bmcd.load_dataset("eshop").most_clicked(20).at_least(5)
    bmcd.baselines.ItemKNN().fit(clicks).save(tmp_path / "knn.bmcd")
    said = refused("update", tmp_path / "knn.bmcd", tmp_path / "untimed.csv")
    assert "ItemKNN models cannot be updated" in said
