"""recommend and evaluate: clicks in Spark frames in; recommendations, or their accuracy and calibration, out."""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from bmcd.baselines.spark_session import spark_folder
from bmcd.errors import ClicksError, InputError, InputTypeError, MissingPackageError, ShortListWarning
from bmcd.evaluation.calibration import bin_edges
from bmcd.inference.draws import MaxDraws
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, load_model, sampled_models
from bmcd.models.top_k import check_k
from bmcd.spark.counting import check_frame, clean_ids, f, with_times, without_pandas_warning
from bmcd.utils import shown

if TYPE_CHECKING:
    import pandas as pd

_shipping = threading.Lock()
# What each session of Spark Connect has been sent.
_artifacts: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
# Sessions whose workers have what they need.
_checked: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
PACKAGES = ("numpy", "scipy", "pyarrow", "numba", "narwhals", "bmcd.spark.recommending")


def recommend(
    frame: Any,
    model: str | Path,
    k: int = 10,
    *,
    user: str = "user",
    item: str = "item",
    time_column: str | None = None,
    items: Iterable[Any] | None = None,
    min_probability: float | None = None,
    unknown: Literal["error", "ignore"] = "error",
    max_draws: MaxDraws = "auto",
    partitions: int | None = None,
) -> Any:
    """Return a lazy Spark frame of recommendations for all users of a Spark frame of clicks.

    Its columns are user, item, title (if the model has titles), rank, probability and mcse: those of the model's
    `recommend_for` for the same clicks, to the last digit, whatever the partitions. Nothing runs before the frame
    is used, except a check, once in a session, that the workers have the packages. It runs in the session of
    ``frame``, whose workers need bmcd.

    Parameters
    ----------
    frame
        One row per click; further columns are ignored. Repeated clicks count where the model uses order, once
        where it does not.
    model
        A file of any model that serves new users. It is sent to the executors once, without the users it was fitted
        to, and opened once in each of their Python processes.
    user, item
        The columns of ``frame``: text or whole numbers; items of the type that the model has.
    time_column
        The column of the times, for a model that uses the order of the clicks; by default "time", if there is one.
        Each user's clicks are put in order and cut into sessions, of which the last one is running.
    items, min_probability, unknown, max_draws
        As in `recommend_for`. With unknown="error" clicks on items that the model does not know stop the job.
    partitions
        The number of tasks that users are divided into. Default: spark.sql.shuffle.partitions. A few per core are
        best.

    Examples
    --------
    ::

        clicks = spark.read.parquet("clicks.parquet")
        bmcd.spark.recommend(clicks, "model.bmcd", k=10).write.parquet("recommendations.parquet")
    """
    check_frame(frame, user, item, "bmcd.spark.recommend")
    opened, k = load_model(model), check_k(k)
    wanted = None if items is None else list(items)
    if unknown not in ("error", "ignore"):
        raise InputError(f"unknown must be 'error' or 'ignore', but it is {unknown!r}.")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise InputError(f"min_probability must lie between 0 and 1, but it is {min_probability!r}.")
    if wanted is not None:
        opened.clicks_.columns_of(wanted, "The model can recommend only items it was fitted to.")
    for part in sampled_models(opened).values():
        if isinstance(part, BMCD) and part.distance != "footrule":
            raise InputError(
                f"{model} has the distance {part.distance!r}; only models with the footrule can serve new users by "
                "their clicks."
            )
    kind = _item_type(opened, dict(frame.dtypes)[item], item)
    options = {"items": wanted, "min_probability": min_probability, "unknown": unknown}
    options |= {} if max_draws == "auto" else {"max_draws": max_draws}
    # Rows of a user may be anywhere, so they are brought together. Spark itself would choose one task for a few
    # megabytes of clicks, which are hours of work.
    n_tasks = partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    if opened.clicks_.order is None:
        rows = clean_ids(frame, user, item).repartition(n_tasks, "user").groupBy("user")
        rows = rows.agg(f.collect_set("item").alias("items"))
    else:
        if time_column is None and "time" not in frame.columns:
            raise InputError(
                "the model uses the order of the clicks: name the column of their times, time_column=, or call "
                "recommend_for on one machine with histories in click order."
            )
        rows = with_times(frame, user, item, time_column or "time").repartition(n_tasks, "user").groupBy("user")
        rows = rows.agg(f.sort_array(f.collect_list(f.struct("t", "item"))).alias("pairs"))
        rows = rows.select("user", f.col("pairs.item").alias("items"), f.col("pairs.t").alias("times"))
    title = "title string, " if opened.clicks_.titles is not None else ""
    schema = f"user {dict(rows.dtypes)['user']}, item {kind}, {title}rank bigint, probability double, mcse double"
    check_workers(frame.sparkSession)
    name = ship_model(frame.sparkSession, opened)
    with without_pandas_warning():
        return rows.mapInArrow(on_worker(name=name, k=k, options=options), schema)


def _item_type(model: Model, given: str, column: str) -> str:
    """Return the type that Spark has for the items of a model, or an error if the clicks have another."""
    ids = model.clicks_.items
    kind = "bigint" if ids.dtype != object else "string"
    if kind == "string" and not all(isinstance(own, str) for own in ids.tolist()):
        strange = next(own for own in ids.tolist() if not isinstance(own, str))
        raise InputTypeError(
            f"on Spark items are text or whole numbers, but this model has the item {shown(strange)}."
        )
    if (given == "string") != (kind == "string"):
        raise InputTypeError(
            f"the items of the model are {'text' if kind == 'string' else 'whole numbers'}, such as "
            f"{shown(ids[0])}, but the column {column!r} is of type {given}: cast it, such as with "
            f"frame.withColumn({column!r}, F.col({column!r}).cast({kind!r}))."
        )
    return kind


# ---- what workers do ----


def ship_model(session: Any, model: Model) -> str:
    """Send a model to all executors of a session, without its users if possible; return its name there."""
    folder = spark_folder()
    with _shipping:
        written = folder / "shipped.bmcd"
        try:
            model.save(written, clicks=False)
        except InputError:  # a blend with neighbours among users
            model.save(written)
        path = folder / f"bmcd-{hashlib.sha256(written.read_bytes()).hexdigest()[:24]}.bmcd"
        written.replace(path)
        if not is_connect(session):
            session.sparkContext.addFile(str(path))  # one that is there already is not sent again
        elif path.name not in _artifacts.setdefault(session, set()):
            session.addArtifact(str(path), file=True)  # one of the same name would be an error if it differed
            _artifacts[session].add(path.name)
    return path.name


def is_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no Spark context and takes files as artifacts."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_workers(session: Any) -> None:
    """Raise `MissingPackageError` if a worker lacks a package; done once in each session.

    It is a plain function on pickled rows: where pyarrow is missing, no other would reach the worker.
    """
    with _shipping:
        if session in _checked:
            return
        cores = 4 if is_connect(session) else session.sparkContext.defaultParallelism
        ask = f.udf(missing_package(PACKAGES), "string", useArrow=False)
        found = session.range(0, cores, 1, cores).select(ask(f.col("id")).alias("said")).distinct().collect()
        if said := sorted(row["said"] for row in found if row["said"]):
            raise MissingPackageError(said[0])
        _checked[session] = True


def missing_package(packages: tuple[str, ...]) -> Callable[[Any], str]:
    """Return a function for workers, sent by value, that returns which package is missing there, or nothing."""

    def call(_: Any) -> str:
        import importlib
        import sys

        for package in packages:
            try:
                importlib.import_module(package)
            except ImportError as error:
                name = (getattr(error, "name", None) or package).partition(".")[0]
                return (
                    f"the Python of a Spark worker, {sys.executable}, lacks the package {name} ({error}). Install "
                    '"bmcd[spark]" there, or name a Python that has it with spark.pyspark.python (spark-submit) or '
                    "PYSPARK_PYTHON."
                )
        return ""

    return call


def on_worker(**options: Any) -> Callable[[Any], Any]:
    """Return a function for workers that calls `score`, sent by value: a worker without bmcd can report that."""
    missing = missing_package(PACKAGES)

    def call(batches: Any) -> Any:
        import importlib

        if said := missing(None):
            raise ImportError(said)
        return importlib.import_module("bmcd.spark.recommending").score(batches, **options)

    return call


@lru_cache(maxsize=2)
def opened(name: str) -> Model:
    """Return a model that was shipped; it is opened once in each Python process of an executor."""
    from pyspark import SparkFiles

    return load_model(Path(SparkFiles.get(name)))


def score(batches: Iterable[Any], *, name: str, k: int, options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the recommendations for the users of each batch, by the model shipped under this name."""
    model = opened(name)
    for batch in batches:
        if batch.num_rows:
            yield _scored(batch, model, k, options)


def _scored(batch: Any, model: Any, k: int, options: Mapping[str, Any]) -> Any:
    import narwhals as nw
    import numpy as np
    import pyarrow as pa

    items = batch.column("items")
    if "times" in batch.schema.names:  # a table with times; users are the numbers of the rows
        times = batch.column("times").flatten().cast(pa.timestamp("us"))
        user = np.repeat(np.arange(batch.num_rows), np.diff(items.offsets.to_numpy()))
        histories = pa.table({"user": user, "item": items.flatten(), "time": times})
    else:
        histories = items.to_pylist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShortListWarning)  # no one reads the log of a worker
        found = model.recommend_for(histories, k, n_threads=1, progress=False, **options)
    table = nw.from_native(found, eager_only=True)
    columns = {"user": batch.column("user").take(pa.array(table["user"].to_numpy()))}
    kinds = {"item": pa.int64() if model.clicks_.items.dtype != object else pa.string()}
    kinds |= {"title": pa.string()} if "title" in table.columns else {}
    columns |= {column: pa.array(table[column].to_list(), kind) for column, kind in kinds.items()}
    columns |= {"rank": pa.array(table["rank"].to_numpy(), pa.int64())}
    columns |= {column: pa.array(table[column].to_numpy(), pa.float64()) for column in ("probability", "mcse")}
    return pa.RecordBatch.from_pydict(columns)


# ---- evaluate ----


@dataclass(frozen=True, eq=False)
class SparkEvaluation:
    """What `bmcd.spark.evaluate` found; `print` it. Every measure is that of `bmcd.evaluate` of the same name."""

    k: int
    n_users: int
    """Users with recommendations."""
    n_items: int
    n_recommendations: int
    n_hits: int
    accuracy: float
    """Share of all recommendations that are hits."""
    accuracy_se: float
    """Its standard error over users."""
    coverage: float
    """Distinct items recommended, over those the model knows."""
    correct_coverage: float
    """Distinct items that are a hit for some user, over those the model knows."""
    mean_probability: float
    """Mean predicted probability of the recommendations; near `accuracy` if it is calibrated."""
    promise_gap: float
    brier: float
    expected_calibration_error: float
    calibration: pd.DataFrame
    """By bin of probability: lower, upper, n, probability, hit_rate."""

    def __str__(self) -> str:
        return (
            f"{self.n_recommendations:,} recommendations (k = {self.k}) for {self.n_users:,} users, "
            f"{self.n_hits:,} hits\n"
            f"accuracy {self.accuracy:.4f} (standard error {self.accuracy_se:.4f}), predicted "
            f"{self.mean_probability:.4f}\n"
            f"coverage {self.coverage:.4f}, of hits {self.correct_coverage:.4f}\n"
            f"Brier score {self.brier:.4f}, expected calibration error {self.expected_calibration_error:.4f}"
        )


def evaluate(
    train: Any,
    test: Any,
    model: str | Path,
    k: int = 10,
    *,
    user: str = "user",
    item: str = "item",
    bin_width: float = 0.01,
    **options: Any,
) -> SparkEvaluation:
    """Recommend to all users of ``train``, and compare with ``test``; both are Spark frames of clicks.

    A recommendation is a hit if the user clicked the item in ``test``. Users without clicks in ``test`` count, with
    misses only. ``options`` are those of `bmcd.spark.recommend`. The recommendations are kept on the disks of the
    cluster while they are counted, so that each user is scored once.

    Examples
    --------
    ::

        print(bmcd.spark.evaluate(train, test, "model.bmcd", k=10))
    """
    check_frame(test, user, item, "bmcd.spark.evaluate")
    from pyspark import StorageLevel

    edges = bin_edges(bin_width).tolist()
    listed = recommend(train, model, k, user=user, item=item, **options)
    clicked = clean_ids(test, user, item).distinct().withColumn("hit", f.lit(1.0))
    joined = listed.join(clicked, ["user", "item"], "left").fillna({"hit": 0.0})
    # The first edge is 0, so what is not above it is in the first bin; a probability of 1 is in the last one.
    lower = f.array(*[f.lit(edge) for edge in edges[:-1]])
    below = f.size(f.filter(lower, lambda edge: edge <= f.col("probability")))
    scored = joined.select("user", "item", "probability", "hit", (below - 1).alias("bin"))
    scored = scored.persist(StorageLevel.DISK_ONLY)
    try:
        return _measured(scored, k, load_model(model).clicks_.n_items, edges)
    finally:
        scored.unpersist()


def _measured(scored: Any, k: int, n_items: int, edges: list[float]) -> SparkEvaluation:
    import pandas as pd

    n, hits, predicted = (
        f.count("*").alias("n"),
        f.sum("hit").alias("hits"),
        f.sum("probability").alias("predicted"),
    )
    errors = f.sum((f.col("probability") - f.col("hit")) ** 2).alias("errors")
    bins = pd.DataFrame(
        scored.groupBy("bin").agg(n, hits, predicted, errors).orderBy("bin").collect(),
        columns=["bin", "n", "hits", "predicted", "errors"],
    )
    if bins.empty:
        raise ClicksError("no user was recommended anything: the training clicks are empty, or nothing is left.")
    total, n_hits, mean = int(bins["n"].sum()), int(bins["hits"].sum()), float(bins["predicted"].sum())
    mean /= total
    accuracy = n_hits / total
    items = scored.groupBy("item").agg(f.max("hit").alias("hit")).groupBy().agg(n, f.sum("hit").alias("hits"))
    covered = items.collect()[0]
    # The accuracy is a ratio of two sums over users: its error is that of hits minus accuracy x recommendations.
    by_user = scored.groupBy("user").agg((f.sum("hit") - f.lit(accuracy) * f.count("*")).alias("excess"))
    users = by_user.groupBy().agg(n, f.sum(f.col("excess") ** 2).alias("squares")).collect()[0]
    table = pd.DataFrame(
        {
            "lower": [edges[one] for one in bins["bin"]], "upper": [edges[one + 1] for one in bins["bin"]],
            "n": bins["n"], "probability": bins["predicted"] / bins["n"], "hit_rate": bins["hits"] / bins["n"],
        }
    )  # fmt: skip
    gaps = (table["probability"] - table["hit_rate"]).abs() * table["n"]
    return SparkEvaluation(
        k=k, n_users=users["n"], n_items=n_items, n_recommendations=total, n_hits=n_hits, accuracy=accuracy,
        accuracy_se=users["squares"] ** 0.5 / total, coverage=covered["n"] / n_items,
        correct_coverage=covered["hits"] / n_items, mean_probability=mean, promise_gap=mean - accuracy,
        brier=float(bins["errors"].sum() / total), expected_calibration_error=float(gaps.sum() / total),
        calibration=table,
    )  # fmt: skip
