"""ItemKNN: recommend items similar to those clicked."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from bmcd.arrays import Floats
from bmcd.baselines.base import Baseline, Matrix
from bmcd.baselines.cosine import cosines, keep_nearest
from bmcd.checks import check_count
from bmcd.clicks.log import Clicks


class ItemKNN(Baseline):
    """Neighbours among the items (Sarwar et al., 2001); the similarity is the cosine of the users who clicked them.

    The score of an item is the sum of its similarities to the clicked items, of which only its nearest
    ``neighbours`` count.

    Parameters
    ----------
    neighbours
        How many of the most similar items count for each item.

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
        check_count(self.neighbours, "neighbours")

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        by_item = sparse.csr_array(self._clicked.T)
        similarity = cosines(by_item, by_item)
        np.fill_diagonal(similarity, 0.0)  # an item is not its own neighbour
        self.similarity_: Floats = keep_nearest(similarity, self.neighbours, self._item_order)

    def _scores_of(self, clicked: Matrix) -> Floats:
        return np.asarray(clicked @ self.similarity_.T)
