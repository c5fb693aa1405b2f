"""Popularity: recommend the most clicked items to all users."""

from __future__ import annotations

import numpy as np

from bmcd.baselines.base import Baseline, Matrix
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats


class Popularity(Baseline):
    """Recommend the most clicked items; the score is the number of clicks.

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0], [0, 1, 1], [0, 1, 1], [1, 0, 0]], items=["a", "b", "c"])
    >>> Popularity().fit(clicks).recommend(1, users=[0, 3])["item"].tolist()
    ['c', 'b']
    """

    _learned = ("counts_",)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        self.counts_ = self._popularity

    def _scores_of(self, clicked: Matrix) -> Floats:
        return np.tile(self.counts_, (clicked.shape[0], 1))
