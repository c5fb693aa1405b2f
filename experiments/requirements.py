"""What a study needs besides the package: asked before hours of work, not after them."""

from __future__ import annotations

from importlib.util import find_spec

from bmcd.errors import JavaError
from experiments.tasks import TaskError


def need(package: str, extra: str) -> None:
    """An error if a package that some tasks need is not there.

    >>> need("numpy", "baselines")
    """
    if find_spec(package) is None:
        raise TaskError(f"this study needs the package {package}: pip install 'bmcd[{extra}]'")


def why_no_spark() -> str:
    """Why the ALS of Spark's MLlib cannot run here; empty if it can."""
    if find_spec("pyspark") is None:
        return "the package pyspark is not installed"
    from bmcd.baselines.spark_session import check_java

    try:
        check_java()
    except JavaError:
        return "there is no Java that Spark can use"
    return ""
