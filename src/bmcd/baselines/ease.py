"""EASE: a linear model of each item on all others, in closed form."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from bmcd.baselines.base import Baseline, Floats, Matrix, check_number
from bmcd.clicks.log import Clicks


class EASE(Baseline):
    """Embarrassingly shallow autoencoder (Steck, 2019).

    The weights B minimise ||X - XB||² + regularization ||B||² under a zero diagonal, so that no item predicts
    itself. With P the inverse of X'X + regularization I they are -P[i, j] / P[j, j] off the diagonal. Time grows
    with the third power of the number of items, memory with the second.

    Parameters
    ----------
    regularization
        How strongly weights are pulled to 0; a good value is of the order of the number of clicks on an item.

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], items=["a", "b", "c"])
    >>> EASE(regularization=1.0).fit(clicks).recommend(1, users=[2])[["item", "score"]].round(4).values.tolist()
    [['b', 0.5]]
    """

    _learned = ("weights_",)

    def __init__(self, regularization: float = 200.0) -> None:
        self.regularization = regularization

    def _check_settings(self) -> None:
        check_number("regularization", self.regularization, above=0)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        gram = np.asarray((self._clicked.T @ self._clicked).toarray())
        gram[np.diag_indices_from(gram)] += self.regularization
        # What linalg.inv(gram, assume_a="pos") does, to the bit, which SciPy has since 1.17 only.
        upper = np.triu(linalg.lapack.dpotri(linalg.lapack.dpotrf(gram)[0])[0])
        inverse = upper + np.triu(upper, 1).T
        weights: Floats = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        self.weights_ = weights

    def _scores_of(self, clicked: Matrix) -> Floats:
        return np.asarray(clicked @ self.weights_)
