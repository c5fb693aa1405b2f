"""What would have been a hit: test clicks, or the true next items of a simulation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners, position_in_group
from bmcd.clicks.splitting import are_next_clicks
from bmcd.errors import ClicksError, InputError, InputTypeError, UnknownIdError
from bmcd.models.top_k import check_horizon
from bmcd.simulation import Simulation
from bmcd.utils import shown

Ints = NDArray[np.int64]


class Truth(NamedTuple):
    """The items that would have been a hit for the users of some clicks, and which of these users are scored."""

    matrix: sparse.csr_array[Any]
    """Users x items, bool."""
    n_relevant: Ints
    """Different items that each user clicked within the horizon, clicks on items outside the model included."""
    n_clicks: Ints
    """Test clicks of each user within the horizon."""
    n_outside: Ints
    """Those of them that are on items outside the model; they are misses for every recommendation."""
    scored: NDArray[np.bool_]
    """The users with at least `horizon` test clicks; all users if there is no horizon."""
    horizon: int | None
    """The number of test clicks of each user that count; None for all of them."""
    split: str
    """How the test clicks were chosen, in words."""


def read_truth(
    test: Clicks | Simulation,
    train: Clicks,
    k: int,
    horizon: int | None = None,
    *,
    repeats: bool = False,
    fewer: bool = False,
) -> Truth:
    """Return what would be a hit for the users of ``train``: their next clicks in the test.

    Of test clicks in the order in which they followed, the first ``horizon`` of each user count, by default k. Of
    test clicks taken at random all count; a horizon must then be their number. With ``fewer``, users with at least
    one test click are scored.
    """
    if isinstance(test, Simulation):
        matrix = _next_items(test, train, check_horizon(horizon, k))
        number = np.diff(matrix.indptr).astype(np.int64)
        every = np.ones(train.n_users, np.bool_)
        none = np.zeros_like(number)
        return Truth(matrix, number, number, none, every, horizon, "the true rankings of a simulation")
    if not isinstance(test, Clicks):
        raise InputTypeError(f"test must be Clicks or a Simulation, not {type(test).__name__}.")
    if len(test.sequence) == 0:
        raise ClicksError("the test clicks are empty, so nothing can be a hit.")
    user, item = _places(test, train)
    follows = are_next_clicks(test, train, user)
    limit = check_horizon(horizon, k) if follows or horizon is not None else None
    new = np.ones(len(item), np.bool_) if repeats else test.distinct.first | (test.sequence < 0)
    place = position_in_group(new, test.starts)
    total = np.diff(np.concatenate(([0], np.cumsum(new)))[test.starts])
    within, scored = new, np.ones(train.n_users, np.bool_)
    if limit is not None:
        if not follows and (total > limit).any():
            raise InputError(
                f"horizon is {limit}, but the test has {total.max()} clicks of user "
                f"{shown(test.users[total.argmax()])}, in no order, so none of them are the next {limit}. Split "
                "by time, hold out as many clicks as the horizon, or leave the horizon out."
            )
        within = new & (place < limit)
        per_user = np.bincount(user, weights=total, minlength=train.n_users)
        scored = per_user >= (1 if fewer else limit)
        if not scored.any():
            raise InputError(
                f"no user has {limit} test clicks; the most any user has is {total.max()}. Choose a smaller "
                "horizon, or take more test clicks of each user."
            )
    owner = user[owners(test.starts)]
    if not repeats:
        _refuse_old(train, owner[item >= 0], item[item >= 0])
    inside, outside = within & (item >= 0), within & (item < 0)
    ones = np.ones(int(inside.sum()), np.bool_)
    matrix = sparse.csr_array((ones, (owner[inside], item[inside])), shape=train.matrix.shape)
    matrix.sum_duplicates()
    n_outside = np.bincount(owner[outside], minlength=train.n_users).astype(np.int64)
    n_relevant = np.diff(matrix.indptr).astype(np.int64) + n_outside
    split = test.split or ("the clicks that followed" if follows else "held-out clicks, in no order")
    n_clicks = np.bincount(owner[within], minlength=train.n_users).astype(np.int64)
    return Truth(matrix, n_relevant, n_clicks, n_outside, scored, limit, split)


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


def _places(test: Clicks, train: Clicks) -> tuple[Ints, Ints]:
    """Return the row in train of each test user, and the column in train of each test click (-1: outside)."""
    places = []
    for ids, place_of, what in ((test.users, train.rows_of, "user"), (test.items, train.columns_of, "item")):
        same = ids is getattr(train, f"{what}s")
        try:
            places.append(np.arange(len(ids)) if same else place_of(ids))
        except UnknownIdError as error:
            raise ClicksError(
                f"the test clicks do not fit train: {error}Keep only {what}s of train, as Clicks.hold_out does.",
                column=what,
            ) from error
    return places[0], np.append(places[1], -1)[test.sequence]


def _refuse_old(train: Clicks, user: Ints, item: Ints) -> None:
    if (both := np.flatnonzero(was_clicked(train.matrix, user, item))).size:
        who, what = train.users[user[both[0]]], train.items[item[both[0]]]
        raise ClicksError(
            f"user {shown(who)} clicked item {shown(what)} in train and in test, and {both.size - 1} more clicks "
            "are in both. Take them out of one: a clicked item is not recommended again, so it can be no hit. "
            "Where repeated clicks count as next clicks, use repeats=True."
        )


def _next_items(test: Simulation, train: Clicks, horizon: int) -> sparse.csr_array[Any]:
    if test.clicks.fingerprint() != train.fingerprint():
        raise InputError(
            "train is not the clicks of the simulation. Against a true ranking the next items start after those "
            "clicked, so train must be simulation.clicks; for held-out clicks, pass them as test."
        )
    return test.next_items(horizon).matrix
