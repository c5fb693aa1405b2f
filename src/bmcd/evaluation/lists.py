"""Recommendations, checked and numbered as in the training clicks: what all measures start from."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import collected, column_names, column_of, columns
from bmcd.clicks.ids import encode
from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError, InputError
from bmcd.models.hits import was_clicked
from bmcd.utils import shown

Ints = NDArray[np.int64]

# Rounding may carry an average of probabilities this far below 0 or above 1; anything further is an error.
ROUNDING = 1e-9


class RankedLists(NamedTuple):
    """The lists of all users, one entry for each recommendation, sorted by user and then by rank."""

    user: Ints
    """Row of the user in `train`."""
    item: Ints
    """Column of the item in `train`."""
    rank: Ints
    """1 is the first; each user's ranks are 1, 2, ... without a gap."""
    probability: NDArray[np.float64] | None


def read_lists(recommendations: Any, train: Clicks, repeats: bool = False) -> RankedLists:
    """Return the recommendations of a frame, checked against the training clicks, or the histories of other users.

    With ``repeats`` clicked items may be recommended.

    >>> import pandas as pd
    >>> train = Clicks.from_matrix([[1, 0, 0]], users=["ann"], items=["a", "b", "c"])
    >>> read_lists(pd.DataFrame({"user": ["ann"] * 2, "item": ["b", "c"], "rank": [2, 1]}), train).item
    array([2, 1])
    """
    names = ["rank"] + ["probability"] * ("probability" in column_names(recommendations))
    recommendations = collected(recommendations, ("user", "item", *names))
    users, items = (column_of(recommendations, name) for name in ("user", "item"))  # exact, as NumPy may not be
    ranks, *others = columns(recommendations, *names)
    if len(ranks) == 0:
        raise ClicksError(
            "there are no recommendations: the frame has no rows. Ask for more, or lower min_probability."
        )
    user = _numbered(users, train.users, "user")
    item = _numbered(items, train.items, "item")
    rank = _checked_ranks(ranks)
    probability = _checked_probability(others[0]) if others else None
    _check_pairs(user, item, train, repeats)
    order = np.lexsort((rank, user))
    lists = RankedLists(user[order], item[order], rank[order], None if probability is None else probability[order])
    _check_gaps(lists, train)
    return lists


def read_k(k: int | None, lists: RankedLists, train: Clicks, *, must_be_sure: bool) -> int:
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


def _numbered(values: Any, known: NDArray[Any], what: str) -> Ints:
    """Return where the id of each row stands among those known; an error names the first row with another id."""
    codes, ids, _ = encode(values, what)
    place = {value: number for number, value in enumerate(known.tolist())}
    numbers: Ints = np.array([place.get(value, -1) for value in ids.tolist()], dtype=np.int64)[codes]
    if (bad := np.flatnonzero(numbers < 0)).size:
        raise ClicksError(
            f"the {what} {shown(ids[codes[bad[0]]])} is not in train, whose first {what} is "
            f"{shown(known[0])} (rows count from 0). Pass the clicks the model was fitted to; 7 and '7' differ.",
            row=int(bad[0]),
            column=what,
        )
    return numbers


def _checked_ranks(values: NDArray[Any]) -> Ints:
    ranks = _numbers(values, "rank")
    is_rank = np.isfinite(ranks) & (ranks >= 1) & (ranks == np.floor(ranks))
    _refuse_rows(~is_rank, values, "rank", "Ranks are 1, 2, ..., 1 for the first.")
    return ranks.astype(np.int64)


def _checked_probability(values: NDArray[Any]) -> NDArray[np.float64]:
    probability = _numbers(values, "probability")
    inside = (probability >= -ROUNDING) & (probability <= 1 + ROUNDING)
    rule = "Probabilities lie between 0 and 1; any other score belongs in a column 'score'."
    _refuse_rows(~inside, values, "probability", rule)
    return np.clip(probability, 0.0, 1.0)


def _numbers(values: NDArray[Any], column: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ClicksError(f"the column must hold numbers ({error}).", column=column) from error


def _refuse_rows(bad: NDArray[np.bool_], values: NDArray[Any], column: str, rule: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise ClicksError(
            f"the {column} is {shown(values[row])} (rows count from 0). {rule}", row=row, column=column
        )


def _check_pairs(user: Ints, item: Ints, train: Clicks, repeats: bool) -> None:
    pairs = user * train.n_items + item
    order = np.argsort(pairs, kind="stable")
    if (twice := np.flatnonzero(np.diff(pairs[order]) == 0)).size:
        row = int(order[twice + 1].min())
        raise ClicksError(
            f"item {shown(train.items[item[row]])} is recommended to user {shown(train.users[user[row]])} twice "
            "(rows count from 0). Keep one row for each user and item.",
            row=row,
        )
    if not repeats and (old := np.flatnonzero(was_clicked(train.matrix, user, item))).size:
        row = int(old[0])
        raise ClicksError(
            f"user {shown(train.users[user[row]])} already clicked the recommended item "
            f"{shown(train.items[item[row]])} in train (rows count from 0). Only unclicked items can be hits: "
            "is train what the model was fitted to?",
            row=row,
        )


def _check_gaps(lists: RankedLists, train: Clicks) -> None:
    starts = np.flatnonzero(np.diff(lists.user, prepend=-1))
    lengths = np.diff(np.append(starts, len(lists.user)))
    expected = np.arange(len(lists.user)) - np.repeat(starts, lengths) + 1
    if (bad := np.flatnonzero(lists.rank != expected)).size:
        entry = bad[0]
        raise ClicksError(
            f"the ranks of user {shown(train.users[lists.user[entry]])} are not 1, 2, ...: where "
            f"{expected[entry]} should follow, there is {lists.rank[entry]}. Number each user's recommendations "
            "from 1 without gaps.",
            column="rank",
        )
