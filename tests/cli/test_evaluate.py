"""`bmcd evaluate`."""

import pandas as pd
import pytest

import bmcd
from bmcd.testing import example_clicks


@pytest.fixture(scope="module")
def files(tmp_path_factory, run, tiny):
    folder = tmp_path_factory.mktemp("evaluate")
    train, test = example_clicks().hold_out(1, too_few="drop")
    train.to_frame().to_csv(folder / "train.csv", index=False)
    test.to_frame().to_csv(folder / "test.csv", index=False)
    assert run("fit", folder / "train.csv", "-o", folder / "m.bmcd", *tiny).code == 0
    return folder


def test_measures_are_those_of_evaluate(run, files, tmp_path):
    model = bmcd.load(files / "m.bmcd")
    test = bmcd.read_clicks(files / "test.csv")
    expected = bmcd.evaluate(model.recommend(3), model.clicks_, test, k=3)
    found = run("evaluate", files / "m.bmcd", files / "test.csv", "-k", 3, "--json").json()
    assert found["accuracy"] == pytest.approx(expected.accuracy)
    assert found["calibration"]["brier"] == pytest.approx(expected.calibration.brier)
    out = tmp_path / "measures.csv"
    assert run("evaluate", files / "m.bmcd", files / "test.csv", "-k", 3, "-o", out).code == 0
    table = pd.read_csv(out).set_index("measure")
    assert table.loc["accuracy", "value"] == pytest.approx(expected.accuracy)
    assert table.loc["accuracy", "low"] <= expected.accuracy <= table.loc["accuracy", "high"]


def test_it_can_be_read_and_names_a_cutoff(run, files):
    result = run("evaluate", files / "m.bmcd", files / "test.csv", "-k", 3, "--hit-rate", 0.1)
    assert result.code == 0, result.err
    assert "Effect of a cut-off" in result.out
    assert "To be right 10% of the time (95% sure): bmcd recommend" in result.out
    chosen = run("evaluate", files / "m.bmcd", files / "test.csv", "-k", 3, "--hit-rate", 0.1, "--json").json()
    assert f"--min-probability {chosen['min_probability']:.4f}" in result.out
    guess = run("evaluate", files / "m.bmcd", files / "test.csv", "-k", 3, "--hit-rate", 0.1, "--confidence", 0)
    assert "To be right 10% of the time (on these clicks)" in guess.out


def test_bad_data_is_one_line(refused, files, tmp_path, run):
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("user,item\nnobody,i05\n")
    assert "'nobody'" in refused("evaluate", files / "m.bmcd", wrong)
    assert "Ask for less" in refused("evaluate", files / "m.bmcd", files / "test.csv", "--hit-rate", 0.999)
    assert run("evaluate", files / "m.bmcd", files / "test.csv", "-o", tmp_path / "x.txt").code == 2
