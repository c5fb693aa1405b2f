"""What goes to the workers: the model file, once, and functions that say so where bmcd is missing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from bmcd.baselines.spark_session import spark_folder
from bmcd.errors import InputError, MissingPackageError
from bmcd.models.persistence import Model, load_model

_shipping = threading.Lock()
# What each session of Spark Connect has been sent.
_artifacts: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
# Sessions whose workers have what they need, and what that is.
_checked: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
PACKAGES = ("numpy", "scipy", "pyarrow", "numba", "narwhals", "bmcd.spark.scoring")


def ship_model(session: Any, model: Model) -> str:
    """Send a model to all executors of a session, without its users if it can do without; return its name there."""
    folder = spark_folder()
    with _shipping:
        written = folder / "shipped.bmcd"
        try:
            model.save(written, clicks=False)
        except InputError:  # a blend with neighbours among users
            model.save(written)
        path = folder / f"bmcd-{hashlib.sha256(written.read_bytes()).hexdigest()[:24]}.bmcd"
        written.replace(path)
        _send(session, path)
    return path.name


def _send(session: Any, path: Path) -> None:
    """Send a file to all executors, unless this session has it."""
    if not is_connect(session):
        session.sparkContext.addFile(str(path))  # one that is there already is not sent again
    elif path.name not in _artifacts.setdefault(session, set()):
        session.addArtifact(str(path), file=True)  # one of the same name would be an error if it differed
        _artifacts[session].add(path.name)


def is_connect(session: Any) -> bool:
    """Whether a session is one of Spark Connect, which has no context of its own and takes files as artifacts."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def check_workers(session: Any) -> None:
    """Raise `MissingPackageError` if a worker lacks a package; done once in each session.

    The question is a plain function on pickled rows: where pyarrow is missing, no other would reach the worker.
    """
    from pyspark.sql import functions as f

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
    """Return a function for workers, sent as what it does, that returns what is missing there, or nothing."""

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


def on_worker(module: str, function: str, **options: Any) -> Callable[[Any], Any]:
    """Return a function for workers that calls ``bmcd.spark.module.function(rows, **options)``.

    It is sent as what it does and not as its name, so that a worker without bmcd can say so.
    """

    def call(rows: Any) -> Any:
        import importlib
        import sys

        try:
            there = importlib.import_module(f"bmcd.spark.{module}")
        except ImportError as error:
            missing = getattr(error, "name", None) or "bmcd"
            raise ImportError(
                f"the Python of this Spark worker, {sys.executable}, lacks the package {missing.partition('.')[0]} "
                f'({error}): install "bmcd[spark]" there, or name a Python that has it with spark.pyspark.python '
                "(spark-submit) or PYSPARK_PYTHON."
            ) from error
        return getattr(there, function)(rows, **options)

    return call


@lru_cache(maxsize=2)
def opened(name: str) -> Model:
    """Return a model that was shipped; it is opened once in each Python process of an executor."""
    from pyspark import SparkFiles

    return load_model(Path(SparkFiles.get(name)))
