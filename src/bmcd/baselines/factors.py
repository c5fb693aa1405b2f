"""What both kinds of ALS share: the settings, and a score that is the product of a user's and an item's factors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.rival import Floats, Matrix, Rival, check_count, check_number


class FactorRival(Rival):
    """A rival that learns ``factors`` numbers for each user and each item, in alternating rounds."""

    user_factors_: Floats
    item_factors_: Floats
    _learned = ("user_factors_", "item_factors_")

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

    def _scores_of(self, clicked: Matrix) -> Floats:
        """Solve for the factors of these people as half a round does, and multiply."""
        items, n_factors = self.item_factors_, self.item_factors_.shape[1]
        squares = (items[:, :, None] * items[:, None, :]).reshape(len(items), -1)
        own = self.alpha * np.asarray(clicked @ squares).reshape(-1, n_factors, n_factors)
        penalty = self._penalty(np.diff(clicked.indptr))
        left = items.T @ items + own + penalty[:, None, None] * np.eye(n_factors)
        right = (1.0 + self.alpha) * np.asarray(clicked @ items)
        factors = np.linalg.solve(left, right[:, :, None])[:, :, 0]
        scores: Floats = factors @ items.T
        return scores

    def _penalty(self, n_clicks: NDArray[np.int64]) -> Floats:
        """Return what the squares of the factors of people with so many clicks are multiplied by."""
        return np.full(len(n_clicks), float(self.regularization))
