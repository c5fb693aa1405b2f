"""Cosines between rows of clicks, and the nearest few: what both neighbour methods start from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.arrays import Floats
from bmcd.baselines.base import Matrix

# Cosines that are equal in theory may differ by rounding; they are rounded to this many digits to be equal again.
DIGITS = 12


def cosines(some: Matrix, others: Matrix) -> Floats:
    """Return the cosine of each row of ``some`` with each row of ``others``; 0 where a row has no click.

    >>> from scipy import sparse
    >>> cosines(sparse.csr_array([[1.0, 1, 0]]), sparse.csr_array([[1.0, 0, 0], [0, 0, 0]])).round(4).tolist()
    [[0.7071, 0.0]]
    """
    together: Floats = np.asarray((some @ others.T).toarray())
    lengths = np.sqrt(np.outer(np.diff(some.indptr), np.diff(others.indptr)))
    cosine = np.divide(together, lengths, out=np.zeros_like(together), where=lengths > 0)
    rounded: Floats = np.round(cosine, DIGITS)
    return rounded


def keep_nearest(similarity: Floats, n: int, order: NDArray[np.int64]) -> Floats:
    """Return the n largest similarities of each row, and 0 for all others; of equal ones the first in ``order``.

    >>> keep_nearest(np.array([[0.5, 0.5, 0.9]]), 2, np.array([1, 0, 2])).tolist()
    [[0.0, 0.5, 0.9]]
    """
    if n >= similarity.shape[1]:
        return similarity
    by_order = np.argsort(order)
    ordered = similarity[:, by_order]
    smallest = -np.partition(-ordered, n - 1, axis=1)[:, n - 1 : n]
    above, tied = ordered > smallest, ordered == smallest
    room = n - above.sum(axis=1, keepdims=True)
    kept = np.empty_like(similarity)
    kept[:, by_order] = np.where(above | (tied & (np.cumsum(tied, axis=1) <= room)), ordered, 0.0)
    return kept
