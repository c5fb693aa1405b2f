"""SparkALS: the baseline of the paper, the ALS of Spark's MLlib."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.als import FactorBaseline
from bmcd.baselines.spark_session import spark_session
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, thread_count

# With at least this many clicks, users and items are divided into MLlib's ten blocks, which threads can share.
WORTH_BLOCKS = 1_000_000


class SparkALS(FactorBaseline):
    """Collaborative filtering for implicit data as the paper runs it: MLlib's ALS with implicitPrefs.

    The method is that of `ALS`, and the confidence of a click is 1 + alpha here as well. But MLlib multiplies the
    penalty on the factors of a user or an item by its number of clicks, so a regularization that is good for `ALS`
    is far too strong here.

    Needs ``pip install "bmcd[spark]"`` and Java 17 or newer. The first fit starts a session of Spark on this
    machine and keeps it. A session that is already running is used as it is, whatever ``n_threads``.

    Parameters
    ----------
    factors
        L in the paper.
    alpha
        beta in the paper.
    regularization
        theta in the paper, before it is multiplied by the number of clicks.
    iterations
        Number of rounds; each solves for the items and then for the users.

    Attributes
    ----------
    user_factors_, item_factors_ : U and V; 0 for users and items without clicks, which Spark does not see

    Examples
    --------
    >>> from bmcd.baselines import SparkALS
    >>> SparkALS(factors=8).get_params()["regularization"]  # fit needs Java
    1.0
    """

    def __init__(
        self, factors: int = 16, *, alpha: float = 5.0, regularization: float = 1.0, iterations: int = 15
    ) -> None:
        super().__init__(factors, alpha, regularization, iterations)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        session = spark_session(thread_count(n_threads))
        from pyspark.ml.recommendation import ALS

        users, items = self._clicked.nonzero()
        rows = zip(users.tolist(), items.tolist(), [1.0] * len(users), strict=True)
        # Random starts, and so results, depend on the number of blocks, which must not follow that of the threads.
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

    def _penalty(self, n_clicks: NDArray[np.int64]) -> Floats:
        return np.asarray(np.maximum(self.regularization * n_clicks, 1e-9))  # not 0, for users without clicks


def _dense(frame: Any, n: int, factors: int) -> Floats:
    """Return Spark's rows of id and features as an array."""
    dense = np.zeros((n, factors))
    for row in frame.collect():
        dense[row["id"]] = row["features"]
    return dense
