"""What both kinds of ALS share: the settings, and a score that is the product of a user's and an item's factors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.rival import Floats, Rival, check_count, check_number


class FactorRival(Rival):
    """A rival that learns ``factors`` numbers for each user and each item, in alternating rounds."""

    user_factors_: Floats
    item_factors_: Floats

    def __init__(self, factors: int, alpha: float, regularization: float, iterations: int) -> None:
        self.factors = factors
        self.alpha = alpha
        self.regularization = regularization
        self.iterations = iterations

    def _check_settings(self) -> None:
        check_count("factors", self.factors)
        check_number("alpha", self.alpha)
        check_number("regularization", self.regularization)
        check_count("iterations", self.iterations)

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        scores: Floats = self.user_factors_[rows] @ self.item_factors_.T
        return scores
