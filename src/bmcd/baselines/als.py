"""ALS: collaborative filtering for implicit data, by the package `implicit`."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from bmcd.baselines.base import check_number
from bmcd.baselines.factors import FactorBaseline
from bmcd.clicks.log import Clicks
from bmcd.packages import import_optional
from bmcd.threads import thread_count

# With more multiplications in a round than this, several threads are used.
WORTH_THREADS = 100_000_000


class ALS(FactorBaseline):
    """Factors of users and items by alternating least squares (Hu, Koren and Volinsky, 2008): the paper's CF.

    It minimises the sum over users j and items i of c[i, j] (w[i, j] - u[j]'v[i])², plus
    regularization (||U||² + ||V||²); w is 1 for a click and 0 otherwise. The confidence c is 1 + alpha for a click
    and 1 otherwise, as in the article. (`implicit` takes what it is given for the confidence of a click, so it is
    given 1 + alpha.)

    Needs ``pip install "bmcd[baselines]"``.

    Parameters
    ----------
    factors
        L in the paper: the length of u and v.
    alpha
        beta in the paper: how much more a click counts than none.
    regularization
        theta in the paper.
    iterations
        How many rounds, each of which solves for the users and then for the items. `implicit` starts from numbers
        near 0, and needs many rounds to leave them if the regularization is as strong as `tune` tends to choose it.

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
        confidence = csr_matrix(self._clicked * (1.0 + self.alpha))
        # One thread for linear algebra: more would compete with implicit's own threads for the cores.
        with threadpool_limits(1, "blas"):
            model = implicit.AlternatingLeastSquares(
                factors=self.factors,
                regularization=self.regularization,
                alpha=1.0,
                iterations=self.iterations,
                use_cg=False,
                dtype=np.float64,
                num_threads=n_threads or self._threads(),
                random_state=seed,
            )
            model.fit(confidence, show_progress=False)
        self.user_factors_ = np.array(model.user_factors)
        self.item_factors_ = np.array(model.item_factors)

    def _threads(self) -> int:
        """Return the number of cores, or 1 if a round is so little work that threads would mostly wait."""
        work = self._clicked.nnz * self.factors**2 + sum(self._clicked.shape) * self.factors**3
        return thread_count() if work > WORTH_THREADS else 1
