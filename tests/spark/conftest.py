"""One session of Spark for all tests: two executors in processes of their own, each with its Python workers."""

import subprocess
import warnings
from pathlib import Path

import pytest

import bmcd
from bmcd.baselines.spark_session import spark_session

SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.task.maxFailures": "2",  # each one costs the start of a Python worker
    "spark.executor.memory": "1024m",
    "spark.executorEnv.PYTHONPATH": str(Path(bmcd.__file__).parents[1]),  # the code under test
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark_home(tmp_path_factory):
    """A copy, by links, of where Spark is installed: workers of a local cluster write below it."""
    pyspark = pytest.importorskip("pyspark")
    home = tmp_path_factory.mktemp("spark")
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    return home


@pytest.fixture(scope="session")
def spark(spark_home):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        patch.setenv("SPARK_HOME", str(spark_home))
        # Java's quick compiler is all that tiny data need.
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = spark_session(2, needed_by="the tests", master="local-cluster[2,1,1024]", settings=SETTINGS)
        java = session.sparkContext._gateway.proc
        yield session
        session.stop()
        java.stdin.close()  # at which Java ends
        try:
            java.wait(60)
        except subprocess.TimeoutExpired:
            java.kill()


@pytest.fixture(scope="session")
def simulation():
    return bmcd.simulate_tastes(300, 30, n_tastes=3, alpha=5.0, mean_clicks=6, seed=1)


@pytest.fixture(scope="session")
def model(simulation):
    titles = {number: f"Item {number}" for number in range(30)}
    return bmcd.Tastes(3).fit(simulation.clicks.with_titles(titles), draws=4, warmup=10, chains=3, n_threads=1)


@pytest.fixture(scope="session")
def model_file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tastes.bmcd"
    model.save(path)
    return path


@pytest.fixture(scope="session")
def rows(simulation):
    """(user, item) of every click, in an order that tears users apart."""
    clicks = simulation.clicks.to_frame()
    shuffled = clicks.sample(frac=1.0, random_state=3)
    return list(zip(shuffled["user"].tolist(), shuffled["item"].tolist(), strict=True))


@pytest.fixture
def frame(spark, rows):
    """The clicks in five partitions; every user's are in several of them."""
    return spark.createDataFrame(rows, "user bigint, item bigint").repartition(5)
