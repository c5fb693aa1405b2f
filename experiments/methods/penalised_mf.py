"""PenalisedMF: factors by least squares, in which scores of popular items have a price."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from bmcd.baselines.als import FactorBaseline, solve_factors
from bmcd.baselines.base import Matrix
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_number

# Users or items that are solved for at once: so many numbers in their normal equations.
BLOCK_NUMBERS = 4_000_000


class PenalisedMF(FactorBaseline):
    """Matrix factorisation that penalises popular items, after Karakaya and Aytekin (2018), for clicks.

    It minimises what `ALS` does, plus penalty times the sum over users j and items i of p[i] (u[j]'v[i])²; p[i] is
    the number of clicks on the item divided by the mean over the items. So a high score costs more for a popular
    item than for a rare one: the larger the penalty, the more items are recommended to anybody, and the fewer
    recommendations are hits. With a penalty of 0 the loss is that of `ALS`. The article has
    ratings, and sums over those that exist; here the sum is over all users and items.

    Parameters
    ----------
    factors, alpha, regularization
        As in `ALS`.
    penalty
        What high scores of popular items cost, 0 or more. Cross-validation chooses it for accuracy; for coverage it
        is chosen by hand, from the curve of both.
    iterations
        How many rounds, each of which solves for the users and then for the items. They start from random factors
        of length 1, so fewer are needed than in `ALS`.

    Attributes
    ----------
    user_factors_, item_factors_ : U and V
    item_penalties_ : penalty times p

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> for penalty in (0.0, 3.0):
    ...     model = PenalisedMF(3, alpha=1.0, regularization=10.0, penalty=penalty).fit(simulation.clicks)
    ...     bmcd.evaluate(model.recommend(5), simulation.clicks, simulation, k=5).coverage
    0.66
    0.72
    """

    item_penalties_: Floats
    _learned = ("user_factors_", "item_factors_", "item_penalties_")

    def __init__(
        self,
        factors: int = 16,
        *,
        alpha: float = 5.0,
        regularization: float = 60.0,
        penalty: float = 0.1,
        iterations: int = 30,
    ) -> None:
        super().__init__(factors, alpha, regularization, iterations)
        self.penalty = penalty

    def _check_settings(self) -> None:
        super()._check_settings()
        check_number("regularization", self.regularization, above=0)
        check_number("penalty", self.penalty)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        n_users, n_items = self._clicked.shape
        by_item: Matrix = self._clicked.T.tocsr()
        mean = max(float(self._popularity.mean()), 1.0 / max(n_items, 1))
        self.item_penalties_ = self.penalty * self._popularity / mean
        start = np.random.default_rng(seed).normal(size=(n_items, self.factors))
        self.item_factors_ = start / np.linalg.norm(start, axis=1, keepdims=True)
        # One thread: more would change the last bits, and gain nothing on matrices so small.
        with threadpool_limits(1, "blas"):
            for _ in range(self.iterations):
                self.user_factors_ = self._solved(
                    self._clicked, self.item_factors_, self._square_of_items(), np.ones(n_users)
                )
                square = self.user_factors_.T @ self.user_factors_
                self.item_factors_ = self._solved(by_item, self.user_factors_, square, 1.0 + self.item_penalties_)

    def _solved(self, clicked: Matrix, others: Floats, square: Floats, weight: Floats) -> Floats:
        """Return the factors of the rows, block by block; ``weight`` is how often ``square`` counts for each."""
        size = max(1, BLOCK_NUMBERS // self.factors**2)
        blocks = [
            solve_factors(
                clicked[first : first + size],
                others,
                self.alpha,
                weight[first : first + size, None, None] * square,
                self._penalty(np.diff(clicked.indptr[first : first + size + 1])),
            )
            for first in range(0, clicked.shape[0], size)
        ]
        return np.concatenate([np.zeros((0, self.factors)), *blocks])

    def _square_of_items(self) -> Floats:
        weighted = (1.0 + self.item_penalties_)[:, None] * self.item_factors_
        square: Floats = weighted.T @ self.item_factors_
        return square
