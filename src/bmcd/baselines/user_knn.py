"""UserKNN: recommend what similar users clicked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.base import Baseline, Matrix
from bmcd.baselines.item_knn import cosines, keep_nearest
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_count


class UserKNN(Baseline):
    """Neighbours among the users; the similarity is the cosine of their clicks.

    The score of an item is the sum of the similarities of the nearest ``neighbours`` who clicked it.

    Parameters
    ----------
    neighbours
        Number of most similar users that count.

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]], items=list("abcd"))
    >>> UserKNN(neighbours=1).fit(clicks).recommend(1, users=[0])[["item", "score"]].round(4).values.tolist()
    [['c', 0.8165]]
    """

    def __init__(self, neighbours: int = 200) -> None:
        self.neighbours = neighbours

    def _check_settings(self) -> None:
        check_count("neighbours", self.neighbours)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        return  # it uses the clicks themselves, and users sorted by id: see `_prepare`

    def _prepare(self, clicks: Clicks) -> None:
        super()._prepare(clicks)
        self._user_order = id_ranks(clicks.users)

    def _scores_of(self, clicked: Matrix) -> Floats:
        return self._from_nearest(cosines(clicked, self._clicked))

    def _scores(self, rows: NDArray[np.int64]) -> Floats:
        similarity = cosines(self._clicked[rows], self._clicked)
        similarity[np.arange(len(rows)), rows] = 0.0  # a user is not their own neighbour
        return self._from_nearest(similarity)

    def _from_nearest(self, similarity: Floats) -> Floats:
        return np.asarray(keep_nearest(similarity, self.neighbours, self._user_order) @ self._clicked)

    def _width(self) -> int:
        return max(self._clicked.shape)
