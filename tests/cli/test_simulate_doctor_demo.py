import importlib
import sys

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd import compiling
from bmcd.cli.doctor import CHECKS, check_compiled, check_log_z, check_tiny_fit


def test_simulate_writes_clicks_and_truth(run, tmp_path):
    clicks, truth = tmp_path / "clicks.csv", tmp_path / "truth.parquet"
    sizes = ("--users", 40, "--items", 9, "--clusters", 2, "--alpha", 4, "--mean-clicks", 3, "--seed", 5)
    found = run("simulate", "-o", clicks, *sizes, "--truth", truth)
    assert found.code == 0, found.err
    assert f"bmcd fit {clicks}" in found.out
    want = bmcd.simulate(40, 9, consensuses=2, alpha=4.0, mean_clicks=3.0, seed=5)
    assert bmcd.read_clicks(clicks).n_clicks == want.clicks.n_clicks
    table = pd.read_parquet(truth)
    np.testing.assert_array_equal(table["rank"].to_numpy().reshape(40, 9), want.ranks)
    np.testing.assert_array_equal(table["cluster"].to_numpy()[::9], want.labels + 1)
    assert table["clicked"].sum() == want.clicks.n_clicks
    assert run("simulate", "-o", clicks, *sizes, "--json").json()["n_clicks"] == want.clicks.n_clicks


def test_simulate_is_the_paper_s_by_default(run, tmp_path):
    assert run("simulate", "-o", tmp_path / "a.csv", "--users", 30, "--json").json()["n_items"] == 50
    assert run("simulate", "-o", tmp_path / "b.csv", "--users", 30, "--items", 7).code == 0


def test_simulate_draws_from_tastes_some_users_at_a_time(run, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("bmcd.cli.simulate"), "CHUNK", 70)
    clicks, truth = tmp_path / "clicks.parquet", tmp_path / "truth.parquet"
    sizes = ("--model", "tastes", "--users", 200, "--items", 30, "--tastes", 4, "--mean-clicks", 5, "--seed", 5)
    found = run("simulate", "-o", clicks, *sizes, "--truth", truth)
    assert found.code == 0, found.err
    assert f"bmcd fit {clicks} -o model.bmcd --model tastes --tastes 4" in found.out
    want = bmcd.simulate_tastes(200, 30, n_tastes=4, mean_clicks=5, seed=5)
    read = pd.read_parquet(clicks)
    assert read["user"].tolist() == np.repeat(np.arange(200), want.clicks.per_user).tolist()
    assert read["item"].tolist() == want.clicks.matrix.indices.tolist()
    table = pd.read_parquet(truth)
    np.testing.assert_array_equal(table["probability"].to_numpy().reshape(4, 30), want.first_items.T)
    np.testing.assert_array_equal(table["rank"].to_numpy().reshape(4, 30), want.rho)
    assert run("simulate", "-o", clicks, *sizes, "--json").json()["n_tastes"] == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tastes", 3], "--model bmcd does not take --tastes"),
        (["--model", "tastes", "--clusters", 3], "--model tastes does not take --clusters"),
    ],
)
def test_simulate_says_which_option_is_for_which_model(run, tmp_path, options, message):
    found = run("simulate", "-o", tmp_path / "a.csv", *options)
    assert found.code == 2
    assert message in found.err


def test_simulate_refuses_in_one_line(refused, tmp_path):
    assert "mean_clicks" in refused("simulate", "-o", tmp_path / "a.csv", "--mean-clicks", -1)
    assert "clusters" in refused("simulate", "-o", tmp_path / "a.csv", "--users", 2, "--clusters", 3)


def test_doctor_is_content(run, text_model):
    found = run("doctor", text_model, "--json")
    assert found.code == 0, found.out
    said = {check["name"]: check for check in found.json()["checks"]}
    assert found.json()["healthy"]
    assert "720 rankings" in said["log Z"]["text"]
    assert "sum to 3" in said["tiny fit"]["text"]
    assert "numba" in said["packages"]["text"]
    assert "knows 60 users and 12 items with titles" in said["model"]["text"]


def test_doctor_says_what_is_broken(run, monkeypatch, tmp_path):
    def broken():
        raise RuntimeError("a wall")

    for name in ("log Z", "tiny fit", "compiled"):
        monkeypatch.setitem(CHECKS, name, broken)
    monkeypatch.setattr(sys.modules["bmcd.cli.doctor"], "NEEDED", ("numpy", "no-such-package"))
    (tmp_path / "m.bmcd").write_text("no model at all, but long enough to be one, perhaps")
    found = run("doctor", tmp_path / "m.bmcd")
    assert found.code == 1
    assert "missing: no-such-package" in found.out
    assert "pip install no-such-package" in found.out
    assert "RuntimeError: a wall" in found.out
    assert "was not written by bmcd" in " ".join(found.out.split())  # a long path breaks the line
    assert "5 of 6 checks failed" in found.out


def test_doctor_notices_wrong_numbers(monkeypatch):
    monkeypatch.setattr("bmcd.mallows.log_partition", lambda n, alpha: 0.0)
    assert check_log_z()[0] == "broken"
    monkeypatch.setattr("bmcd.models.bmcd.BMCD.probabilities", lambda self, k, **options: np.zeros((60, 12)))
    assert check_tiny_fit()[0] == "broken"


def test_doctor_notices_a_cache_that_cannot_be_written(monkeypatch):
    assert check_compiled()[0] == "good"
    for kind in ("temporary", "none"):
        monkeypatch.setattr(compiling, "CACHE", compiling.KernelCache(kind, None))
        assert check_compiled()[0] == "note"
        assert "NUMBA_CACHE_DIR" in check_compiled()[2]


def test_demo(run, tmp_path):
    folder = tmp_path / "new" / "demo"
    found = run("demo", "--quick", "--folder", folder)
    assert found.code == 0, (found.err, found.exception)
    assert {path.name for path in folder.iterdir()} == {"model.bmcd", "recommendations.csv", "report.html"}
    assert f"The report for editors is {folder / 'report.html'}: open it" in found.out
    assert "Blend: predicted " in found.out
    assert ", observed " in found.out
    assert found.out.count("% │") >= 15
    assert f"bmcd recommend {folder / 'model.bmcd'}" in found.out
    rows = pd.read_csv(folder / "recommendations.csv")
    again = run("demo", "--quick", "--folder", folder, "--json").json()
    assert again["predicted"] == pytest.approx(rows["probability"].mean())
    assert set(again["methods"]) == {"Blend", "EASE", "Transitions", "SessionKNN", "Popularity"}
    assert f"predicted {again['predicted']:.1%}, observed {again['hits']:.1%}" in found.out
    assert isinstance(bmcd.load(folder / "model.bmcd"), bmcd.Blend)
    explain = next(line for line in found.out.splitlines() if line.startswith("  bmcd explain"))
    assert run(*explain.split()[1:]).code == 0


def test_demo_where_nothing_can_be_written(refused, tmp_path):
    (tmp_path / "file").write_text("in the way")
    assert "cannot be made" in refused("demo", "--quick", "--folder", tmp_path / "file" / "demo")


@pytest.mark.deep
def test_the_live_demo_shows_predicted_and_observed(run, tmp_path):
    found = run("demo", "--live", "--quick", "--folder", tmp_path, "--json")
    assert found.code == 0, found.err
    said = found.json()
    assert said["clicks"] > 200
    assert said["lists"] > 20
    assert 0.1 < said["observed"] < 0.9
    assert abs(said["predicted"] - said["observed"]) < 4.5 * np.sqrt(0.25 / said["lists"])
    assert said["live"]["lists"] > 10
    assert sorted(path.name for path in tmp_path.iterdir()) == ["live", "live-model.bmcd"]
    assert bmcd.load(tmp_path / "live-model.bmcd").clicks_.has_clock
