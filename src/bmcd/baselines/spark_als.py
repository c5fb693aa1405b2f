"""SparkALS: the paper's own rival, the ALS of Spark's MLlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.rival import Floats, Rival, check_count, check_number
from bmcd.baselines.spark_session import spark_session
from bmcd.system.threads import thread_count

# Clicks from which on users and items are divided into MLlib's ten blocks, which threads can share.
WORTH_BLOCKS = 1_000_000


class SparkALS(Rival):
    """Collaborative filtering for implicit data as the paper runs it: MLlib's ALS with implicitPrefs.

    The method is that of `ALS`, and the confidence of a click is 1 + alpha here as well. But the penalty on a
    user's factors is multiplied by the user's number of clicks, and that on an item's by the item's, so what is a
    good regularization there is far too much here.

    Needs ``pip install "bmcd[spark]"`` and Java 17 or newer. One session of Spark is started at the first fit, on
    this machine, and kept; a session that is running already is used as it is, whatever ``n_threads``.

    Parameters
    ----------
    factors
        L in the paper.
    alpha
        beta in the paper.
    regularization
        theta in the paper, before it is multiplied by the number of clicks.
    iterations
        How often users and items take turns.

    Attributes
    ----------
    user_factors_, item_factors_ : U and V; 0 for users and items without clicks, of whom Spark is not told
    """

    def __init__(
        self, factors: int = 16, *, alpha: float = 5.0, regularization: float = 1.0, iterations: int = 15
    ) -> None:
        self.factors = factors
        self.alpha = alpha
        self.regularization = regularization
        self.iterations = iterations

    def _check_settings(self) -> None:
        check_count("factors", self.factors)
        check_number("alpha", self.alpha)
        check_number("regularization", self.regularization)
        check_count("iterations", self.iterations)

    def _learn(self, seed: int, n_threads: int | None) -> None:
        session = spark_session(thread_count(n_threads))
        from pyspark.ml.recommendation import ALS

        users, items = self._clicked.nonzero()
        rows = zip(users.tolist(), items.tolist(), [1.0] * len(users), strict=True)
        # Random starts, and so results, hang on the number of blocks: it must not be that of the threads.
        blocks = 1 if len(users) < WORTH_BLOCKS else 10
        model = ALS(
            rank=self.factors,
            alpha=self.alpha,
            regParam=self.regularization,
            maxIter=self.iterations,
            implicitPrefs=True,
            numUserBlocks=blocks,
            numItemBlocks=blocks,
            seed=seed,
            userCol="user",
            itemCol="item",
            ratingCol="clicks",
        ).fit(session.createDataFrame(list(rows), "user int, item int, clicks float"))
        n_users, n_items = self._clicked.shape
        self.user_factors_ = _dense(model.userFactors, n_users, self.factors)
        self.item_factors_ = _dense(model.itemFactors, n_items, self.factors)

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        scores: Floats = self.user_factors_[rows] @ self.item_factors_.T
        return scores


def _dense(frame: Any, n: int, factors: int) -> Floats:
    """Spark's rows of id and features as an array."""
    found = np.zeros((n, factors))
    for row in frame.collect():
        found[row["id"]] = row["features"]
    return found
