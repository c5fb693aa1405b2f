"""What test_connect.py runs in a process of its own: a session of Spark Connect cannot live beside a classic one.

python connect_job.py FOLDER: model.bmcd and clicks.parquet are there, found.parquet, measures.json and fitted.bmcd
are written.
"""

import json
import sys
import warnings
from pathlib import Path

import pyarrow.parquet as pq

import bmcd


def run(folder: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    kind = type(spark).__module__
    clicks = spark.read.parquet(str(folder / "clicks.parquet"))
    for _ in range(2):  # the second time the model is there
        found = bmcd.spark.recommend(clicks, folder / "model.bmcd", 3)
    pq.write_table(found.toArrow(), folder / "found.parquet")
    measures = bmcd.spark.evaluate(clicks, clicks, folder / "model.bmcd", 3)
    told = {"session": kind, "n_users": measures.n_users, "promise": measures.mean_probability}
    (folder / "measures.json").write_text(json.dumps(told))
    log = spark.read.parquet(str(folder / "log.parquet"))
    bmcd.spark.fit(log, bmcd.Blend(refresh="6h"), seed=5).save(folder / "fitted.bmcd")
    spark.stop()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    run(Path(sys.argv[1]))
