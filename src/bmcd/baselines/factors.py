"""What all that have factors by least squares share: settings, half a round, and a score that is a product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.arrays import Floats
from bmcd.baselines.base import Baseline, Matrix, check_number
from bmcd.checks import check_count


class FactorBaseline(Baseline):
    """A rival that learns ``factors`` numbers for each user and each item, in alternating rounds."""

    user_factors_: Floats
    item_factors_: Floats
    _learned: tuple[str, ...] = ("user_factors_", "item_factors_")

    def __init__(self, factors: int, alpha: float, regularization: float, iterations: int) -> None:
        self.factors = factors
        self.alpha = alpha
        self.regularization = regularization
        self.iterations = iterations

    def _check_settings(self) -> None:
        check_count(self.factors, "factors")
        check_number("alpha", self.alpha)
        check_number("regularization", self.regularization)
        check_count(self.iterations, "iterations")

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        scores: Floats = self.user_factors_[rows] @ self.item_factors_.T
        return scores

    def _scores_of(self, clicked: Matrix) -> Floats:
        """Solve for the factors of these people as half a round does, and multiply."""
        items = self.item_factors_
        ridge = self._penalty(np.diff(clicked.indptr))
        factors = solve_factors(clicked, items, self.alpha, self._square_of_items(), ridge)
        scores: Floats = factors @ items.T
        return scores

    def _square_of_items(self) -> Floats:
        """Return the sum over the items of v v', each as often as it counts without a click."""
        square: Floats = self.item_factors_.T @ self.item_factors_
        return square

    def _penalty(self, n_clicks: NDArray[np.int64]) -> Floats:
        """Return what the squares of the factors of people with so many clicks are multiplied by."""
        return np.full(len(n_clicks), float(self.regularization))


def solve_factors(clicked: Matrix, others: Floats, alpha: float, square: Floats, ridge: Floats) -> Floats:
    """Return the factors of the rows given those of the columns: half a round of alternating least squares.

    ``square`` is the sum over all columns of v v', each as often as it counts without a click: one matrix for all
    rows, or one for each. A click counts ``alpha`` more. ``ridge`` multiplies the square of each row's factors.
    """
    n_factors = others.shape[1]
    products = (others[:, :, None] * others[:, None, :]).reshape(len(others), -1)
    left = alpha * np.asarray(clicked @ products, np.float64).reshape(-1, n_factors, n_factors)
    left += square
    left += ridge[:, None, None] * np.eye(n_factors)
    right = (1.0 + alpha) * np.asarray(clicked @ others)
    return np.asarray(np.linalg.solve(left, right[:, :, None])[:, :, 0], np.float64)
