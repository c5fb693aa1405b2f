"""bmcd.spark.recommend gives what the model itself gives, to the last digit, however the clicks are spread."""

import os
import pickle
import signal
import subprocess
import sys
from itertools import islice

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.errors import InputError, InputTypeError, MissingPackageError, UnknownIdError
from bmcd.spark import recommending
from bmcd.spark.recommending import missing_package, on_worker

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them


def collected(found):
    """The rows of a Spark frame as pandas, users in order."""
    rows = found.collect()
    frame = pd.DataFrame([row.asDict() for row in rows], columns=found.columns)
    return frame.sort_values(["user", "rank"], ignore_index=True)


def wanted(model, clicks, k, **options):
    found = model.recommend_for(clicks, k, **options)
    return found.sort_values(["user", "rank"], ignore_index=True)


def assert_same(found, want):
    assert found.columns.tolist() == want.columns.tolist()
    for name in want:  # exactly, and not nearly
        assert found[name].tolist() == want[name].tolist(), name


def test_numbers_are_those_of_the_local_call_whatever_the_partitions(frame, rows, model, model_file, simulation):
    want = wanted(model, simulation.clicks, 4)
    assert frame.rdd.getNumPartitions() == 5
    many_partitions = bmcd.spark.recommend(frame, model_file, 4, partitions=7)
    assert_same(collected(many_partitions), want)
    # Three rows in 40 partitions: most have nothing, before and after users are brought together.
    few = frame.where("user < 2").repartition(40)
    assert_same(collected(bmcd.spark.recommend(few, str(model_file), 4)), want[want["user"] < 2])
    # Users of the fit get what `recommend` gives them, too.
    known = model.recommend(4).sort_values(["user", "rank"], ignore_index=True)
    assert_same(want, known)


def test_text_ids_repeated_clicks_blanks_and_options(spark, tmp_path):
    clicks = pd.DataFrame({"user": ["ann", "ann", "bob", "cyd", "cyd", "cyd"] * 5, "item": list("abcabd") * 5})
    model = bmcd.BMCD(2).fit(clicks, draws=6, warmup=4, chains=2, n_threads=1)
    model.save(tmp_path / "text.bmcd")
    log = [("ann", "a"), (" ann ", "a"), ("dan\t", " b"), ("eve", "x"), ("\u00a0eve", "d")]
    frame = spark.createDataFrame(log, "who string, what string")
    options = {"unknown": "ignore", "items": ["a", "b", "c"], "min_probability": 0.05, "max_draws": 4}
    found = bmcd.spark.recommend(frame, tmp_path / "text.bmcd", 2, user="who", item="what", **options)
    want = wanted(model, {"ann": ["a"], "dan": ["b"], "eve": ["d"]}, 2, **options)
    assert_same(collected(found), want)
    assert dict(found.dtypes) == {
        "user": "string", "item": "string", "rank": "bigint", "probability": "double", "mcse": "double"
    }  # fmt: skip


def test_items_that_the_model_does_not_know_stop_the_job_by_name(spark, model_file):
    frame = spark.createDataFrame([(1, 2), (1, 999)], "user int, item int")
    with pytest.raises(Exception, match=r"UnknownIdError.* 1 items that the model does not know: 999"):
        bmcd.spark.recommend(frame, model_file).collect()
    ignored = bmcd.spark.recommend(frame, model_file, unknown="ignore", k=1)
    assert dict(ignored.dtypes)["user"] == "int"  # the caller's own type
    assert ignored.count() == 1


def test_a_row_without_an_id_stops_the_job(spark, model_file):
    for row in [(None, 2), (1, None)]:
        frame = spark.createDataFrame([row], "user int, item int")
        with pytest.raises(Exception, match=r"a row of the clicks has no (user|item) \(column (user|item)\)"):
            bmcd.spark.recommend(frame, model_file).collect()


def test_a_task_that_is_killed_is_tried_again_and_gives_the_same(frame, model, model_file, simulation, monkeypatch):
    def killed_once(**options):
        work = on_worker(**options)

        def call(batches):
            from pyspark import TaskContext

            task = TaskContext.get()
            yield from work(islice(batches, 1))
            if task.attemptNumber() == 0 and task.partitionId() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            yield from work(batches)

        return call

    monkeypatch.setattr(recommending, "on_worker", killed_once)
    found = bmcd.spark.recommend(frame, model_file, 3, partitions=3)
    assert_same(collected(found), wanted(model, simulation.clicks, 3))


def test_a_worker_that_lacks_a_package_is_one_clear_error(require, spark, frame, model_file, monkeypatch):
    """The driver asks the workers before anything runs, by a function that reaches them without pyarrow."""
    monkeypatch.setattr(recommending, "PACKAGES", ("numpy", "a_package_that_nobody_has"))
    recommending._checked.clear()
    with pytest.raises(MissingPackageError, match=r"a Spark worker, .*, lacks the package a_package_that"):
        bmcd.spark.recommend(frame, model_file)
    monkeypatch.undo()
    bmcd.spark.recommend(frame, model_file)  # nothing is missing, and that is remembered
    assert spark in recommending._checked


@pytest.mark.parametrize("package", ["pyarrow", "bmcd", "numba"])
def test_what_is_missing_is_named_where_it_is_missing(require, package):
    """The functions are sent by value: they can be unpickled in a Python that has nothing of ours."""
    pickled = require("pyspark.cloudpickle").dumps
    code = (
        f"import pickle, sys; sys.modules[{package!r}] = None\n"
        "ask = pickle.loads(sys.stdin.buffer.read())\n"
        "try:\n    print(ask(0))\n"
        "except ImportError as error:\n    print(error)"
    )
    asked = (missing_package(recommending.PACKAGES), on_worker(name="x", k=1, options={}))
    for sent in asked if package == "bmcd" else asked[:1]:
        found = subprocess.run([sys.executable, "-c", code], input=pickled(sent), capture_output=True, check=True)
        assert f"lacks the package {package}".encode() in found.stdout
        assert b'"bmcd[spark]" there' in found.stdout
    assert pickle.loads(pickled(asked[0]))(0) == ""  # by value, but the same here


def test_workers_run_this_python_and_the_model_is_sent_once(spark, frame, model_file):
    context = spark.sparkContext
    assert context.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
    before = len(context.listFiles)
    for _ in range(2):
        bmcd.spark.recommend(frame, model_file)
    after = context.listFiles
    assert len([path for path in after if "bmcd-" in path]) >= 1
    assert len(after) <= before + 1


def test_wrong_calls_are_told_what_to_do(spark, frame, model_file, model, tmp_path):
    with pytest.raises(InputTypeError, match="takes a frame of Spark, not a DataFrame"):
        bmcd.spark.recommend(pd.DataFrame({"user": [1], "item": [1]}), model_file)
    with pytest.raises(InputError, match=r"no column 'who' for the user: the frame has 'user'.* 'item'"):
        bmcd.spark.recommend(frame, model_file, user="who")
    with pytest.raises(InputError, match="two different columns"):
        bmcd.spark.recommend(frame, model_file, user="item")
    text = frame.selectExpr("user", "cast(item as string) as item")
    with pytest.raises(
        InputTypeError, match=r"items of the model are whole numbers, such as 0, but .*cast\('bigint'\)"
    ):
        bmcd.spark.recommend(text, model_file)
    with pytest.raises(InputTypeError, match="is of type double, but ids of a user are text or whole numbers"):
        bmcd.spark.recommend(frame.selectExpr("cast(user as double) as user", "item"), model_file)
    with pytest.raises(UnknownIdError, match="the item is not known: 77"):
        bmcd.spark.recommend(frame, model_file, items=[77])
    with pytest.raises(InputError, match="unknown must be"):
        bmcd.spark.recommend(frame, model_file, unknown="skip")
    with pytest.raises(InputError, match="min_probability"):
        bmcd.spark.recommend(frame, model_file, min_probability=2)
    kendall = bmcd.BMCD(2, distance="kendall", sampler="paper")
    kendall.fit(model.clicks_, draws=4, warmup=2, chains=1, count_k=[2]).save(tmp_path / "kendall.bmcd")
    with pytest.raises(InputError, match="only models with the footrule"):
        bmcd.spark.recommend(frame, tmp_path / "kendall.bmcd")


def test_a_blend_gives_its_own_numbers(frame, simulation, tmp_path):
    ease = bmcd.Blend(bmcd.baselines.EASE(regularization=50.0)).fit(simulation.clicks.at_least(3), seed=1)
    ease.save(tmp_path / "blend.bmcd")
    found = collected(bmcd.spark.recommend(frame, tmp_path / "blend.bmcd", 3))
    ease.save(tmp_path / "shipped.bmcd", clicks=False)  # executors get no clicks, nor counts of few users
    want = wanted(bmcd.load(tmp_path / "shipped.bmcd"), simulation.clicks, 3)
    assert found[["user", "item", "rank"]].equals(want[["user", "item", "rank"]])
    # Products of matrices may differ in the last digit with the number of users they are taken for.
    np.testing.assert_allclose(found["probability"], want["probability"], rtol=1e-12)
