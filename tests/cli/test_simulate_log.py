"""`bmcd simulate --model log`: a large log with times, written a day at a time."""

import pandas as pd

import bmcd


def test_a_log_is_written_and_can_be_fitted(run, tmp_path):
    path = tmp_path / "log.parquet"
    command = ("simulate", "--model", "log", "--users", 800, "--items", 120, "--days", 3, "-o", path)
    found = run(*command, "--json")
    assert found.code == 0, (found.err, found.exception)
    frame = pd.read_parquet(path)
    assert found.json()["n_clicks"] == len(frame)
    assert frame.columns.tolist() == ["user", "item", "time"]
    clicks = bmcd.read_clicks(path)
    assert clicks.has_clock
    assert 2.9 < (clicks.times.max() - clicks.times.min()).astype(float) / 86_400e6 < 3.1
    run(*command[:-1], tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_options_of_other_models_are_refused(run, tmp_path):
    for options in (("--clusters", 3), ("--alpha", 2.0), ("--truth", tmp_path / "t.csv")):
        assert run("simulate", "--model", "log", "-o", tmp_path / "x.csv", *options).code == 2
    assert run("simulate", "--days", 3, "-o", tmp_path / "x.csv").code == 2
