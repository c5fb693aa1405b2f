"""Counts over an ordered log: which items follow each other, occur together, and were clicked recently.

Pairs are counted row by row: for each click on an item, its neighbours in the session are added up in an array as
long as the catalogue. No list of pairs is built or sorted, so memory is that of the clicks and of the result. Sums
are always formed in the same order, so results depend only on the clicks.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import as_text, read_time
from bmcd.errors import InputError, Message, Option
from bmcd.utils import Floats

HOUR = 3_600_000_000
"""In microseconds."""
FLOOR = 0.5
"""Clicks that `popularity_share` adds to each item."""
DIGIT = 11
"""Bits of the digits that `_newest_first` sorts by."""


class Events(NamedTuple):
    """The clicks of a log, session by session, each session in click order."""

    item: NDArray[np.int32]
    """Item numbers, without clicks on items outside the catalogue."""
    session: NDArray[np.int64]
    """The number of the session of each click, non-decreasing."""
    user: NDArray[np.int64]
    age: Floats | None
    """In hours; None without a clock."""
    tied: NDArray[np.bool_]
    """Whether a click has the same time as the previous one of the session, so that their order is unknown."""
    n_items: int

    def keep(self, mask: NDArray[np.bool_]) -> Events:
        """Return the clicks where the mask is True; new neighbours are tied if all clicks between them were."""
        kept = np.flatnonzero(mask)
        if len(kept) == len(self.item):
            return self
        # Clicks of a run of ties share a number, so neighbours are tied if their numbers are equal.
        run = np.cumsum(~self.tied)[kept]
        tied = np.zeros(len(kept), np.bool_)
        tied[1:] = run[1:] == run[:-1]
        age = None if self.age is None else self.age[kept]
        return Events(self.item[kept], self.session[kept], self.user[kept], age, tied, self.n_items)

    def within(self, hours: float | None) -> Events:
        """Return the clicks of the last hours; all clicks for None or without a clock."""
        return self if hours is None or self.age is None else self.keep(self.age <= hours)

    def before(self, hours: float) -> Events:
        """Return the clicks older than a number of hours, with their ages at that time."""
        if self.age is None:
            raise InputError("the log has no clock, so it cannot be split at a time.")
        found = self.keep(self.age > hours)
        assert found.age is not None
        return found._replace(age=found.age - hours)


def events_of(clicks: Clicks, now: Any = None) -> Events:
    """Return the clicks of a log as events.

    With `now`, a time as in `Clicks.split_at`, only earlier clicks are returned, and ages refer to it. By default
    all clicks are returned, and ages refer to the last one. In a log without order all clicks are tied.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": 1, "item": list("aba")})
    >>> frame["time"] = ["2026-05-01 10:00", "2026-05-01 10:30", "2026-05-01 11:00"]
    >>> events_of(Clicks.from_frame(frame)).age.tolist()
    [1.0, 0.5, 0.0]
    >>> events_of(Clicks.from_frame(frame), "2026-05-01 11:00").item.tolist()
    [0, 1]
    """
    found, users = clicks.by_session()
    lengths = np.diff(found.starts)
    session = np.repeat(np.arange(len(lengths)), lengths)
    keep = found.items >= 0
    if now is not None:
        if found.times is None:
            said = f"now={now!r} needs a log with times, and this one has none. Name the time column when reading: "
            raise InputError(Message(said, Option("time_column", "..."), "."))
        now = read_time(now, clicks.has_clock)
        keep &= found.times < now
        if not keep.any():
            raise InputError(
                f"there are no clicks before {as_text(now)}: the log begins at {as_text(found.times.min())}."
            )
    tied = np.zeros(len(session), np.bool_)
    if clicks.order is None:
        tied[1:] = True
    elif found.times is not None:
        tied[1:] = found.times[1:] == found.times[:-1]
    tied[1:] &= session[1:] == session[:-1]
    age = None
    if clicks.has_clock and found.times is not None:
        latest = found.times.max() if now is None else now
        age = (latest - found.times).view(np.int64) / HOUR
    events = Events(found.items, session, np.repeat(users, lengths), age, tied, clicks.n_items)
    return events.keep(keep)


def decay_weights(events: Events, half_life: float | None) -> Floats:
    """Return the weight of each click, .5 ** (age / half_life); 1 for None and without a clock."""
    if half_life is None or events.age is None:
        return np.ones(len(events.item))
    weights: Floats = np.exp2(events.age * (-1.0 / half_life))
    return weights


def decayed_counts(events: Events, half_life: float | None) -> Floats:
    """Return the number of clicks on each item, each weighted .5 ** (age / half_life).

    >>> decayed_counts(Events(np.array([0, 1, 0]), None, None, np.array([2.0, 0.0, 1.0]), None, 3), 1.0).tolist()
    [0.75, 1.0, 0.0]
    """
    return np.bincount(events.item, decay_weights(events, half_life), events.n_items).astype(np.float64)


def directed_pairs(events: Events, weights: Floats, gaps: int = 1, *, fading: bool = True) -> Any:
    """Count which items follow each other: entry [a, b] adds weight / gap for a click on b 1 to ``gaps`` after a.

    Without ``fading`` it adds the weight at every gap. The weight is that of the click on b. The two clicks must be
    in the same session, on different items and at different times. Returns a CSR array of items x items, float32,
    with sorted columns.

    >>> some = Events(np.array([0, 1, 2], np.int32), np.zeros(3, np.int64), None, None, np.zeros(3, bool), 3)
    >>> directed_pairs(some, np.ones(3), 2).toarray().tolist()
    [[0.0, 1.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    starts, places = by_item(events.item, events.n_items)
    return _csr(_pairs(events.item, events.session, events.tied, weights, gaps, starts, places, False, fading))


def recent_pairs(events: Events, memory: float, gaps: int = 5) -> Any:
    """Count which items occur together, with the latest occurrences of each item weighted most.

    Entry [a, b] adds .5 ** (later occurrences of a / memory) for each click on b up to ``gaps`` clicks before or
    after an occurrence of a; conditions and result are those of `directed_pairs`. Without a clock, later
    occurrences are those further down in the log.
    """
    starts, places = by_item(events.item, events.n_items)
    newest = np.arange(len(events.item))[::-1] if events.age is None else newest_first(events.age)
    weights = _occurrence_weights(events.item, newest, events.n_items, memory)
    return _csr(_pairs(events.item, events.session, events.tied, weights, gaps, starts, places, True, False))


def pairs_of_many(events: Events, fewest: int, gaps: int = 5, *, both: bool) -> Any:
    """Return the pairs a, b of `directed_pairs` (with ``both``: `recent_pairs`) that enough users have.

    A CSR array of items x items, bool, with sorted columns.

    >>> item, user = np.array([0, 1, 2, 0, 1], np.int32), np.array([0, 0, 0, 1, 1])
    >>> some = Events(item, user, user, None, np.zeros(5, bool), 3)
    >>> pairs_of_many(some, 2, both=False).toarray().tolist()
    [[False, True, False], [False, False, False], [False, False, False]]
    """
    starts, places = by_item(events.item, events.n_items)
    own = (events.item, events.session, events.user, events.tied)
    rows, columns = _pairs_of_many(*own, fewest, gaps, starts, places, both)
    return _csr((rows, columns, np.ones(len(columns), np.bool_)))


def only_pairs(matrix: Any, pairs: Any) -> Any:
    """Return only the entries where ``pairs``, a CSR array of booleans, is True.

    >>> only_pairs(sparse.csr_array([[1.0, 3.0]]), sparse.csr_array([[False, True]])).toarray().tolist()
    [[0.0, 3.0]]
    """
    kept = sparse.csr_array(matrix.multiply(pairs).astype(matrix.dtype))
    kept.sort_indices()
    return _csr(arrays_of(kept), matrix.shape)


def keep_largest(matrix: Any, n: int) -> Any:
    """Return the n entries of each row with the largest absolute values; the first among equal ones.

    >>> keep_largest(sparse.csr_array([[1.0, -3.0, 2.0], [0.0, 5.0, 0.0]]), 2).toarray().tolist()
    [[0.0, -3.0, 2.0], [0.0, 5.0, 0.0]]
    """
    return _csr(_keep_largest(*arrays_of(matrix), n), matrix.shape)


def row_sums(matrix: Any) -> Floats:
    """Return the sum of each row, added up in double precision."""
    starts, _, values = arrays_of(matrix)
    sums: Floats = _row_sums(starts, values)
    return sums


def two_steps(followers: Any, totals: Floats, smoothing: float, n: int) -> tuple[Any, Floats]:
    """Return the probabilities of two steps from each item: the n largest of each row, and the sums of all.

    A step from a to b has the probability followers[a, b] / (totals[a] + smoothing); the remainder goes nowhere.
    Walks that return to their start are left out.

    >>> followers = sparse.csr_array([[0, 3.0, 0], [0, 0, 1.0], [0, 0, 0]])
    >>> walk, total = two_steps(followers, np.array([3.0, 1.0, 0.0]), 1.0, 2)
    >>> walk.toarray()[0].tolist(), total.tolist()
    ([0.0, 0.0, 0.375], [0.375, 0.0, 0.0])
    """
    starts, items, values = arrays_of(followers)
    rates = values / np.repeat(totals + smoothing, np.diff(starts))
    *arrays, total = _two_steps(starts, items, rates, n)
    return _csr(tuple(arrays)), total


def popularity_share(events: Events, half_life: float | None) -> Floats:
    """Return the decayed share of each item in the clicks, with half a click of a typical hour added to each item.

    So an item that was never clicked has a small share too, which depends neither on the number of items nor on the
    current traffic. The shares sum to a little more than 1.

    >>> popularity_share(Events(np.array([0, 1, 0, 0]), None, None, None, None, 3), None).tolist()
    [0.875, 0.375, 0.125]
    """
    counts = decayed_counts(events, half_life)
    volume = float(len(events.item))
    if half_life is not None and events.age is not None and volume:
        # What the sum of the decayed counts is on average over the log.
        hours = max(float(events.age.max() - events.age.min()), half_life)
        volume *= min(half_life / (np.log(2) * hours), 1.0)
    shares: Floats = counts / max(counts.sum(), 1e-300) + FLOOR / max(volume, 1.0)
    return shares


def arrays_of(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]]:
    """Return row starts, columns and values of a CSR array, in the types of the compiled kernels."""
    return matrix.indptr.astype(np.int64, copy=False), matrix.indices.astype(np.int32, copy=False), matrix.data


def _csr(arrays: Any, shape: tuple[int, int] | None = None) -> Any:
    starts, items, values = arrays
    n = len(starts) - 1
    matrix: Any = sparse.csr_array((values, items, starts), shape=shape or (n, n))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix


def newest_first(age: Floats) -> NDArray[np.int64]:
    """Return the places of the clicks sorted by age in microseconds; among equal ages the later place first.

    >>> newest_first(np.array([2.0, 0.5, 2.0])).tolist()
    [1, 2, 0]
    """
    keys = np.rint(age * HOUR).astype(np.int64)
    order: NDArray[np.int64] = _newest_first(keys - keys.min()) if len(keys) else np.zeros(0, np.int64)
    return order


@numba.njit(cache=True, nogil=True)
def _newest_first(keys):
    """Radix sort: by counting, digit by digit, the lowest first."""
    n = keys.size
    order, other = np.arange(n)[::-1].copy(), np.empty(n, np.int64)
    largest, shift = keys.max(), 0
    while largest >> shift > 0:
        counts = np.zeros((1 << DIGIT) + 1, np.int64)
        for i in range(n):
            counts[((keys[i] >> shift) & ((1 << DIGIT) - 1)) + 1] += 1
        for d in range(1 << DIGIT):
            counts[d + 1] += counts[d]
        for i in range(n):
            d = (keys[order[i]] >> shift) & ((1 << DIGIT) - 1)
            other[counts[d]] = order[i]
            counts[d] += 1
        order, other = other, order
        shift += DIGIT
    return order


@numba.njit(cache=True, nogil=True)
def by_item(item, n_items):
    """Return the places of each item's clicks, places[starts[a] : starts[a + 1]], by counting."""
    starts = np.zeros(n_items + 1, np.int64)
    for i in range(item.size):
        starts[item[i] + 1] += 1
    for a in range(n_items):
        starts[a + 1] += starts[a]
    places, free = np.empty(item.size, np.int64), starts[:-1].copy()
    for i in range(item.size):
        places[free[item[i]]] = i
        free[item[i]] += 1
    return starts, places


@numba.njit(cache=True, nogil=True)
def _occurrence_weights(item, newest, n_items, memory):
    """Return .5 ** (later occurrences of the same item / memory) for each click."""
    weights, next_weight, factor = np.empty(item.size), np.ones(n_items), 0.5 ** (1.0 / memory)
    for i in newest:
        weights[i] = next_weight[item[i]]
        next_weight[item[i]] *= factor
    return weights


@numba.njit(cache=True, nogil=True)
def _pairs(item, session, tied, weights, gaps, starts, places, both, fading):
    """Return the pairs of `directed_pairs` (with ``both``: `recent_pairs`): row starts, columns and values."""
    n = starts.size - 1
    room, most = 0, gaps * (2 if both else 1)
    for a in range(n):
        room += min((starts[a + 1] - starts[a]) * most, n - 1)
    columns, values, rows = np.empty(room, np.int32), np.empty(room, np.float32), np.zeros(n + 1, np.int64)
    total, row = np.zeros(n), np.full(n, -1, np.int32)
    m = 0
    for a in range(n):
        first = m
        for place in places[starts[a] : starts[a + 1]]:
            for step in range(1, -2 if both else 0, -2):  # forwards, and with ``both`` backwards
                same = True
                for gap in range(1, gaps + 1):
                    other = place + step * gap
                    if other < 0 or other >= item.size or session[other] != session[place]:
                        break
                    same = same and tied[max(other, other - step)]
                    b = item[other]
                    if same or b == a:
                        continue
                    if row[b] != a:
                        row[b], total[b], columns[m] = a, 0.0, b
                        m += 1
                    if both:
                        total[b] += weights[place]
                    else:
                        total[b] += weights[other] / gap if fading else weights[other]
        columns[first:m].sort()
        last = m
        m = first
        for e in range(first, last):
            value = np.float32(total[columns[e]])
            if value > 0:  # a weight that has decayed to nothing leaves no entry
                columns[m], values[m] = columns[e], value
                m += 1
        rows[a + 1] = m
    return rows, columns[:m].copy(), values[:m].copy()


@numba.njit(cache=True, nogil=True)
def _pairs_of_many(item, session, user, tied, fewest, gaps, starts, places, both):
    """Return the pairs of `_pairs` that at least ``fewest`` users have: row starts and columns."""
    n = starts.size - 1
    users, last, found = np.zeros(n, np.int64), np.full(n, -1, np.int64), np.empty(n, np.int32)
    rows, columns, m = np.zeros(n + 1, np.int64), np.empty(1024, np.int32), 0
    for a in range(n):
        n_found = 0
        for place in places[starts[a] : starts[a + 1]]:  # in the order of users
            for step in range(1, -2 if both else 0, -2):
                same = True
                for gap in range(1, gaps + 1):
                    other = place + step * gap
                    if other < 0 or other >= item.size or session[other] != session[place]:
                        break
                    same = same and tied[max(other, other - step)]
                    b = item[other]
                    if same or b == a:
                        continue
                    if last[b] == -1:
                        found[n_found] = b
                        n_found += 1
                    if last[b] != user[place]:
                        last[b] = user[place]
                        users[b] += 1
        found[:n_found].sort()
        if m + n_found > columns.size:
            more = np.empty(2 * columns.size + n_found, np.int32)
            more[:m] = columns[:m]
            columns = more
        for b in found[:n_found]:
            if users[b] >= fewest:
                columns[m] = b
                m += 1
            users[b], last[b] = 0, -1
        rows[a + 1] = m
    return rows, columns[:m].copy()


@numba.njit(cache=True, nogil=True)
def nth_smallest(values, n):
    """Return the value that n others come before in ascending order (Hoare's selection); values are moved.

    `np.partition` does the same, but compiling it takes seconds.

    >>> nth_smallest(np.array([3.0, 1.0, 2.0, 2.0]), 2)
    2.0
    """
    low, high = 0, values.size - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


@numba.njit(cache=True, nogil=True)
def mark_largest(values, n, keep):
    """Mark the n largest absolute values; the first among equal ones."""
    if values.size <= n:
        keep[: values.size] = True
        return
    sizes = np.abs(values)
    least = nth_smallest(sizes.copy(), values.size - n)
    above = 0
    for e in range(values.size):
        above += sizes[e] > least
    equal = n - above
    for e in range(values.size):
        keep[e] = sizes[e] > least
        if sizes[e] == least and equal > 0:
            keep[e] = True
            equal -= 1


@numba.njit(cache=True, nogil=True)
def _keep_largest(starts, columns, values, n):
    """Return the n largest |values| of each row as row starts, columns and values."""
    rows, room, longest = np.zeros_like(starts), 0, 0
    for a in range(starts.size - 1):
        length = starts[a + 1] - starts[a]
        room += min(length, n)
        longest = max(longest, length)
    kept_columns, kept_values = np.empty(room, columns.dtype), np.empty(room, values.dtype)
    keep, m = np.empty(longest, np.bool_), 0
    for a in range(starts.size - 1):
        first, last = starts[a], starts[a + 1]
        mark_largest(values[first:last], n, keep)
        for e in range(first, last):
            if keep[e - first]:
                kept_columns[m], kept_values[m] = columns[e], values[e]
                m += 1
        rows[a + 1] = m
    return rows, kept_columns, kept_values


@numba.njit(cache=True, nogil=True)
def _row_sums(starts, values):
    sums = np.zeros(starts.size - 1)
    for a in range(sums.size):
        for e in range(starts[a], starts[a + 1]):
            sums[a] += values[e]
    return sums


@numba.njit(cache=True, nogil=True)
def _two_steps(starts, columns, rates, n):
    """Return the n largest entries of each row of the square of ``rates`` off the diagonal, and the rows' sums."""
    n_items = starts.size - 1
    total, row, sums = np.zeros(n_items), np.full(n_items, -1, np.int32), np.zeros(n_items)
    found, found_values = np.empty(n_items, np.int32), np.empty(n_items, np.float32)
    keep, rows, m = np.empty(n_items, np.bool_), np.zeros(n_items + 1, np.int64), 0
    kept_columns, kept_values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    for a in range(n_items):
        count = 0
        for e in range(starts[a], starts[a + 1]):
            middle, rate = columns[e], rates[e]
            for f in range(starts[middle], starts[middle + 1]):
                b = columns[f]
                if b == a:
                    continue
                if row[b] != a:
                    row[b], total[b], found[count] = a, 0.0, b
                    count += 1
                total[b] += rate * rates[f]
        found[:count].sort()
        for e in range(count):
            found_values[e] = total[found[e]]
            sums[a] += found_values[e]
        mark_largest(found_values[:count], n, keep)
        if m + min(count, n) > kept_columns.size:
            bigger = max(2 * kept_columns.size, m + n)
            more_columns, more_values = np.empty(bigger, np.int32), np.empty(bigger, np.float32)
            more_columns[:m], more_values[:m] = kept_columns[:m], kept_values[:m]
            kept_columns, kept_values = more_columns, more_values
        for e in range(count):
            if keep[e]:
                kept_columns[m], kept_values[m] = found[e], found_values[e]
                m += 1
        rows[a + 1] = m
    return rows, kept_columns[:m].copy(), kept_values[:m].copy(), sums
