"""SessionKNN: recommend what is in the recent sessions most like the running one."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
from bmcd.baselines.counting import Events, arrays_of, decayed_counts, events_of, mark_largest, newest_first
from bmcd.baselines.ordered import OrderedBaseline, hours
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats, check_count, check_number

# Bounds on the work of a query: the latest distinct items of the running session that count, and those of a session
# of the log that are kept.
MOST_ASKED = 16
MOST_KEPT = 50


class SessionKNN(OrderedBaseline):
    """Neighbours among recent sessions (VSKNN; Ludewig and Jannach, 2018).

    Of the sessions that share an item with the running one, the latest ``candidates`` are compared with it. The
    similarity is a cosine: the sum of the weights of the shared items, by the square root of the number of items of
    the session, times its recency. The weight of an item of the running session is ``decay`` to the number of
    distinct items clicked after it. The score of an item is the sum of the similarities of the nearest
    ``neighbours`` that have it.

    The latest 16 items of the running session count, and the latest 50 of any other. Sessions of a single item are
    left out. Items without a score, and all items after an empty session, are ranked by recent popularity: their
    clicks, decayed by ``half_life``.

    Parameters
    ----------
    neighbours
        How many of the most similar sessions count.
    candidates
        How many sessions are compared with the running one.
    decay
        The weight of each item of the running session, compared with the one clicked after it.
    half_life
        With a clock, the age at which the recency of a session is half; None for 1 at all ages. Without a clock
        the recency rises from 0.5 to 1 over the log.

    Attributes
    ----------
    sessions_ : the items of each session, the oldest session first (CSR, sessions x items)
    sessions_of_ : the latest ``candidates`` sessions of each item, the oldest first (CSR, items x sessions)
    weights_ : for each session, its recency by the square root of its number of items

    Examples
    --------
    >>> import pandas as pd
    >>> from bmcd import Clicks
    >>> frame = pd.DataFrame({"user": [1, 1, 2, 2, 3, 4], "item": list("abcdee")})
    >>> model = SessionKNN().fit(Clicks.from_frame(frame, order="rows"))
    >>> model.recommend_for([["a"], ["a", "c"]], k=1)["item"].tolist()
    ['b', 'd']
    """

    sessions_: Any
    sessions_of_: Any
    weights_: Floats
    _learned = ("sessions_", "sessions_of_", "weights_")

    def __init__(
        self,
        neighbours: int = 200,
        candidates: int = 1000,
        decay: float = 0.7,
        *,
        half_life: str | None = "12h",
    ) -> None:
        self.neighbours = neighbours
        self.candidates = candidates
        self.decay = decay
        self.half_life = half_life

    def _check_settings(self) -> None:
        check_count("neighbours", self.neighbours)
        check_count("candidates", self.candidates)
        check_number("decay", self.decay, high=1)
        hours(self.half_life, "half_life")

    def _prepare(self, clicks: Clicks) -> None:
        super()._prepare(clicks)
        if clicks.order is not None:
            recent = decayed_counts(events_of(clicks), hours(self.half_life, "half_life"))
            self._tie_order = np.lexsort((self._item_order, -self._popularity, -recent))

    def count(self, events: Events) -> Self:
        """Set everything that is learned from events alone, and return self."""
        self._check_settings()
        n = len(events.item)
        begins = np.flatnonzero(np.diff(events.session, prepend=-1))
        starts = np.concatenate((begins, [n])).astype(np.int64)
        age = None if events.age is None else events.age[starts[1:] - 1]
        oldest_first = np.arange(len(begins)) if age is None else newest_first(age)[::-1].copy()
        rows, items, kept = session_items(events.item, starts, oldest_first, events.n_items, MOST_KEPT)
        columns, latest = latest_sessions(rows, items, events.n_items, self.candidates)
        used = np.zeros(len(kept), np.bool_)
        used[latest] = True
        if age is not None and not used.all():  # no item finds the others (without a clock their number matters)
            number = np.cumsum(used) - 1
            lengths = np.diff(rows)
            rows = np.concatenate(([0], np.cumsum(lengths[used]))).astype(np.int64)
            items, kept, latest = items[np.repeat(used, lengths)], kept[used], number[latest].astype(np.int32)
        n_kept, half_life = len(kept), hours(self.half_life, "half_life")
        if age is None:
            recency = 0.5 + 0.5 * np.arange(1, n_kept + 1) / max(n_kept, 1)
        else:
            recency = np.ones(n_kept) if half_life is None else 0.5 ** (age[kept] / half_life)
        self.weights_ = recency / np.sqrt(np.diff(rows))
        ones = (np.ones(len(items), np.bool_), np.ones(len(latest), np.bool_))
        self.sessions_ = sparse.csr_array((ones[0], items, rows), shape=(n_kept, events.n_items))
        self.sessions_of_ = sparse.csr_array((ones[1], latest, columns), shape=(events.n_items, n_kept))
        return self

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        n_sessions = arrays["weights_"].size
        shapes = {"sessions_": (n_sessions, clicks.n_items), "sessions_of_": (clicks.n_items, n_sessions)}
        return {**shapes, "weights_": (n_sessions,)}

    def packed_without_users(self, fewest: int) -> dict[str, NDArray[Any]]:
        """Refuse to be saved without clicks: what it has learned are sessions."""
        raise self._needs_everybody()

    def arrays(self) -> tuple[Any, ...]:
        """Return what `session_scores` takes after the history and the slots."""
        of, latest, _ = arrays_of(self.sessions_of_)
        rows, items, _ = arrays_of(self.sessions_)
        return of, latest, rows, items, self.weights_, self.neighbours, self.candidates, float(self.decay)

    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        scores = np.zeros((len(starts) - 1, self.sessions_.shape[1]))
        score_sessions(starts, items, scores, *self.arrays())
        return scores


@numba.njit(cache=True, nogil=True)
def session_items(item, starts, oldest_first, n_items, most):
    """Return the distinct items of each session of two or more, as starts and items, and which sessions these are.

    Sessions are in the order given; of each, the latest ``most`` distinct items are kept, the latest first.
    """
    rows, items = np.zeros(starts.size, np.int64), np.empty(item.size, np.int32)
    kept, row, n, m = np.empty(starts.size, np.int64), np.full(n_items, -1, np.int64), 0, 0
    for s in oldest_first:
        first = m
        for place in range(starts[s + 1] - 1, starts[s] - 1, -1):
            if row[item[place]] != s and m - first < most:
                row[item[place]], items[m] = s, item[place]
                m += 1
        if m - first < 2:
            m = first
            continue
        kept[n] = s
        n += 1
        rows[n] = m
    return rows[: n + 1].copy(), items[:m].copy(), kept[:n].copy()


@numba.njit(cache=True, nogil=True)
def latest_sessions(rows, items, n_items, most):
    """Return the last ``most`` sessions of each item, as starts and sessions in ascending order."""
    counts = np.zeros(n_items, np.int64)
    for e in range(items.size):
        counts[items[e]] += 1
    starts = np.zeros(n_items + 1, np.int64)
    for a in range(n_items):
        starts[a + 1] = starts[a] + min(counts[a], most)
    latest, free = np.empty(starts[-1], np.int32), starts[1:].copy()
    for s in range(rows.size - 2, -1, -1):
        for e in range(rows[s], rows[s + 1]):
            a = items[e]
            if free[a] > starts[a]:
                free[a] -= 1
                latest[free[a]] = s
    return starts, latest


@numba.njit(cache=True, nogil=True)
def session_scores(history, slot, of, latest, rows, items, weights, neighbours, candidates, decay):
    """Return the items of the nearest sessions and their scores, for a running session whose last click is last.

    Items of the running session are among them. ``slot`` is an array of -1, one for each item, and is so again
    afterwards. The other arguments are those of `SessionKNN.arrays`.
    """
    asked, weight, n_asked, now = np.empty(MOST_ASKED, np.int32), np.empty(MOST_ASKED), 0, 1.0
    head = np.empty(MOST_ASKED, np.int64)
    for place in range(history.size - 1, -1, -1):
        a = history[place]
        if slot[a] == -1:
            slot[a] = 0
            asked[n_asked], weight[n_asked], head[n_asked] = a, now, of[a + 1] - 1
            n_asked += 1
            now *= decay
            if n_asked == MOST_ASKED or now == 0.0:
                break
    for i in range(n_asked):
        slot[asked[i]] = -1
    # The lists of the asked items are merged from their ends, so that the latest sessions come first.
    found, similarity, n_found = np.empty(candidates, np.int32), np.empty(candidates), 0
    while n_found < candidates:
        s = -1
        for i in range(n_asked):
            if head[i] >= of[asked[i]]:
                s = max(s, latest[head[i]])
        if s == -1:
            break
        together = 0.0
        for i in range(n_asked):
            if head[i] >= of[asked[i]] and latest[head[i]] == s:
                together += weight[i]
                head[i] -= 1
        found[n_found], similarity[n_found] = s, together * weights[s]
        n_found += 1
    keep = np.empty(n_found, np.bool_)
    mark_largest(similarity[:n_found], neighbours, keep)
    room = 0
    for i in range(n_found):
        if keep[i]:
            room += rows[found[i] + 1] - rows[found[i]]
    columns, scores, m = np.empty(room, np.int32), np.zeros(room), 0
    for i in range(n_found):
        if keep[i]:
            for e in range(rows[found[i]], rows[found[i] + 1]):
                j = items[e]
                if slot[j] == -1:
                    slot[j], columns[m] = m, j
                    m += 1
                scores[slot[j]] += similarity[i]
    for i in range(m):
        slot[columns[i]] = -1
    return columns[:m], scores[:m]


@numba.njit(cache=True, nogil=True)
def score_sessions(starts, histories, scores, of, latest, rows, items, weights, neighbours, candidates, decay):
    """Add the scores of `session_scores` to those of each session, [session, item]."""
    slot = np.full(scores.shape[1], -1, np.int32)
    for h in range(starts.size - 1):
        history = histories[starts[h] : starts[h + 1]]
        near = session_scores(history, slot, of, latest, rows, items, weights, neighbours, candidates, decay)
        for e in range(near[0].size):
            scores[h, near[0][e]] += near[1][e]
