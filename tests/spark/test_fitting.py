"""bmcd.spark.fit gives the model of Blend.fit on the same log, whatever the partitions and lost executors."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import bmcd
from bmcd.blend.features import COUNTS
from bmcd.blend.moments import user_hash, xxhash64
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.simulation import simulate_log
from bmcd.spark.counting import SparkLog
from bmcd.spark.fitting import SparkWork, _user_hash

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them

TABLES = ("popularity", "share", "known", "head", "cell", "n_cell", "cells")
HOUR = 3_600_000_000


def sent(spark, frame):
    """A pandas frame as a frame of Spark, by way of Arrow."""
    return spark.createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))


def frame_of(n_users, n_items, days, seed, mean_clicks=8.0):
    hours = list(simulate_log(n_users, n_items, mean_clicks=mean_clicks, days=days, seed=seed))
    return pd.DataFrame({name: np.concatenate([hour[name] for hour in hours]) for name in hours[0]})


def assert_same(found, want):
    """Counts that are whole numbers are equal; decayed sums and weights to 1e-9, ranks and sessions exactly."""
    found, want = found.fitted_, want.fitted_
    assert found.settings == want.settings
    assert (found.refresh, found.until) == (want.refresh, want.until)
    for name in TABLES:
        one, two = getattr(found.tables, name), getattr(want.tables, name)
        np.testing.assert_allclose(one, two, rtol=1e-6 if one.dtype == np.float32 else 0, atol=0, err_msg=name)
    for name in COUNTS:
        one, two = getattr(found.tables, name), getattr(want.tables, name)
        np.testing.assert_array_equal(one.start, two.start, err_msg=name)
        np.testing.assert_array_equal(one.item, two.item, err_msg=name)
        # Stored in single precision: a last bit may differ where a sum falls on the border of two numbers.
        np.testing.assert_allclose(one.value, two.value, rtol=2e-7, err_msg=name)
        np.testing.assert_allclose(one.total, two.total, rtol=2e-7, err_msg=name)
    assert (found.tables.sessions is None) == (want.tables.sessions is None)
    for one, two in zip(found.tables.sessions or (), want.tables.sessions or (), strict=True):
        np.testing.assert_array_equal(one, two)
    assert found.tables.outside == pytest.approx(want.tables.outside, rel=1e-9)
    np.testing.assert_array_equal(found.rule.ks, want.rule.ks)
    np.testing.assert_array_equal(found.rule.n_moments, want.rule.n_moments)
    np.testing.assert_allclose(found.rule.weights, want.rule.weights, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.rule.errors, want.rule.errors, rtol=1e-6, atol=1e-9)
    assert found.gains.keys() == want.gains.keys()
    for name, gain in want.gains.items():
        np.testing.assert_allclose(found.gains[name], gain, rtol=1e-6, atol=1e-6)
    assert [window._replace(predicted=0, error=0, outside_predicted=0) for window in found.windows] == [
        window._replace(predicted=0, error=0, outside_predicted=0) for window in want.windows
    ]


@pytest.fixture(scope="module")
def log():
    """Three days of 400 items; sessions, repeats, and many clicks in the same second."""
    return frame_of(2_000, 400, 3, seed=1)


@pytest.fixture(scope="module")
def local(log):
    return bmcd.Blend(refresh="3h").fit(log, seed=2)


@pytest.fixture(scope="module")
def fitted(spark, log):
    """Fitted in Spark to rows in random order, every user in several of seven partitions, two of them empty."""
    rows = sent(spark, log.sample(frac=1.0, random_state=3)).repartition(5)
    rows = rows.union(rows.where("user < 0").repartition(2))
    return bmcd.spark.fit(rows, bmcd.Blend(refresh="3h"), seed=2)


def test_the_model_is_that_of_the_same_log_on_one_machine(fitted, local):
    assert_same(fitted, local)


def test_it_recommends_as_the_local_model_does_and_can_be_saved(fitted, local, tmp_path):
    assert fitted.clicks_.n_users == 0
    assert fitted.clicks_.items.tolist() == local.clicks_.items.tolist()
    fitted.save(tmp_path / "model.bmcd")
    histories = [local.clicks_.items[[3, 7, 11]].tolist(), []]
    want = local.recommend_for(histories, k=5)
    for model in (fitted, bmcd.load(tmp_path / "model.bmcd")):
        found = model.recommend_for(histories, k=5)
        assert found["item"].tolist() == want["item"].tolist()
        np.testing.assert_allclose(found["probability"], want["probability"], rtol=1e-9)
    assert fitted.verdict_.text == local.verdict_.text
    assert fitted.as_of_ == local.as_of_


def executors_of(context):
    """The processes of the executors of a local cluster."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # it has ended meanwhile
            continue
        if any("CoarseGrainedExecutorBackend" in word for word in words) and context.applicationId in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.deep
def test_other_partitions_and_a_lost_executor_change_nothing(spark, log, local):
    """Text ids in another order, a click counted twice, and an executor that is killed while it counts."""
    context = spark.sparkContext
    text = log.assign(user="u" + log["user"].astype(str), item="i" + log["item"].astype(str))
    text["time"] = pd.to_datetime(text["time"], unit="s", utc=True)
    want = bmcd.Blend(refresh="3h").fit(text, seed=2)
    rows = sent(spark, pd.concat([text.iloc[::-1], text.iloc[:500]])).repartition(3)
    before = executors_of(context)
    assert len(before) == 2
    killed = threading.Timer(8.0, os.kill, (before[0], signal.SIGKILL))
    killed.start()
    found = bmcd.spark.fit(rows, bmcd.Blend(refresh="3h"), seed=2)
    killed.join()
    assert_same(found, want)
    until = time.monotonic() + 60
    while before[0] in executors_of(context) and time.monotonic() < until:
        time.sleep(0.2)
    assert before[0] not in executors_of(context)  # it was lost


@pytest.mark.parametrize(
    ("seed", "options"),
    [(5, {"refresh": "6h", "repeats": True}), (6, {})],
)
@pytest.mark.deep
def test_other_logs_and_settings(spark, seed, options):
    log = frame_of(1_500, 300, 4, seed=seed)
    rows = sent(spark, log).repartition(2)
    assert_same(bmcd.spark.fit(rows, bmcd.Blend(**options), seed=seed), bmcd.Blend(**options).fit(log, seed=seed))


@pytest.mark.deep
def test_more_users_than_moments_are_sampled_alike(spark, monkeypatch):
    """With small budgets, the users who give moments are some of many, and their hashes choose the same."""
    from bmcd.blend import fitting as local_fitting
    from bmcd.spark import fitting

    small = {1: 150, 3: 120, 10: 110, 30: 100}
    for module in (local_fitting, fitting):
        monkeypatch.setattr(module, "BUDGET", small)
        monkeypatch.setattr(module, "DECIDING", 120)
    log = frame_of(3_000, 60, 2, seed=9)
    rows = sent(spark, log).repartition(3)
    with_work = SparkLog(rows, "user", "item", "time")
    work = SparkWork(with_work, 6 * HOUR, False, 4, None, False)
    with_work.close()
    assert work.clicks.n_users < 0.8 * log["user"].nunique()  # the driver did not get everybody
    found = bmcd.spark.fit(rows, bmcd.Blend(refresh="6h"), seed=4)
    assert_same(found, bmcd.Blend(refresh="6h").fit(log, seed=4))


def test_hashes_are_those_of_spark(spark):
    numbers = np.array([0, 1, -1, 42, 2**53 + 1, -(2**62)])
    rows = spark.createDataFrame([(int(n),) for n in numbers], "user bigint")
    for seed in (0, 7):
        found = [row[0] for row in rows.select(_user_hash(rows, seed)).collect()]
        assert found == user_hash(numbers, seed).tolist()
    texts = np.array(["ann", "bøb", "", "\U0001f600"], object)
    rows = spark.createDataFrame([(text,) for text in texts], "user string")
    assert [row[0] for row in rows.select(_user_hash(rows, 3)).collect()] == user_hash(texts, 3).tolist()
    assert xxhash64(np.array([1]), np.int64(42)).tolist() == [-7001672635703045582]


def test_recommendations_follow_the_order_of_the_clicks(spark, fitted, log, tmp_path):
    """Histories are put in order of time on Spark, as on one machine, whatever the order of the rows."""
    fitted.save(tmp_path / "model.bmcd")
    some = log[log["user"] < 40]
    want = bmcd.load(tmp_path / "model.bmcd").recommend_for(bmcd.Clicks.from_frame(some), 3)
    rows = sent(spark, some.sample(frac=1.0, random_state=1)).repartition(4)
    found = bmcd.spark.recommend(rows, tmp_path / "model.bmcd", 3, partitions=3).toArrow().to_pandas()
    columns = ["user", "rank"]
    found, want = (one.sort_values(columns, ignore_index=True) for one in (found, want))
    assert found[["user", "item", "rank"]].to_numpy().tolist() == want[["user", "item", "rank"]].to_numpy().tolist()
    np.testing.assert_allclose(found["probability"], want["probability"], rtol=1e-12)
    with pytest.raises(InputError, match="time_column="):
        bmcd.spark.recommend(rows.drop("time"), tmp_path / "model.bmcd")


@pytest.mark.parametrize("kind", ["bigint", "double", "timestamp", "timestamp_ntz"])
def test_times_of_every_type_are_read_alike(spark, kind):
    log = pd.DataFrame({"user": [1, 1, 2, 2], "item": [5, 6, 5, 7], "time": [1.6e9, 1.6e9 + 60, 1.6e9, 1.6e9 + 1]})
    rows = sent(spark, log)
    if kind == "timestamp_ntz":
        rows = rows.selectExpr("user", "item", "cast(from_unixtime(cast(time as bigint)) as timestamp) as time")
        zone = spark.conf.get("spark.sql.session.timeZone")
        rows = rows.selectExpr("user", "item", f"cast(to_utc_timestamp(time, '{zone}') as timestamp_ntz) as time")
    else:
        rows = rows.selectExpr("user", "item", f"cast(time as {kind}) as time")
    log = SparkLog(rows, "user", "item", "time")
    log.close()
    assert (log.n, log.begin, log.end) == (4, 1_600_000_000_000_000, 1_600_000_060_000_001)
    assert log.items.tolist() == [5, 7, 6]


def test_wrong_calls_are_told_what_to_do(spark):
    rows = spark.createDataFrame([(1, 2, 1_600_000_000)], "user int, item int, time bigint")
    with pytest.raises(InputTypeError, match=r"bmcd.spark.fit fits bmcd.Blend, not BMCD"):
        bmcd.spark.fit(rows, bmcd.BMCD(2))
    with pytest.raises(InputError, match="a blend of given models"):
        bmcd.spark.fit(rows, bmcd.Blend(bmcd.baselines.EASE()))
    with pytest.raises(InputError, match="time_column="):
        bmcd.spark.fit(rows.drop("time"), bmcd.Blend())
    with pytest.raises(InputError, match="no column 'when' for the times"):
        bmcd.spark.fit(rows, bmcd.Blend(), time_column="when")
    with pytest.raises(InputTypeError, match="is of type string, but times are timestamps"):
        bmcd.spark.fit(rows.selectExpr("user", "item", "string(time) as time"), bmcd.Blend())
    with pytest.raises(ClicksError, match="there are no rows"):
        bmcd.spark.fit(rows.where("user < 0"), bmcd.Blend())
    with pytest.raises(ClicksError, match="are not points in time"):
        bmcd.spark.fit(rows.selectExpr("user", "item", "time % 1000 as time"), bmcd.Blend())
    with pytest.raises(Exception, match="a row of the clicks has no time"):
        bmcd.spark.fit(rows.selectExpr("user", "item", "nullif(time, time) as time").union(rows), bmcd.Blend())
