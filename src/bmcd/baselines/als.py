"""ALS: collaborative filtering for implicit data with the package `implicit`; what factor models share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from bmcd.baselines.base import Baseline, Matrix
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_count, check_number, import_optional, thread_count

# Multiplications in a round from which several threads are used.
WORTH_THREADS = 100_000_000


class FactorBaseline(Baseline):
    """A method that learns ``factors`` numbers for each user and each item, in alternating rounds."""

    user_factors_: Floats
    item_factors_: Floats
    _learned: tuple[str, ...] = ("user_factors_", "item_factors_")

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
        """Solve for the factors of these users as half a round does, and multiply."""
        items = self.item_factors_
        ridge = self._penalty(np.diff(clicked.indptr))
        factors = solve_factors(clicked, items, self.alpha, self._square_of_items(), ridge)
        scores: Floats = factors @ items.T
        return scores

    def _square_of_items(self) -> Floats:
        """Return the sum over the items of v v', each weighted as it is where there is no click."""
        square: Floats = self.item_factors_.T @ self.item_factors_
        return square

    def _penalty(self, n_clicks: NDArray[np.int64]) -> Floats:
        """Return the regularization of the factors of users with these numbers of clicks."""
        return np.full(len(n_clicks), float(self.regularization))


class ALS(FactorBaseline):
    """Factors of users and items by alternating least squares (Hu, Koren and Volinsky, 2008): the paper's CF.

    It minimises the sum over users j and items i of c[i, j] (w[i, j] - u[j]'v[i])², plus
    regularization (||U||² + ||V||²); w is 1 for a click and 0 otherwise. The confidence c is 1 + alpha for a click
    and 1 otherwise, as in the article. (`implicit` takes the confidence of a click itself, so it is given
    1 + alpha.)

    Needs ``pip install "bmcd[baselines]"``.

    Parameters
    ----------
    factors
        L in the paper: the length of u and v.
    alpha
        beta in the paper: how much more a click counts than no click.
    regularization
        theta in the paper.
    iterations
        Number of rounds; each solves for the users and then for the items. `implicit` starts from numbers near 0
        and needs many rounds to leave them if the regularization is as strong as `tune` tends to choose it.

    Attributes
    ----------
    user_factors_, item_factors_ : U and V

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> model = ALS(factors=3).fit(simulation.clicks)
    >>> model.user_factors_.shape, model.item_factors_.shape
    ((300, 3), (50, 3))
    """

    def __init__(
        self, factors: int = 16, *, alpha: float = 5.0, regularization: float = 60.0, iterations: int = 50
    ) -> None:
        super().__init__(factors, alpha, regularization, iterations)

    def _check_settings(self) -> None:
        super()._check_settings()
        check_number("regularization", self.regularization, above=0)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        from scipy.sparse import csr_matrix

        implicit = import_optional("implicit.cpu.als", needed_by="ALS", extra="baselines")
        work = self._clicked.nnz * self.factors**2 + sum(self._clicked.shape) * self.factors**3
        # One thread for linear algebra: more would compete with implicit's own threads for the cores.
        with threadpool_limits(1, "blas"):
            model = implicit.AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=1.0,
                iterations=self.iterations,
                use_cg=False,
                dtype=np.float64,
                num_threads=n_threads or (thread_count() if work > WORTH_THREADS else 1),
                random_state=seed,
            )
            model.fit(csr_matrix(self._clicked * (1.0 + self.alpha)), show_progress=False)
        self.user_factors_ = np.array(model.user_factors)
        self.item_factors_ = np.array(model.item_factors)


def solve_factors(clicked: Matrix, others: Floats, alpha: float, square: Floats, ridge: Floats) -> Floats:
    """Return the factors of the rows given those of the columns: half a round of alternating least squares.

    ``square`` is the sum over all columns of v v', each weighted as it is where there is no click: one matrix for
    all rows, or one for each. A click counts ``alpha`` more. ``ridge`` has the regularization of each row.
    """
    n_factors = others.shape[1]
    products = (others[:, :, None] * others[:, None, :]).reshape(len(others), -1)
    left = alpha * np.asarray(clicked @ products, np.float64).reshape(-1, n_factors, n_factors)
    left += square
    left += ridge[:, None, None] * np.eye(n_factors)
    right = (1.0 + alpha) * np.asarray(clicked @ others)
    return np.asarray(np.linalg.solve(left, right[:, :, None])[:, :, 0], np.float64)
