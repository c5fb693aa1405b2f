"""Every user's clicks dealt out over folds, to learn from the others what a fold should have been."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError


class Fold(NamedTuple):
    """Clicks to fit to, clicks to predict, and the users who have some of the latter."""

    train: Clicks
    test: Clicks
    users: list[Any]


def click_folds(clicks: Clicks, folds: int, seed: int) -> list[Fold]:
    """Deal every user's clicks out over the folds, in random order and beginning with a random fold.

    So all folds have nearly the same size, and a user with n clicks loses at most n / folds of them, rounded up.

    >>> parts = click_folds(Clicks.from_matrix(np.ones((3, 4))), 4, seed=0)
    >>> [part.train.n_clicks for part in parts]
    [9, 9, 9, 9]
    """
    folds = operator.index(folds)
    if not 2 <= folds <= clicks.n_clicks:
        raise InputError(f"folds must be 2 to {clicks.n_clicks}, the number of clicks, but it is {folds}.")
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(clicks.n_users), clicks.per_user)
    order = np.lexsort((rng.random(clicks.n_clicks), user))
    place = np.arange(clicks.n_clicks) - clicks.matrix.indptr[user]
    fold = np.empty(clicks.n_clicks, np.int64)
    fold[order] = (place + rng.integers(folds, size=clicks.n_users)[user]) % folds
    parts = []
    for number in np.unique(fold):  # with few clicks some folds may be empty
        train, test = (_only(clicks, user, chosen) for chosen in (fold != number, fold == number))
        parts.append(Fold(train, test, clicks.users[test.per_user > 0].tolist()))
    return parts


def _only(clicks: Clicks, user: NDArray[np.int64], chosen: NDArray[np.bool_]) -> Clicks:
    """Return the chosen clicks alone, with all users and items."""
    pairs = (user[chosen], clicks.matrix.indices[chosen])
    matrix = sparse.csr_array((np.ones(len(pairs[0]), np.bool_), pairs), shape=clicks.matrix.shape)
    matrix.sort_indices()
    return replace(clicks, matrix=matrix)
