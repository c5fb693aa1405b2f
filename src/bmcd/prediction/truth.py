"""What would have been a hit: held-out clicks, or the true next items of a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError, InputError, InputTypeError, UnknownIdError
from bmcd.simulation import Simulation
from bmcd.system.text import shown

Ints = NDArray[np.int64]


def read_truth(test: Clicks | Simulation, train: Clicks, k: int) -> sparse.csr_array[Any]:
    """Return what would be a hit, users x items as in `train`: test clicks, or the next k items of a simulation."""
    if isinstance(test, Simulation):
        return _truth_of_simulation(test, train, k)
    if not isinstance(test, Clicks):
        raise InputTypeError(f"test must be Clicks or a Simulation, not {type(test).__name__}.")
    if test.n_clicks == 0:
        raise ClicksError("the test clicks are empty, so nothing can be a hit.")
    places = []
    for ids, place_of, what in ((test.users, train.rows_of, "user"), (test.items, train.columns_of, "item")):
        try:
            places.append(place_of(ids))
        except UnknownIdError as error:
            raise ClicksError(
                f"the test clicks do not fit train: {error}Keep only {what}s of train, as Clicks.hold_out does.",
                column=what,
            ) from error
    rows, columns = test.matrix.tocoo().coords
    user, item = places[0][rows], places[1][columns]
    if (both := np.flatnonzero(was_clicked(train.matrix, user, item))).size:
        who, what = train.users[user[both[0]]], train.items[item[both[0]]]
        raise ClicksError(
            f"user {shown(who)} clicked item {shown(what)} in train and in test, and {both.size - 1} more clicks "
            "are in both. Take them out of one: a clicked item is not recommended again, so it can be no hit."
        )
    ones = np.ones(len(user), dtype=np.bool_)
    return sparse.csr_array((ones, (user, item)), shape=train.matrix.shape)


def was_clicked(matrix: sparse.csr_array[Any], user: Ints, item: Ints) -> NDArray[np.bool_]:
    """Return whether each pair of a user and an item is a click.

    >>> was_clicked(sparse.csr_array([[True, False], [False, True]]), np.array([0, 1]), np.array([0, 0]))
    array([ True, False])
    """
    rows, columns = matrix.tocoo().coords
    n_items = matrix.shape[1]
    pairs = rows.astype(np.int64) * n_items + columns
    clicked: NDArray[np.bool_] = np.isin(user.astype(np.int64) * n_items + item, pairs)
    return clicked


def _truth_of_simulation(test: Simulation, train: Clicks, k: int) -> sparse.csr_array[Any]:
    if test.clicks.fingerprint() != train.fingerprint():
        raise InputError(
            "train is not the clicks of the simulation. Against a true ranking the next items start after those "
            "clicked, so train must be simulation.clicks; for held-out clicks, pass them as test."
        )
    return test.next_items(k).matrix
