"""evaluate: accuracy, coverage and calibration of a model over all users of a Spark frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.errors import ClicksError
from bmcd.evaluation.calibration import bin_edges
from bmcd.models.persistence import load_model
from bmcd.spark.frames import check_frame, clean_ids
from bmcd.spark.recommending import recommend

if TYPE_CHECKING:
    import pandas as pd


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
    """What the recommendations promise; near `accuracy` if that comes true."""
    promise_gap: float
    brier: float
    expected_calibration_error: float
    calibration: pd.DataFrame
    """By bin of probability: lower, upper, n, probability, hit_rate."""

    def __str__(self) -> str:
        return (
            f"{self.n_recommendations:,} recommendations (k = {self.k}) for {self.n_users:,} users, "
            f"{self.n_hits:,} hits\n"
            f"accuracy {self.accuracy:.4f} (standard error {self.accuracy_se:.4f}), promised "
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
    """Recommend to everybody in ``train`` and hold that against ``test``, two Spark frames of clicks.

    A recommendation is a hit if the user clicked the item in ``test``. Whoever has no clicks in ``test`` counts,
    with misses only. ``options`` are those of `bmcd.spark.recommend`. The recommendations are kept on the disks of
    the cluster while they are counted, so that everybody is scored once.

    Examples
    --------
    ::

        print(bmcd.spark.evaluate(train, test, "model.bmcd", k=10))
    """
    check_frame(test, user, item, "bmcd.spark.evaluate")
    from pyspark import StorageLevel
    from pyspark.sql import functions as f

    edges = bin_edges(bin_width).tolist()
    shown = recommend(train, model, k, user=user, item=item, **options)
    clicked = clean_ids(test, user, item).distinct().withColumn("hit", f.lit(1.0))
    joined = shown.join(clicked, ["user", "item"], "left").fillna({"hit": 0.0})
    # The first edge is 0, so what is not above it is in the first bin; a probability of 1 is in the last one.
    below = f.size(
        f.filter(f.array(*[f.lit(edge) for edge in edges[:-1]]), lambda edge: edge <= f.col("probability"))
    )
    judged = joined.select("user", "item", "probability", "hit", (below - 1).alias("bin"))
    judged = judged.persist(StorageLevel.DISK_ONLY)
    try:
        return _measured(judged, k, load_model(model).clicks_.n_items, edges)
    finally:
        judged.unpersist()


def _measured(judged: Any, k: int, n_items: int, edges: list[float]) -> SparkEvaluation:
    import pandas as pd
    from pyspark.sql import functions as f

    n, hits, promised = f.count("*").alias("n"), f.sum("hit").alias("hits"), f.sum("probability").alias("promised")
    errors = f.sum((f.col("probability") - f.col("hit")) ** 2).alias("errors")
    bins = judged.groupBy("bin").agg(n, hits, promised, errors).orderBy("bin").collect()
    if not bins:
        raise ClicksError("nobody was recommended anything: the training clicks are empty, or nothing is left.")
    total = sum(row["n"] for row in bins)
    n_hits, mean = sum(row["hits"] for row in bins), sum(row["promised"] for row in bins) / total
    accuracy = n_hits / total
    items = judged.groupBy("item").agg(f.max("hit").alias("hit")).groupBy().agg(n, f.sum("hit").alias("hits"))
    covered = items.collect()[0]
    # The accuracy is a ratio of two sums over users: its error is that of hits minus accuracy x recommendations.
    by_user = judged.groupBy("user").agg((f.sum("hit") - f.lit(accuracy) * f.count("*")).alias("excess"))
    users = by_user.groupBy().agg(n, f.sum(f.col("excess") ** 2).alias("squares")).collect()[0]
    table = pd.DataFrame(
        [
            {
                "lower": edges[row["bin"]],
                "upper": edges[row["bin"] + 1],
                "n": row["n"],
                "probability": row["promised"] / row["n"],
                "hit_rate": row["hits"] / row["n"],
            }
            for row in bins
        ]
    )
    return SparkEvaluation(
        k=k,
        n_users=users["n"],
        n_items=n_items,
        n_recommendations=total,
        n_hits=int(n_hits),
        accuracy=accuracy,
        accuracy_se=users["squares"] ** 0.5 / total,
        coverage=covered["n"] / n_items,
        correct_coverage=covered["hits"] / n_items,
        mean_probability=mean,
        promise_gap=mean - accuracy,
        brier=sum(row["errors"] for row in bins) / total,
        expected_calibration_error=float(
            ((table["probability"] - table["hit_rate"]).abs() * table["n"]).sum() / total
        ),
        calibration=table,
    )
