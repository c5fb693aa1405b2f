"""`bmcd backtest`, and --horizon in other commands."""

import pandas as pd
import pytest

import bmcd

DAY = 86_400


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("backtest") / "log.csv"
    rows = [
        (f"u{user}", f"i{(user * 7 + n * (1 + user % 3)) % 9}", 1_700_000_000 + user * DAY // 20 + 60 * n)
        for user in range(60)
        for n in range(4)
    ]
    pd.DataFrame(rows, columns=["user", "item", "time"]).to_csv(path, index=False)
    return path


def test_the_table_is_that_of_backtest(run, log, tmp_path):
    out = tmp_path / "backtest.csv"
    options = ("--window", "12h", "--cuts", 2, "-k", 3, "--horizon", 1)
    result = run("backtest", log, "--model", "tastes", *options, "-o", out)
    assert result.code == 0, result.err
    assert result.out.startswith("Back-test: lists of 3 for the next click after a random moment of each user")
    table = pd.read_csv(out)
    assert table["cut"].tolist()[2] == "all"
    assert table["model"].unique().tolist() == ["Tastes"]
    expected = bmcd.backtest(bmcd.Tastes(), bmcd.read_clicks(log), 2, "12h", 3, 1).to_frame()
    columns = [name for name in expected.columns if name not in ("model", "cut", "fit_seconds")]
    assert table[columns].to_numpy() == pytest.approx(expected[columns].to_numpy(float), nan_ok=True)


def test_bad_usage_and_bad_data_are_one_line(run, refused, log):
    result = run("backtest", log, "--model", "magic")
    assert result.code == 2
    assert "--model must be one of Blend, Tastes, BMCD" in " ".join(result.err.split())
    assert run("backtest", log, "--horizon", 0).code == 2
    model = ("--model", "Tastes")
    assert "Use at most" in refused("backtest", log, *model, "--cuts", 99)
    assert "longer than the log" in refused("backtest", log, *model, "--window", "99d")
    assert "no clock" in refused("backtest", log, *model, "--order", "rows", "--window", "1d")
    assert "no order" in refused("backtest", "msweb", *model)


def test_help_has_an_example(run):
    found = run("backtest", "--help").out
    assert "bmcd backtest clicks.csv" in found
    assert "--horizon" in found


def test_a_horizon_stands_beside_k(run, log, tmp_path, tiny):
    train, test = bmcd.read_clicks(log).hold_out(2, by="time", too_few="drop")
    for part, name in ((train, "train.csv"), (test, "test.csv")):
        part.to_frame().to_csv(tmp_path / name, index=False)
    model = tmp_path / "m.bmcd"
    assert run("fit", tmp_path / "train.csv", "-o", model, *tiny).code == 0
    fitted = bmcd.load(model)
    found = run("recommend", model, "-k", 3, "--horizon", 1, "--users", "u1", "--json").json()
    expected = fitted.recommend(3, ["u1"], horizon=1)["probability"]
    assert [row["probability"] for row in found["recommendations"]] == pytest.approx(expected.tolist())
    item = found["recommendations"][0]["item"]
    explained = run("explain", model, "u1", item, "-k", 3, "--horizon", 1, "--json").json()
    assert explained["k"] == 1
    assert explained["probability"] == pytest.approx(expected.iloc[0], abs=1e-6)
    evaluated = run("evaluate", model, tmp_path / "test.csv", "-k", 3, "--horizon", 1, "--json").json()
    again = bmcd.evaluate(
        fitted.recommend(3, horizon=1), fitted.clicks_, bmcd.read_clicks(tmp_path / "test.csv"), horizon=1
    )
    assert evaluated["accuracy"] == pytest.approx(again.accuracy)
    assert evaluated["horizon"] == 1
    text = run("evaluate", model, tmp_path / "test.csv", "-k", 3, "--horizon", 1).out
    assert "Test: the clicks that followed; the first of each user." in text


def test_clicks_on_items_that_the_model_does_not_know_are_misses(run, log, tmp_path, tiny):
    train, test = bmcd.read_clicks(log).hold_out(2, by="time", too_few="drop")
    train.to_frame().to_csv(tmp_path / "train.csv", index=False)
    frame = test.to_frame()
    frame.loc[frame["user"] == "u1", "item"] = "new"
    frame.drop_duplicates().to_csv(tmp_path / "test.csv", index=False)
    model = tmp_path / "m.bmcd"
    assert run("fit", tmp_path / "train.csv", "-o", model, *tiny).code == 0
    result = run("evaluate", model, tmp_path / "test.csv", "-k", 3, "--horizon", 2, "--ignore-unknown", "--json")
    assert result.code == 0
    assert "count as misses" in result.err
    found = result.json()
    assert (found["n_outside"], found["n_with_fewer"]) == (2, 0)
