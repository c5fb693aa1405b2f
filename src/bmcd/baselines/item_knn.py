"""ItemKNN: recommend items similar to those clicked; cosines, which UserKNN uses too."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.baselines.base import Baseline, Matrix
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_count

# Cosines that are equal in theory may differ by rounding errors; rounded to this many digits they are equal again.
DIGITS = 12


class ItemKNN(Baseline):
    """Neighbours among the items (Sarwar et al., 2001); the similarity is the cosine of the users who clicked them.

    The score of an item is the sum of its similarities to the clicked items, of which only its nearest
    ``neighbours`` count.

    Parameters
    ----------
    neighbours
        Number of most similar items that count for each item.

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], items=["a", "b", "c"])
    >>> ItemKNN().fit(clicks).recommend(1, users=[2])[["item", "score"]].round(4).values.tolist()
    [['b', 0.8165]]
    """

    _learned = ("similarity_",)
    _of_pairs = ("similarity_",)

    def __init__(self, neighbours: int = 200) -> None:
        self.neighbours = neighbours

    def _check_settings(self) -> None:
        check_count("neighbours", self.neighbours)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        by_item = sparse.csr_array(self._clicked.T)
        similarity = cosines(by_item, by_item)
        np.fill_diagonal(similarity, 0.0)  # an item is not its own neighbour
        self.similarity_: Floats = keep_nearest(similarity, self.neighbours, self._item_order)

    def _scores_of(self, clicked: Matrix) -> Floats:
        return np.asarray(clicked @ self.similarity_.T)


def cosines(some: Matrix, others: Matrix) -> Floats:
    """Return the cosine of each row of ``some`` with each row of ``others``; 0 where a row has no clicks.

    >>> cosines(sparse.csr_array([[1.0, 1, 0]]), sparse.csr_array([[1.0, 0, 0], [0, 0, 0]])).round(4).tolist()
    [[0.7071, 0.0]]
    """
    together: Floats = np.asarray((some @ others.T).toarray())
    lengths = np.sqrt(np.outer(np.diff(some.indptr), np.diff(others.indptr)))
    found: Floats = np.round(np.divide(together, lengths, out=np.zeros_like(together), where=lengths > 0), DIGITS)
    return found


def keep_nearest(similarity: Floats, n: int, order: NDArray[np.int64]) -> Floats:
    """Return the n largest similarities of each row, and 0 elsewhere; among equal ones the first in ``order``.

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
