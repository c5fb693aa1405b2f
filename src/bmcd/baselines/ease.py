"""EASE: a linear model of each item on all others, in closed form."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from threadpoolctl import threadpool_limits

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.baselines.base import Baseline, Matrix
from bmcd.baselines.counting import Events
from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import take_users
from bmcd.utils import Floats, check_count, check_number

# With fewer items, threads of linear algebra do not pay.
WORTH_THREADS = 4000


class EASE(Baseline):
    """Embarrassingly shallow autoencoder (Steck, 2019).

    The weights B minimise ||X - XB||² + regularization ||B||² under a zero diagonal, so that no item predicts
    itself. With P the inverse of X'X + regularization I they are -P[i, j] / P[j, j] off the diagonal. Time grows
    with the third power of the number of items, memory with the second: for a large catalogue, give `most_clicked`.

    Parameters
    ----------
    regularization
        How strongly weights are shrunk to 0; a good value is of the order of the number of clicks on an item.
    decay
        Weights the user's own clicks when scoring: 1 for the last item clicked, ``decay`` for the one before it,
        and so on. An item clicked repeatedly counts at its last place. None weights all clicks equally, as does a
        log or a history without order.
    most_clicked
        Fit only this number of items, the most clicked; the others have the score 0. None fits all.

    Attributes
    ----------
    weights_ : B, of the items in ``modelled_``
    modelled_ : the numbers of the items that were fitted, in ascending order

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], items=["a", "b", "c"])
    >>> EASE(regularization=1.0).fit(clicks).recommend(1, users=[2])[["item", "score"]].round(4).values.tolist()
    [['b', 0.5]]
    """

    weights_: Floats
    modelled_: NDArray[np.int64]
    _learned = ("weights_", "modelled_")
    _of_pairs = ("weights_",)

    def __init__(
        self, regularization: float = 200.0, *, decay: float | None = None, most_clicked: int | None = None
    ) -> None:
        self.regularization = regularization
        self.decay = decay
        self.most_clicked = most_clicked

    def _check_settings(self) -> None:
        check_number("regularization", self.regularization, above=0)
        if self.decay is not None:
            check_number("decay", self.decay, high=1)
        if self.most_clicked is not None:
            check_count("most_clicked", self.most_clicked)

    def count(self, events: Events, *, by: Literal["user", "session"] = "user") -> Self:
        """Learn from events alone, and return self; a row of X is a user or a session."""
        self._check_settings()
        rows, n = events.user if by == "user" else events.session, len(events.item)
        shape = (int(rows.max(initial=-1)) + 1, events.n_items)
        clicked = sparse.csr_array((np.ones(n), (rows, events.item)), shape=shape)
        clicked.sum_duplicates()
        clicked.data[:] = 1.0
        self._solve(clicked)
        return self

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        self._solve(self._clicked)

    def _solve(self, clicked: Matrix) -> None:
        n_items = clicked.shape[1]
        self.modelled_ = np.arange(n_items)
        if self.most_clicked is not None and self.most_clicked < n_items:
            counts = np.bincount(clicked.indices, minlength=n_items)
            self.modelled_ = np.sort(np.argsort(-counts, kind="stable")[: self.most_clicked])
            clicked = clicked[:, self.modelled_]
        gram = np.asarray((clicked.T @ clicked).toarray())
        gram[np.diag_indices_from(gram)] += self.regularization
        with threadpool_limits(1 if len(gram) < WORTH_THREADS else None, "blas"):
            # Bitwise what linalg.inv(gram, assume_a="pos") does, which needs SciPy 1.17.
            upper = np.triu(linalg.lapack.dpotri(linalg.lapack.dpotrf(gram)[0])[0])
        inverse = upper + np.triu(upper, 1).T
        weights: Floats = -inverse / np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        self.weights_ = weights

    def _scores_for(self, people: Clicks, rows: NDArray[np.int64]) -> Floats:
        if self.decay is None or people.order is None:
            return super()._scores_for(people, rows)
        found = take_users(people.sequences, rows)
        arrays = weights_by_recency(found.starts, found.items, float(self.decay), people.n_items)
        return self._scores_of(sparse.csr_array(arrays, shape=(len(rows), people.n_items)))

    def _scores_of(self, clicked: Matrix) -> Floats:
        n_items = clicked.shape[1]
        if len(self.modelled_) == n_items:
            return np.asarray(clicked @ self.weights_)
        scores = np.zeros((clicked.shape[0], n_items))
        scores[:, self.modelled_] = clicked[:, self.modelled_] @ self.weights_
        return scores

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        modelled = arrays["modelled_"]
        if modelled.ndim != 1 or (np.diff(modelled) <= 0).any() or modelled.max(initial=0) >= clicks.n_items:
            raise ValueError(f"modelled_ must be items, 0 to {clicks.n_items - 1}, in ascending order")
        return {"weights_": (len(modelled), len(modelled)), "modelled_": modelled.shape}


@numba.njit(cache=True, nogil=True)
def weights_by_recency(starts, items, decay, n_items):
    """Return decay ** (distinct items clicked later) of each user's items: values, columns, row starts."""
    values, columns, rows = np.empty(items.size), np.empty(items.size, np.int32), np.zeros_like(starts)
    seen, m = np.full(n_items, -1, np.int64), 0
    for user in range(starts.size - 1):
        weight = 1.0
        for place in range(starts[user + 1] - 1, starts[user] - 1, -1):
            item = items[place]
            if item < 0 or seen[item] == user:
                continue
            seen[item] = user
            values[m], columns[m] = weight, item
            weight *= decay
            m += 1
        rows[user + 1] = m
    return values[:m].copy(), columns[:m].copy(), rows
