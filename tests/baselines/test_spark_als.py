"""SparkALS. Starting Spark takes longer than everything else here, so one test asks everything of one session."""

import os
import subprocess
import sys

import numpy as np
import pytest

from bmcd import Clicks
from bmcd.baselines import SparkALS, spark_session
from bmcd.baselines.spark_session import check_java, find_java
from bmcd.errors import JavaError
from bmcd.testing import check_recommender, example_clicks

pytestmark = pytest.mark.slow


def put_broken_python_first(folder, monkeypatch):
    """Let the first python3 on the path be one that cannot run anything."""
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)


def test_spark_als(require, monkeypatch, capfd, tmp_path):
    require("pyspark")
    put_broken_python_first(tmp_path, monkeypatch)
    # Java's quick compiler is all that tiny data need.
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    clicks, one_thread = example_clicks(), {"n_threads": 1}
    check_recommender(lambda: SparkALS(2, iterations=2), fit=one_thread)

    # Users are solved for last, so their normal equations hold, with 1 + alpha and the penalty times the clicks.
    model = SparkALS(factors=3, alpha=4.0, regularization=0.1, iterations=5).fit(clicks, seed=1, **one_thread)
    v = model.item_factors_
    for row, factors in zip(clicks.matrix.toarray().astype(float), model.user_factors_, strict=True):
        left = v.T @ np.diag(1 + 4.0 * row) @ v + 0.1 * row.sum() * np.eye(3)
        u = np.linalg.solve(left, v.T @ ((1 + 4.0) * row))
        np.testing.assert_allclose(factors, u, atol=1e-4)  # Spark keeps factors in single precision

    again, other = (SparkALS(3, iterations=2).fit(clicks, seed=seed, **one_thread) for seed in (1, 2))
    first = SparkALS(3, iterations=2).fit(clicks, seed=1, **one_thread)
    assert (first.user_factors_ == again.user_factors_).all()
    assert (first.user_factors_ != other.user_factors_).any()

    alone = clicks.matrix.toarray()
    alone[5] = False
    popular = np.argsort(-alone.sum(axis=0), kind="stable")[:2]
    shown = SparkALS(2, iterations=2).fit(Clicks.from_matrix(alone), **one_thread).recommend(2, users=[5])
    assert shown["item"].tolist() == popular.tolist()
    context = spark_session.spark_session(1).sparkContext
    # Without it Java's stack overflows when there are many rounds.
    assert context.getCheckpointDir() is not None
    # Workers run in this Python, although another one stands first on the path.
    assert context.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
    assert capfd.readouterr() == ("", "")


def fake_java(folder, says):
    """Make a JAVA_HOME whose java reports this version."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return str(folder)


def test_java_is_looked_for_before_spark_is_started(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() is None
    with pytest.raises(JavaError, match=r"there is none.* Install Java 17 .*openjdk-17-jre-headless"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java() is None


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "11.0.2" 2019-01-15', r"needs Java 17, but .*java is Java 11\.0\.2"),
        ('java version "1.8.0_292"', r"is Java 1\.8\.0_292"),
        ("nonsense", "does not say which version"),
    ],
)
def test_a_java_that_will_not_do_is_named(monkeypatch, tmp_path, says, message):
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, says))
    with pytest.raises(JavaError, match=message):
        check_java()


def test_the_version_of_a_java_that_will_do_is_returned(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path, 'openjdk version "21" 2023-09-19'))
    assert check_java() == "21"


def test_without_pyspark_the_error_says_what_to_install(monkeypatch):
    for name in ("pyspark", "pyspark.ml.recommendation"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "bmcd\[spark\]"'):
        SparkALS().fit(example_clicks())


def test_importing_the_rivals_imports_no_optional_package():
    code = "import sys, bmcd.baselines; assert not {'pyspark', 'implicit', 'matplotlib'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
