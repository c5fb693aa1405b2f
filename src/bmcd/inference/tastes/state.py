"""What a sweep works on: the clicks, the state of a chain, and what a sweep tells about itself.

All are NamedTuples of arrays, which compiled code takes as they are. Users, items and tastes are numbers from 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.mallows.latent.exact import click_matrix


class TasteData(NamedTuple):
    """Who clicked what: user j clicked user_items[user_start[j] : user_start[j + 1]]."""

    user_start: NDArray[np.int64]
    user_items: NDArray[np.int64]
    n_items: int


class TasteState(NamedTuple):
    """What the next sweep needs; a sweep changes it in place."""

    rates: NDArray[np.float64]  # [user, taste]: lambda, how often a user visits a taste
    item_at: NDArray[np.int64]  # [taste, rank - 1]: the consensus, read from the best item on
    scale_index: NDArray[np.int64]  # [taste]: which alpha of the grid
    a: NDArray[np.float64]  # [1]: shape of the law of the rates
    b: NDArray[np.float64]  # [1]: rate of the law of the rates
    a_step: NDArray[np.float64]  # [1]: spread of the proposals of log a, tuned in warm-up only


class TasteInfo(NamedTuple):
    """What a reader wants to know of a sweep.

    ``log_joint`` is the log density of clicks, visits, consensuses, scales, a and b at the end of the sweep, the
    rates integrated out. Given the visits, a rate has mean (visits + a) / (b + 1): less noisy than the rate itself.
    """

    log_joint: float
    n_visits: int
    visits: NDArray[np.float64]  # [user, taste]: how many visits each user paid to each taste
    visits_per_taste: NDArray[np.float64]
    rho: NDArray[np.int64]  # [taste, item]: the consensuses as ranks, 1 for the best
    alpha: NDArray[np.float64]  # [taste]
    swaps_accepted: float  # share of the swaps proposed to the consensuses; NaN if no taste has a visit
    a_accepted: float  # share; NaN if a is fixed
    at_edge: int  # tastes with visits whose alpha is the first or the last of the grid


def make_taste_data(clicks: Any) -> TasteData:
    """Take a users x items matrix, dense or sparse, or `Clicks`; anything but zero is one click.

    >>> make_taste_data([[0, 1], [1, 1]]).user_items.tolist()
    [1, 0, 1]
    """
    matrix = click_matrix(clicks)
    return TasteData(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), int(matrix.shape[1]))
