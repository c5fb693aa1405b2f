"""Click counts, and rankings that follow them: the least that a start, k-means and EM have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.mallows.latent.exact import click_matrix
from bmcd.utils import Floats, Integers

__all__ = ["binary_matrix", "click_counts", "inherit_order", "order_by"]


def binary_matrix(clicks: Any) -> sparse.csr_array[Any]:
    """Users x items, True where there is a click, in memory of its own."""
    matrix = click_matrix(clicks)
    ones = np.ones(matrix.nnz, np.bool_)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)


def click_counts(matrix: sparse.csr_array[Any], weights: Floats | None = None) -> Floats:
    """Clicks on each item, one row for each cluster; without weights, one row for everybody."""
    weights = np.ones((matrix.shape[0], 1)) if weights is None else weights
    counts: Floats = np.asarray((matrix.astype(np.float64).T @ weights).T)
    return counts


def order_by(scores: ArrayLike, rng: np.random.Generator) -> Integers:
    """Rank the items of each row from the highest score (rank 1) down; ties in random order.

    >>> order_by([5, 9, 7], np.random.default_rng(0)).tolist()
    [[3, 1, 2]]
    """
    rows = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    order = np.lexsort((rng.random(rows.shape), -rows), axis=1)
    ranks = np.empty(rows.shape, np.int64)
    np.put_along_axis(ranks, order, np.arange(1, rows.shape[1] + 1)[None], axis=1)
    return ranks


def inherit_order(clicked: NDArray[Any], rho: ArrayLike) -> Integers:
    """Latent rankings that put the clicked items first and keep the order of rho within both blocks.

    The paper's example: items A to E, rho = 1..5, and a user who clicked A, C and E.

    >>> inherit_order(np.array([[1, 0, 1, 0, 1]]), [1, 2, 3, 4, 5]).tolist()
    [[1, 4, 2, 5, 3]]
    """
    order = np.argsort(np.asarray(rho))
    by_position = np.asarray(clicked)[:, order] != 0
    clicks_so_far = np.cumsum(by_position, axis=1, dtype=np.int64)
    others_so_far = np.arange(1, order.size + 1) - clicks_so_far
    ranks = np.empty(by_position.shape, np.int64)
    ranks[:, order] = np.where(by_position, clicks_so_far, clicks_so_far[:, -1:] + others_so_far)
    return ranks
