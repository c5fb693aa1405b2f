"""From the rows of a log to each user's clicks in order: sort, number, compare and select them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.clicks.ids import id_ranks
from bmcd.errors import ClicksError

Ints = NDArray[np.int64]
# Clicks below which one sort is faster than the matrices of two counting sorts.
SMALL = 5_000


class Sequences(NamedTuple):
    """Every user's clicks, one user after the other; those of user u are at starts[u] to starts[u + 1]."""

    starts: Ints
    items: NDArray[np.int32]
    """Item codes; -1 is an item outside the catalogue."""
    times: NDArray[Any] | None = None
    sessions: Ints | None = None


def grouped(codes: NDArray[Any], n_groups: int) -> tuple[Ints, Ints]:
    """Return where each group starts, and the positions sorted by group (stable), by counting.

    >>> starts, order = grouped(np.array([1, 0, 1]), 2)
    >>> starts.tolist(), order.tolist()
    ([0, 1, 3], [1, 0, 2])
    """
    n = len(codes)
    if n == 0:
        return np.zeros(n_groups + 1, np.int64), np.empty(0, np.int64)
    # SciPy's conversion of rows to columns is a counting sort, ten times as fast as a stable argsort.
    index = np.int32 if max(n, n_groups) < 2**31 - 1 else np.int64
    parts: Any = (np.ones(n, np.bool_), codes.astype(index, copy=False), np.arange(n + 1, dtype=index))
    table: Any = sparse.csr_array(parts, shape=(n, n_groups)).tocsc()
    return table.indptr.astype(np.int64), table.indices


def in_rows(user: NDArray[Any], item: NDArray[Any], n_users: int, sessions: Ints | None = None) -> Sequences:
    """Return the clicks of each user in the order of the rows."""
    starts, order = grouped(user, n_users)
    return Sequences(starts, item[order].astype(np.int32), None, None if sessions is None else sessions[order])


def in_time(
    user: NDArray[Any], item: NDArray[Any], n_users: int, items: NDArray[Any], times: Any, sessions: Ints | None
) -> tuple[Sequences, int]:
    """Return the clicks of each user in order of time, and how many rows repeated a click at the very same time.

    Clicks at the same time are stored by item id, so that the order of the rows does not matter.
    """
    by_time = None if (times[1:] >= times[:-1]).all() else _time_order(times)
    starts, order = grouped(user if by_time is None else user[by_time], n_users)
    order = order if by_time is None else by_time[order]
    item, times = item[order], times[order]
    sessions = None if sessions is None else sessions[order]
    same = np.zeros(len(item) + 1, np.bool_)
    np.equal(times[1:], times[:-1], out=same[1:-1])
    same[starts] = False
    tied = np.flatnonzero(same[1:] | same[:-1])
    n_repeated = 0
    if tied.size:
        keys = [id_ranks(items)[item[tied]], times[tied], np.searchsorted(starts, tied, side="right")]
        within = tied[np.lexsort(keys if sessions is None else [sessions[tied], *keys])]
        item[tied] = item[within]
        repeated = same[:-1].copy()
        repeated[1:] &= item[1:] == item[:-1]
        n_repeated = int(repeated.sum())
        if sessions is not None:
            order, sessions = order.copy(), sessions.copy()
            order[tied], sessions[tied] = order[within], sessions[within]
            changed = np.flatnonzero(repeated[1:] & (sessions[1:] != sessions[:-1])) + 1
            if changed.size:
                reason = (
                    "the same click (user, item and time) is in the log twice, with two sessions. Remove one of "
                    "the rows, or correct its session."
                )
                raise ClicksError(reason, row=int(max(order[changed[0] - 1], order[changed[0]])))
    found = Sequences(starts, item.astype(np.int32, copy=False), times, sessions)
    return (select(found, ~repeated) if n_repeated else found), n_repeated


def _time_order(times: NDArray[Any]) -> Ints:
    """Return the stable order of times.

    Time and row are sorted as one number where they fit into 63 bits, which takes half the time of argsort.

    >>> _time_order(np.array([3, 1, 3, 2], "datetime64[s]")).tolist()
    [1, 3, 0, 2]
    """
    n = len(times)
    if times.dtype.kind == "f":
        return np.argsort(times, kind="stable")
    low, high = int(times.min().astype(np.int64)), int(times.max().astype(np.int64))
    key = times.view(np.int64) - (low if high - low < 2**63 else 0)
    for factor in (1_000_000, 1_000):  # whole seconds or milliseconds
        if not (key[:1000] % factor).any() and not (key % factor).any():
            key //= factor
            high, low = (high - low) // factor, 0
            break
    bits = n.bit_length()
    if (high - low).bit_length() + bits > 63:
        return np.argsort(times, kind="stable")
    key = (key << bits) | np.arange(n)
    key.sort()
    return key & ((1 << bits) - 1)


def renumbered(codes: NDArray[Any], ids: NDArray[Any], times: Any) -> tuple[NDArray[np.int32], NDArray[Any]]:
    """Return the codes of users or items numbered by first click, and their ids; those at the same time by id.

    >>> codes, ids = renumbered(np.array([0, 1, 0]), np.array([7, 8]), np.array([3, 2, 1]))
    >>> codes.tolist(), ids.tolist()
    ([0, 1, 0], [7, 8])
    """
    values = times.view(np.int64) if times.dtype.kind == "M" else times
    first = np.full(len(ids), values.max(), values.dtype)
    np.minimum.at(first, codes, values)
    order = np.argsort(first, kind="stable")
    same = np.zeros(len(order) + 1, np.bool_)
    same[1:-1] = first[order][1:] == first[order][:-1]
    tied = np.flatnonzero(same[1:] | same[:-1])
    if tied.size:
        numbers = order[tied]
        order[tied] = numbers[np.lexsort([id_ranks(ids[numbers]), first[numbers]])]
    new = np.empty(len(ids), np.int32)
    new[order] = np.arange(len(ids))
    return new[codes], ids[order]


def select(sequences: Sequences, mask: NDArray[np.bool_]) -> Sequences:
    """Return only the clicks for which the mask is True; all users stay."""
    starts = np.concatenate(([0], np.cumsum(mask)))[sequences.starts].astype(np.int64)
    return _taken(sequences, starts, mask)


def take_users(sequences: Sequences, users: Ints) -> Sequences:
    """Return the clicks of some users alone, in the order given.

    >>> take_users(Sequences(np.array([0, 2, 3]), np.array([5, 6, 7], np.int32)), np.array([1, 0])).items.tolist()
    [7, 5, 6]
    """
    lengths = np.diff(sequences.starts)[users]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    places = np.arange(starts[-1]) + np.repeat(sequences.starts[users] - starts[:-1], lengths)
    return _taken(sequences, starts, places)


def _taken(sequences: Sequences, starts: Ints, places: NDArray[Any]) -> Sequences:
    columns: Any = (None if column is None else column[places] for column in sequences[1:])
    return Sequences(starts, *columns)


def owners(starts: NDArray[Any]) -> Ints:
    """Return the user of each click.

    >>> owners(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


class DistinctClicks(NamedTuple):
    """Which user clicked which item at all, and how the clicks of the log belong to it."""

    matrix: sparse.csr_array[Any]
    """Users x items, bool, sorted."""
    pair: Ints
    """For each click of the log, its place among the entries of the matrix; -1 for an item outside."""
    first: NDArray[np.bool_]
    """For each click of the log, whether it is the user's first on that item; False for an item outside."""


def distinct_clicks(sequences: Sequences, n_items: int) -> DistinctClicks:
    """Return the matrix of distinct clicks, and where each click of the log stands in it.

    >>> found = distinct_clicks(Sequences(np.array([0, 3]), np.array([2, 0, 2], np.int32)), 3)
    >>> found.matrix.indices.tolist(), found.pair.tolist(), found.first.tolist()
    ([0, 2], [1, 0, 1], [True, True, False])
    """
    n_users, n_clicks = len(sequences.starts) - 1, len(sequences.items)
    outside = bool((sequences.items < 0).any())
    inside = select(sequences, sequences.items >= 0) if outside else sequences
    index = np.int32 if max(n_clicks, n_items) < 2**31 - 1 else np.int64
    if len(inside.items) < SMALL:  # as a service is asked: building matrices costs more than sorting
        order = np.lexsort((inside.items, owners(inside.starts)))
        item, starts = inside.items[order].astype(index), inside.starts.astype(index)
    else:
        parts: Any = (np.arange(len(inside.items), dtype=index), inside.items, inside.starts.astype(index))
        # To columns and back: two counting sorts that keep a user's clicks on an item in order.
        table: Any = sparse.csr_array(parts, shape=(n_users, n_items)).tocsc().tocsr()
        order, item, starts = table.data, table.indices, table.indptr
    new = np.ones(len(item), np.bool_)
    new[1:] = item[1:] != item[:-1]
    new[starts[:-1][np.diff(starts) > 0]] = True
    counts: Any = np.cumsum(new, dtype=index)
    starts, item = np.append(index(0), counts)[starts], item[new]
    pair, first = np.empty(len(new), np.int64), np.empty(len(new), np.bool_)
    first[order] = new
    counts -= 1
    pair[order] = counts
    if outside:
        places = np.flatnonzero(sequences.items >= 0)
        inside_pair, inside_first = pair, first
        pair, first = np.full(n_clicks, -1, np.int64), np.zeros(n_clicks, np.bool_)
        pair[places], first[places] = inside_pair, inside_first
    return DistinctClicks(
        sparse.csr_array((np.ones(len(item), np.bool_), item, starts), shape=(n_users, n_items)), pair, first
    )


def session_numbers(sequences: Sequences, gap: int) -> Ints:
    """Return the number of the session of each click: 0, 1, ... in order of the log.

    Sessions are those of the log's session column if it has one; otherwise a user's clicks are cut at gaps of more
    than ``gap`` microseconds; without a clock every user is one session.

    >>> times = np.array([0, 5, 90, 91], "datetime64[us]")
    >>> session_numbers(Sequences(np.array([0, 3, 4]), np.zeros(4, np.int32), times), 10).tolist()
    [0, 0, 1, 2]
    """
    user = owners(sequences.starts)
    if sequences.sessions is not None:
        pairs = user * (int(sequences.sessions.max(initial=0)) + 1) + sequences.sessions
        _, at, code = np.unique(pairs, return_index=True, return_inverse=True)
        number = np.empty(len(at), np.int64)
        number[np.argsort(at)] = np.arange(len(at))
        return number[code]
    begins = np.ones(len(user), np.bool_)
    begins[1:] = user[1:] != user[:-1]
    if sequences.times is not None and sequences.times.dtype.kind == "M":
        begins[1:] |= np.diff(sequences.times.view(np.int64)) > gap
    return np.cumsum(begins) - 1


def position_in_group(mask: NDArray[np.bool_], starts: Ints) -> Ints:
    """Return, for each click, how many of the same user's clicks before it have the mask.

    >>> position_in_group(np.array([True, False, True, True]), np.array([0, 3, 4])).tolist()
    [0, 1, 1, 0]
    """
    before = np.concatenate(([0], np.cumsum(mask)))
    position: Ints = before[:-1] - np.repeat(before[starts[:-1]], np.diff(starts))
    return position


def nonzero(matrix: Any) -> tuple[NDArray[Any], NDArray[Any], tuple[int, int], int]:
    """Return rows and columns of nonzero entries, the shape, and how many values are neither 0 nor 1."""
    try:
        checked: Any = matrix if sparse.issparse(matrix) else np.asarray(matrix)
    except ValueError as error:
        raise ClicksError(f"the matrix has rows of different lengths ({error}).") from error
    if checked.ndim != 2 or 0 in checked.shape:
        shape = checked.shape
        raise ClicksError(f"the matrix must have two dimensions, users and items, and be not empty: {shape}.")
    if checked.dtype.kind not in "buif":
        raise ClicksError(f"the matrix must hold booleans or numbers, not {checked.dtype}.")
    coo: Any = sparse.coo_array(checked, copy=True)
    coo.sum_duplicates()
    rows, cols = coo.coords
    if (bad := np.flatnonzero(np.isnan(coo.data))).size:
        reason = "the value is NaN (rows and columns count from 0). Write 0 where nothing was clicked."
        raise ClicksError(reason, row=int(rows[bad].min()), column=int(cols[bad[rows[bad].argmin()]]))
    clicked = coo.data != 0
    if not clicked.any():
        raise ClicksError("the matrix is all zeros, so there are no clicks to read.")
    return rows[clicked], cols[clicked], checked.shape, int((coo.data[clicked] != 1).sum())
