"""Recommendations and the truth, checked and numbered as in the training clicks: what every measure starts from."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.frames import column_names, columns, encode
from bmcd.clicks.table import Clicks
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.system.text import shown

if TYPE_CHECKING:
    from bmcd.simulation import Simulation

Ints = NDArray[np.int64]

# An average of probabilities may pass 0 or 1 by rounding; this much is put right, more is an error.
ROUNDING = 1e-9


class Lists(NamedTuple):
    """Recommendations, one entry each, sorted by user and then by rank; users and items as in `train`."""

    user: Ints
    item: Ints
    rank: Ints
    """1 is the first; each user's ranks are 1, 2, ... without a gap."""
    probability: NDArray[np.float64] | None


def read_lists(recommendations: Any, train: Clicks) -> Lists:
    """Check a frame of recommendations against the training clicks.

    >>> import pandas as pd
    >>> train = Clicks.from_matrix([[1, 0, 0]], users=["ann"], items=["a", "b", "c"])
    >>> read_lists(pd.DataFrame({"user": ["ann"] * 2, "item": ["b", "c"], "rank": [2, 1]}), train).item
    array([2, 1])
    """
    have = column_names(recommendations)
    names = ["user", "item", "rank"] + ["probability"] * ("probability" in have)
    users, items, ranks, *others = columns(recommendations, *names)
    if len(users) == 0:
        raise ClicksError(
            "there are no recommendations: the frame has no rows. Ask for more, or lower min_probability."
        )
    user = _known(users, train.users, "user")
    item = _known(items, train.items, "item")
    rank = _whole_ranks(ranks)
    probability = _checked_probability(others[0]) if others else None
    _check_pairs(user, item, train)
    order = np.lexsort((rank, user))
    lists = Lists(user[order], item[order], rank[order], None if probability is None else probability[order])
    _check_gaps(lists, train)
    return lists


def read_k(k: int | None, lists: Lists, train: Clicks, *, must_be_sure: bool) -> int:
    """Return k, or the length of the longest list where k is None; no list may be longer than k.

    `must_be_sure`: the truth depends on k, so lists of different lengths do not say what k was.
    """
    longest = int(lists.rank.max())
    if k is None:
        lengths = np.bincount(lists.user)
        if must_be_sure and (lengths[lengths > 0] < longest).any():
            raise InputError(
                "the lists have different lengths, so they do not tell which k they were made for, and the truth "
                "of a simulation, rank <= n_clicked + k, depends on it. Pass k."
            )
        return longest
    k = operator.index(k)
    if k < 1:
        raise InputError(f"k must be 1 or more, but it is {k}.")
    if longest > k:
        user = train.users[lists.user[lists.rank.argmax()]]
        raise InputError(
            f"user {shown(user)} has {longest} recommendations, but k is {k}. "
            f"Pass k={longest}, or recommend with k={k}: a probability of being among the next {longest} is not "
            f"one of being among the next {k}."
        )
    return k


def read_truth(test: Clicks | Simulation, train: Clicks, k: int) -> sparse.csr_array[Any]:
    """Return what would be a hit, users x items as in `train`: test clicks, or the next k items of a simulation."""
    if not isinstance(test, Clicks):
        return _truth_of_simulation(test, train, k)
    if test.n_clicks == 0:
        raise ClicksError("the test clicks are empty, so nothing can be a hit.")
    coords = test.matrix.tocoo().coords
    user, item = (
        _positions(own.tolist(), ids, what)[codes]
        for own, ids, what, codes in zip(
            (test.users, test.items), (train.users, train.items), ("user", "item"), coords, strict=True
        )
    )
    if (both := np.flatnonzero(clicked(train.matrix, user, item))).size:
        who, what = train.users[user[both[0]]], train.items[item[both[0]]]
        raise ClicksError(
            f"user {shown(who)} clicked item {shown(what)} in train and in test, and {both.size - 1} more clicks "
            "are in both. Take them out of one: a clicked item is not recommended again, so it can be no hit."
        )
    ones = np.ones(len(user), dtype=np.bool_)
    return sparse.csr_array((ones, (user, item)), shape=train.matrix.shape)


def clicked(matrix: sparse.csr_array[Any], user: Ints, item: Ints) -> NDArray[np.bool_]:
    """Whether each pair of a user and an item is a click.

    >>> clicked(sparse.csr_array([[True, False], [False, True]]), np.array([0, 1]), np.array([0, 0]))
    array([ True, False])
    """
    rows, cols = matrix.tocoo().coords
    n_items = matrix.shape[1]
    pairs = rows.astype(np.int64) * n_items + cols
    found: NDArray[np.bool_] = np.isin(user.astype(np.int64) * n_items + item, pairs)
    return found


def _truth_of_simulation(test: Any, train: Clicks, k: int) -> sparse.csr_array[Any]:
    from bmcd.simulation import Simulation

    if not isinstance(test, Simulation):
        raise InputTypeError(f"test must be Clicks or a Simulation, not {type(test).__name__}.")
    own = test.clicks
    pairs = [(own.users, train.users), (own.items, train.items)]
    pairs += [(own.matrix.indptr, train.matrix.indptr), (own.matrix.indices, train.matrix.indices)]
    if not all(np.array_equal(a, b) for a, b in pairs):
        raise InputError(
            "train is not the clicks of the simulation. Against a true ranking the next items start after those "
            "clicked, so train must be simulation.clicks; for held-out clicks, pass them as test."
        )
    return test.next_items(k).matrix


def _positions(own: list[Any], ids: NDArray[Any], what: str) -> Ints:
    """Where each id stands among those of train."""
    position = {known: at for at, known in enumerate(ids.tolist())}
    for one in own:
        if one not in position:
            raise ClicksError(
                f"the test clicks have the {what} {shown(one)}, which is not in train. Keep only users and items "
                "of train, as Clicks.hold_out does.",
                column=what,
            )
    return np.array([position[one] for one in own], dtype=np.int64)


def _known(values: NDArray[Any], ids: NDArray[Any], what: str) -> Ints:
    codes, own = encode(values, what)
    position = {known: at for at, known in enumerate(ids.tolist())}
    at: Ints = np.array([position.get(one, -1) for one in own.tolist()], dtype=np.int64)[codes]
    if (bad := np.flatnonzero(at < 0)).size:
        raise ClicksError(
            f"the {what} {shown(own[codes[bad[0]]])} is not in train, whose first {what} is "
            f"{shown(ids[0])} (rows count from 0). Pass the clicks the model was fitted to; 7 and '7' differ.",
            row=int(bad[0]),
            column=what,
        )
    return at


def _whole_ranks(values: NDArray[Any]) -> Ints:
    ranks = _numbers(values, "rank")
    bad = np.flatnonzero(~(np.isfinite(ranks) & (ranks >= 1) & (ranks == np.floor(ranks))))
    if bad.size:
        raise ClicksError(
            f"the rank is {shown(values[bad[0]])} (rows count from 0). Ranks are 1, 2, ..., 1 for the first.",
            row=int(bad[0]),
            column="rank",
        )
    return ranks.astype(np.int64)


def _checked_probability(values: NDArray[Any]) -> NDArray[np.float64]:
    probability = _numbers(values, "probability")
    bad = np.flatnonzero(~((probability >= -ROUNDING) & (probability <= 1 + ROUNDING)))
    if bad.size:
        raise ClicksError(
            f"the probability is {shown(values[bad[0]])}, which is not between 0 and 1 (rows count from 0). "
            "A score that is no probability belongs in a column 'score'.",
            row=int(bad[0]),
            column="probability",
        )
    return np.clip(probability, 0.0, 1.0)


def _numbers(values: NDArray[Any], column: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ClicksError(f"the column must hold numbers ({error}).", column=column) from error


def _check_pairs(user: Ints, item: Ints, train: Clicks) -> None:
    pairs = user * train.n_items + item
    order = np.argsort(pairs, kind="stable")
    if (twice := np.flatnonzero(np.diff(pairs[order]) == 0)).size:
        row = int(order[twice + 1].min())
        raise ClicksError(
            f"item {shown(train.items[item[row]])} is recommended to user {shown(train.users[user[row]])} twice "
            "(rows count from 0). Keep one row for each user and item.",
            row=row,
        )
    if (old := np.flatnonzero(clicked(train.matrix, user, item))).size:
        row = int(old[0])
        raise ClicksError(
            f"user {shown(train.users[user[row]])} already clicked the recommended item "
            f"{shown(train.items[item[row]])} in train (rows count from 0). Only unclicked items can be hits: "
            "is train what the model was fitted to?",
            row=row,
        )


def _check_gaps(lists: Lists, train: Clicks) -> None:
    first = np.flatnonzero(np.diff(lists.user, prepend=-1))
    lengths = np.diff(np.append(first, len(lists.user)))
    expected = np.arange(len(lists.user)) - np.repeat(first, lengths) + 1
    if (bad := np.flatnonzero(lists.rank != expected)).size:
        at = bad[0]
        raise ClicksError(
            f"the ranks of user {shown(train.users[lists.user[at]])} are not 1, 2, ...: where {expected[at]} "
            f"should follow, there is {lists.rank[at]}. Number each user's recommendations from 1 without gaps.",
            column="rank",
        )
