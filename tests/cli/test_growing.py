"""`bmcd fit --last --start` on a log that grows, and on logs that cannot be what they were: the old model stays."""

import hashlib
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("blend")  # its kernels are compiled once

BEGIN = 1_700_000_000
HOUR = 3_600


def clicks_of(hours, per_hour=60, seed=0):
    """A log of so many hours: users come, click five of 12 items of the hour within minutes, and go."""
    rng = np.random.default_rng(seed)
    rows = []
    for hour in range(hours):
        for visit in range(per_hour // 5):
            user, at = f"u{rng.integers(200)}", BEGIN + hour * HOUR + visit * 5 * HOUR // per_hour
            items = rng.permutation(12)[:5] + 2 * (hour // 6)
            rows += [(user, f"a{item}", at + 30 * n) for n, item in enumerate(items)]
    return pd.DataFrame(rows, columns=["user", "item", "time"])


@pytest.fixture(scope="module")
def log():
    return clicks_of(48)


@pytest.fixture(scope="module")
def fitted(log, run, tmp_path_factory):
    """A model of the first 40 hours, --last 24h."""
    folder = tmp_path_factory.mktemp("growing")
    log[log["time"] < BEGIN + 40 * HOUR].to_csv(folder / "log.csv", index=False)
    found = run("fit", folder / "log.csv", "-o", folder / "model.bmcd", "--refresh", "1h", "--last", "24h")
    assert found.code == 0, (found.err, found.exception)
    return folder / "model.bmcd"


@pytest.fixture
def model(fitted, tmp_path):
    """The same model in a folder of this test."""
    path = tmp_path / "model.bmcd"
    path.write_bytes(fitted.read_bytes())
    return path


def again(model, frame, *options):
    frame.to_csv(model.parent / "log.csv", index=False)
    return ("fit", model.parent / "log.csv", "-o", model.parent / "next.bmcd", "--refresh", "1h", *options)


def test_the_last_hours_are_fitted_and_old_items_stay_known(fitted, log):
    clicks = bmcd.load(fitted).clicks_
    read = log[log["time"] < BEGIN + 40 * HOUR]
    end = read["time"].max()
    inside = read[read["time"] > end - 24 * HOUR]
    assert clicks.times.view(np.int64).min() // 10**6 == inside["time"].min()
    assert len(clicks.sequence) == len(inside)
    assert set(clicks.users) == set(inside["user"])
    assert set(clicks.items) == set(read["item"])
    old = next(item for item in clicks.items if item not in set(inside["item"]))
    assert len(bmcd.load(fitted).recommend_for([[old]], k=3)) == 3  # no error
    assert any("kept the last 24h" in step for step in clicks.history)


def test_the_loop_goes_on_from_the_model_in_use(run, model, log):
    before = bmcd.load(model)
    command = list(again(model, log, "--last", "24h", "--start", model))
    command[command.index("-o") + 1] = model  # the loop of a cron job: the model is replaced by its successor
    found = run(*command)
    assert found.code == 0, (found.err, found.exception)
    after = bmcd.load(model)
    assert after.as_of_ > before.as_of_
    assert after.members_ == before.members_
    assert len(after.windows_) >= len(before.windows_) - 1


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def shifted(log, rows, seconds):
    frame = log.copy()
    frame.loc[frame.index[rows], "time"] += seconds
    return frame


def now(days):
    return int((datetime.now(UTC) + timedelta(days=days)).timestamp())


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        # --last without a clock, and a --last that holds next to nothing.
        (lambda log: log[["user", "item"]], ("--last", "24h"), "--last 24h needs points in time"),
        (lambda log: log, ("--last", "10s"), "the last 10s before the last click"),
        (lambda log: log[log["time"] == log["time"].max()], ("--last", "24h"), "too few to fit to"),
        # A log that shrank: cut off at its end, thinned, emptied, rotated.
        (lambda log: log[log["time"] < BEGIN + 30 * HOUR], ("--start",), "was fitted to clicks up to"),
        (lambda log: log.iloc[::2], ("--last", "24h", "--start"), "of that time: it has shrunk"),
        (lambda log: log[log["time"] > BEGIN + 40 * HOUR], ("--last", "24h", "--start"), "was rotated"),
        (lambda log: log.iloc[:0], ("--last", "24h", "--start"), "there are no rows"),
        # A clock that jumped: into the future of now, and away from the bulk of the clicks.
        (lambda log: shifted(log, [-1], now(3) - BEGIN), ("--last", "24h"), "lie more than a day ahead"),
        (lambda log: shifted(log, [-1, -2], 30 * 86_400), ("--last", "24h"), "A clock has jumped"),
        (lambda log: shifted(log, [-1], 30 * 86_400), ("--start",), "A clock has jumped"),
    ],
)
def test_a_log_that_cannot_be_relied_on_is_refused_and_the_old_model_stays(
    refused, model, log, change, options, said
):
    options = [*options, model] if options[-1] == "--start" else options
    command = again(model, change(log), *options)
    kept = hash_of(model)
    assert said in refused(*command)
    assert hash_of(model) == kept


def test_a_log_without_a_clock_that_shrank(run, refused, tmp_path, log):
    path = tmp_path / "log.csv"
    log[["user", "item"]].to_csv(path, index=False)
    found = run("fit", path, "-o", tmp_path / "model.bmcd", "--order", "rows")
    assert found.code == 0, (found.err, found.exception)
    log[["user", "item"]].iloc[:500].to_csv(path, index=False)
    command = ("fit", path, "-o", tmp_path / "next.bmcd", "--order", "rows", "--start", tmp_path / "model.bmcd")
    assert f"has 500 clicks, and {tmp_path}/model.bmcd was fitted to {len(log):,}" in refused(*command)


@pytest.mark.parametrize("text", ["72", "0h", "yesterday", "-1h"])
def test_a_duration_that_is_none_is_bad_usage(run, model, log, text):
    found = run(*again(model, log, f"--last={text}"))
    assert found.code == 2
    assert "--last must be a duration such as" in " ".join(found.err.replace("│", " ").split())


def test_a_quiet_night_is_no_shrinking(run, model, log):
    """Fewer clicks in the last hours than the earlier model had, of a log that slides: nothing is missing."""
    quiet = log[(log["time"] > BEGIN + 20 * HOUR) & ((log["time"] < BEGIN + 40 * HOUR) | (log.index % 25 < 5))]
    found = run(*again(model, quiet, "--last", "24h", "--start", model))
    assert found.code == 0, (found.err, found.exception)


def test_local_times_and_few_late_clicks_pass(run, model, log):
    """Times up to a day ahead may be local ones, and one late click of a log of a hundred is no jump."""
    ahead = log.assign(time=log["time"] - log["time"].max() + now(0) + 14 * HOUR)
    found = run(*again(model, ahead, "--last", "24h"))
    assert found.code == 0, (found.err, found.exception)
