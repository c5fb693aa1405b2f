"""Diffusion: scores that spread over the graph of users and items."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from bmcd.baselines.base import Baseline, Matrix
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_number


class Diffusion(Baseline):
    """A mixture of heat spreading and probability spreading (Zhou et al., 2010, PNAS 107:4511).

    Each item the user clicked has one unit, which flows to the users who clicked the item and from them back to
    items. With k the number of clicks on an item or of a user, item a gets from item b

        W[a, b] = 1 / (k[a]^(1 - mixing) k[b]^mixing) * sum over users u who clicked both of 1 / k[u].

    Parameters
    ----------
    mixing
        lambda in the article. 1 is pure probability spreading, which favours popular items; 0 is pure heat
        spreading, which favours rare ones.

    Examples
    --------
    >>> from bmcd import Clicks
    >>> clicks = Clicks.from_matrix([[1, 1, 0], [0, 1, 1], [0, 0, 1]], items=["a", "b", "c"])
    >>> Diffusion(mixing=1.0).fit(clicks).recommend(2, users=[2])[["item", "score"]].values.tolist()
    [['b', 0.25], ['a', 0.0]]
    """

    _learned = ("weights_",)

    def __init__(self, mixing: float = 0.5) -> None:
        self.mixing = mixing

    def _check_settings(self) -> None:
        check_number("mixing", self.mixing, high=1)

    def _learn(self, clicks: Clicks, seed: int, n_threads: int | None) -> None:
        clicked = self._clicked
        per_user, per_item = clicked.sum(axis=1), clicked.sum(axis=0)
        # A user or an item without clicked passes nothing on, so any number but 0 will do.
        shares = sparse.diags_array(1.0 / np.maximum(per_user, 1))
        flow = sparse.csr_array(clicked.T @ shares @ clicked)
        received = sparse.diags_array(np.maximum(per_item, 1) ** (self.mixing - 1.0))
        given = sparse.diags_array(np.maximum(per_item, 1) ** -float(self.mixing))
        self.weights_ = sparse.csr_array(received @ flow @ given)

    def _scores_of(self, clicked: Matrix) -> Floats:
        return np.asarray((clicked @ self.weights_.T).toarray())
