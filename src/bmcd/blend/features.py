"""From members to features: what the counts say of a user's candidates, and nothing about all other items.

Dense features (`POPULARITY`) exist for every item: log shares of recent clicks. All others are 0 for an item that
the user's clicks do not touch, so a user costs as much as there are candidates: touched items and the most popular
ones (the head). The rest of the catalogue is held in cells of items that are equally popular.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from bmcd.baselines.counting import (
    Events,
    arrays_of,
    decay_weights,
    decayed_counts,
    directed_pairs,
    keep_largest,
    pairs_of_many,
    recent_pairs,
    row_sums,
    two_steps,
)
from bmcd.baselines.session_knn import SessionKNN, session_scores
from bmcd.inference.arrivals import log1p_of
from bmcd.utils import Floats, thread_count

Ints = NDArray[np.int64]

# A user's clicks that features look at: the latest of the running session, and the latest of all.
SESSION, RECENT = 20, 20
# How much less each earlier click counts: of the running session, and of all.
FADING, RECENT_FADING = 0.7, 0.5
# Clicks up to this number of clicks later in a session count as coming later, whatever the distance.
FAR = 20
# Clicks that are near each other in a session, and how many occurrences an item remembers.
NEAR, MEMORY = 5, 70.0
# Items that are always candidates, of each popularity; where there are fewer items than ALL, all of them.
HEAD, ALL = 150, 1000
# Followers and partners kept of each item (up to ALL items: all of them), and first steps of a walk.
KEPT, FIRST_STEPS = 100, 50
# Clicks by which shares are drawn towards popularity, in a log as large as those that weights are learnt with.
SMOOTHING = 10.0
# Levels below which a share counts as next to nothing.
LEVEL = 1e-3
# A cell holds items whose log popularities lie within this, at every half-life.
CELL = 1.0
# A click on an item never seen lately: a floor of popularity, in clicks of a typical half-life.
FLOOR, SHARE_FLOOR = 0.3, 0.5

MEMBERS = ("Trending", "Transitions", "RecentCooccurrence", "SessionKNN", "EASE")
# Features that are 0 for untouched items: name, member.
TOUCHED = (
    ("follows the last click", "Transitions"),
    ("follows the last click, squared", "Transitions"),
    ("follows recent clicks", "Transitions"),
    ("follows recent clicks, share", "Transitions"),
    ("two steps from the last click", "Transitions"),
    ("two steps from the last click, share", "Transitions"),
    ("comes later than recent clicks", "Transitions"),
    ("goes with recent clicks", "RecentCooccurrence"),
    ("goes with recent clicks, squared", "RecentCooccurrence"),
    ("goes with recent clicks, share", "RecentCooccurrence"),
    ("similar sessions", "SessionKNN"),
    ("similar sessions, root", "SessionKNN"),
    ("goes with the session", "EASE"),
    ("goes with all clicks", "EASE"),
    ("clicked before", "repeats"),
    ("is the last click", "repeats"),
    ("how recently clicked", "repeats"),
)
N_TOUCHED = len(TOUCHED)


# The sparse tables, by their names in `Tables`.
COUNTS = ("follows", "follows_recent", "two_steps", "later", "goes_with", "ease")


class Settings(NamedTuple):
    """What does not depend on the clicks up to a cut."""

    members: tuple[str, ...]
    half_lives: tuple[float, ...]
    """In hours, the shortest first; empty without a clock."""
    window: float
    """Hours of clicks that pairs are counted in."""
    fading: float
    """Half-life in hours of what follows what."""
    ordered: bool
    repeats: bool
    regularization: float
    most_clicked: int
    """Items that EASE covers."""
    recent: float
    """Without a clock: the half-life of recent popularity, as a share of the clicks."""
    head: int = HEAD
    volume: float = 0.0
    """Clicks that members had where the weights were learnt; 0: unknown. With more clicks, smoothing and
    regularisation grow by the square root: otherwise features would be larger than those the weights were learnt
    for, but hits are not."""


class Csr(NamedTuple):
    """A sparse matrix as kernels read it, with the sum of each row before it was cut to the largest entries."""

    start: Ints
    item: NDArray[np.int32]
    value: NDArray[np.float32]
    total: NDArray[np.float32]


class Tables(NamedTuple):
    """What members have counted up to a cut."""

    popularity: NDArray[np.float32]  # [item, dense feature]
    share: NDArray[np.float32]  # [item]
    known: NDArray[np.bool_]  # whether an item is modelled
    head: NDArray[np.int32]
    cell: NDArray[np.int32]  # of each item; -1 for the head
    n_cell: NDArray[np.float32]
    cells: NDArray[np.float32]  # [cell, dense feature]
    follows: Csr
    follows_recent: Csr
    two_steps: Csr
    later: Csr
    goes_with: Csr
    ease: Csr
    sessions: Any  # of SessionKNN, or None
    outside: float  # log share of recent clicks on items that were new
    n_plain: int  # dense features that are not squares
    smoothing: float  # clicks by which shares are drawn towards popularity

    @property
    def n_items(self) -> int:
        """The number of items of the log."""
        return len(self.share)

    @property
    def n_dense(self) -> int:
        """The number of features that every item has."""
        return int(self.popularity.shape[1])


def dense_names(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return name and member of the dense features."""
    if "Trending" not in settings.members:
        return ()
    if not settings.half_lives:
        names = ("popularity", "recent popularity") if settings.ordered else ("popularity",)
        return tuple((name, "Trending") for name in names)
    lives = [f"popularity, half-life {_hours(h)}" for h in settings.half_lives]
    return tuple((name, "Trending") for name in [*lives, *(f"{name}, squared" for name in lives[:2])])


def _hours(hours: float) -> str:
    if hours < 1:
        return f"{hours * 60:g} min"
    return f"{hours:g} h" if hours < 48 else f"{hours / 24:g} d"


def _empty(n: int) -> Csr:
    return Csr(np.zeros(n + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(n, np.float32))


def without_counts(tables: Tables) -> Tables:
    """Return tables in which nothing follows or goes together with anything."""
    none: dict[str, Any] = dict.fromkeys(COUNTS, _empty(tables.n_items))
    return tables._replace(**none, sessions=None)


def _csr(matrix: Any, total: NDArray[Any]) -> Csr:
    start, item, value = arrays_of(matrix)
    return Csr(start, item, value.astype(np.float32), total.astype(np.float32))


class EventCounts:
    """What members count of the clicks before a cut, counted here; `bmcd.spark` counts the same elsewhere."""

    def __init__(self, events: Events) -> None:
        self.events, self.n_items = events, events.n_items

    def seen(self) -> NDArray[np.bool_]:
        """Return which items were clicked."""
        return np.bincount(self.events.item, minlength=self.n_items) > 0

    def volume(self, settings: Settings) -> float:
        """Return the number of clicks that popularity is counted in."""
        recent = self.events.within(longest_memory(settings)) if settings.half_lives else self.events
        return float(len(recent.item))

    def popularity(self, settings: Settings) -> tuple[list[Floats], list[float]]:
        """Return the counts of each popularity, and how many clicks are typical of each."""
        n_clicks = max(len(self.events.item), 1)
        if settings.half_lives:
            longest = longest_memory(settings)
            recent = self.events.within(longest)
            oldest = float(recent.age.max(initial=0.0)) if recent.age is not None else 0.0
            counts = [decayed_counts(recent, half) for half in settings.half_lives]
            return counts, typical_volumes(settings, len(recent.item), oldest)
        counts = [np.bincount(self.events.item, minlength=self.n_items).astype(np.float64)]
        volumes = [float(n_clicks)]
        if settings.ordered:
            age = np.arange(len(self.events.item))[::-1] / (settings.recent * n_clicks)
            counts.append(np.bincount(self.events.item, 0.5**age, self.n_items).astype(np.float64))
            volumes.append(settings.recent * n_clicks / math.log(2))
        return counts, volumes

    def following(self, settings: Settings, gaps: int, *, fading: bool = True) -> tuple[Any, Floats]:
        """Return what follows what within ``gaps`` clicks: the largest counts of a row, and the sums of all.

        With ``fading`` clicks further apart count less.
        """
        inside = self.events.within(settings.window)
        found = directed_pairs(inside, decay_weights(inside, settings.fading), gaps, fading=fading)
        return keep_largest(found, kept_of(self.n_items)), row_sums(found)

    def together(self, settings: Settings) -> tuple[Any, Floats]:
        """Return what lately occurred together, in the same form."""
        found = recent_pairs(self.events.within(settings.window), MEMORY, NEAR)
        return keep_largest(found, kept_of(self.n_items)), row_sums(found)

    def sessions(self, settings: Settings) -> Any:
        """Return the arrays of SessionKNN."""
        return SessionKNN(half_life=None).count(self.events.within(settings.window)).arrays()

    def gram(self, settings: Settings) -> tuple[Ints, Floats]:
        """Return the most clicked items, and the number of sessions that have each two of them."""
        events = self.events.within(settings.window)
        n = events.n_items
        counts = np.bincount(events.item, decay_weights(events, settings.fading), n).astype(np.float64)
        top = most_counted(counts, settings.most_clicked)
        column = np.full(n, -1, np.int64)
        column[top] = np.arange(len(top))
        chosen = column[events.item] >= 0
        session = np.unique(events.session[chosen], return_inverse=True)[1]
        shape = (int(session.max(initial=-1)) + 1, len(top))
        clicked: Any = sparse.coo_array(
            (np.ones(len(session)), (session, column[events.item[chosen]])), shape=shape
        ).tocsr()
        clicked.data[:] = 1.0
        return top, (clicked.T @ clicked).toarray()


def kept_of(n_items: int) -> int:
    """Return how many followers and partners of each item are kept."""
    return KEPT if n_items > ALL else ALL


def longest_memory(settings: Settings) -> float:
    """Return the hours of clicks that popularity is counted in."""
    return max(settings.window, 6 * settings.half_lives[-1])


def typical_volumes(settings: Settings, n_recent: int, oldest: float) -> list[float]:
    """Return the number of clicks typical of each half-life, from the number of recent clicks and their age."""
    hours = max(min(longest_memory(settings), oldest), settings.half_lives[0])
    per_hour = max(n_recent, 1) / hours
    return [per_hour * half / math.log(2) for half in settings.half_lives]


def most_counted(counts: Floats, n: int) -> Ints:
    """Return the n items with the largest counts, of those that have any; of equal ones the first."""
    top = np.argsort(-counts, kind="stable")[:n]
    return np.sort(top[counts[top] > 0])


def count(source: Any, settings: Settings, outside_share: float, asked_of: Ints | None = None) -> Tables:
    """Count everything the members need; ``source`` is `EventCounts`, or what counts the same elsewhere.

    ``asked_of`` are the items that members are asked for which score densely; they are candidates for everybody.
    """
    n = source.n_items
    counts, volumes = source.popularity(settings)
    popularity, share, n_plain = _popularity(counts, volumes, settings)
    known = source.seen()
    if "Trending" in settings.members:
        head = _head(popularity[:, :n_plain], known, settings.head)
        if asked_of is not None:
            head = np.union1d(head, asked_of[known[asked_of]]).astype(np.int32)
    else:  # nothing is known of items that the models are not asked for: they are outside
        popularity = popularity[:, :0]
        assert asked_of is not None
        known = np.isin(np.arange(n), asked_of)
        head, n_plain = np.sort(asked_of).astype(np.int32), 0
    cell, n_cell, cells = _cells(popularity, known, head, n_plain)
    on, none = settings.members, _empty(n)
    growth = math.sqrt(source.volume(settings) / settings.volume) if settings.volume else 1.0
    smoothing = SMOOTHING * growth
    follows = follows_recent = walk = later = goes_with = ease = none
    if "Transitions" in on:
        one, total = source.following(settings, 1)
        follows = _csr(one, total)
        follows_recent = _csr(*source.following(settings, NEAR))
        walk = _walk_of(one, total, n, smoothing)
        later = _csr(*source.following(settings, FAR, fading=False))
    if "RecentCooccurrence" in on:
        goes_with = _csr(*source.together(settings))
    if "EASE" in on:
        top, gram = source.gram(settings)
        ease = ease_of(top, gram, settings.regularization * growth, n)
    sessions = source.sessions(settings) if "SessionKNN" in on else None
    outside = math.log(max(outside_share, 1e-4))
    return Tables(
        popularity, share, known, head, cell, n_cell, cells, follows, follows_recent, walk, later, goes_with, ease,
        sessions, outside, n_plain, smoothing,
    )  # fmt: skip


def _popularity(
    counts: list[Floats], volumes: list[float], settings: Settings
) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """Return the dense features, the share that lifts refer to, and how many features are not squares."""
    smooth = min(2, len(counts) - 1) if settings.half_lives else 0
    logs = [np.log(c / max(c.sum(), 1e-300) + FLOOR / max(v, 1.0)) for c, v in zip(counts, volumes, strict=True)]
    share = counts[smooth] / max(counts[smooth].sum(), 1e-300) + SHARE_FLOOR / max(volumes[smooth], 1.0)
    n_plain = len(logs)
    if settings.half_lives:
        logs += [(log + 8.0) ** 2 / 4.0 for log in logs[:2]]
    return np.stack(logs, axis=1).astype(np.float32), share.astype(np.float32), n_plain


def head_of(tables: Tables, size: int, among: NDArray[np.bool_] | None = None) -> NDArray[np.int32]:
    """Return a larger head: that many items of each popularity (among some), or all modelled if they are few."""
    if not tables.n_dense:
        return tables.head
    known = tables.known if among is None else tables.known & among
    return np.union1d(tables.head, _head(tables.popularity[:, : tables.n_plain], known, size)).astype(np.int32)


def _head(plain: NDArray[np.float32], known: NDArray[np.bool_], size: int) -> NDArray[np.int32]:
    """Return the items that are candidates for everybody."""
    items = np.flatnonzero(known)
    if len(items) <= max(ALL, size):
        return items.astype(np.int32)
    best = [items[np.argsort(-plain[items, h], kind="stable")[:size]] for h in range(plain.shape[1])]
    return np.unique(np.concatenate(best)).astype(np.int32)


def _cells(
    popularity: NDArray[np.float32], known: NDArray[np.bool_], head: NDArray[np.int32], n_plain: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Return the cell of each item outside the head, the number of items in each, and their mean features."""
    cell = np.full(len(popularity), -1, np.int32)
    rest = known.copy()
    rest[head] = False
    items = np.flatnonzero(rest)
    if not len(items):
        return cell, np.zeros(0, np.float32), np.zeros((0, popularity.shape[1]), np.float32)
    keys = np.round(popularity[items, :n_plain] / CELL).astype(np.int64)
    keys -= keys.min(axis=0)
    code = np.zeros(len(items), np.int64)
    for column in range(keys.shape[1]):
        code = code * (int(keys[:, column].max()) + 1) + keys[:, column]
    _, number = np.unique(code, return_inverse=True)
    cell[items] = number
    n_cell = np.bincount(number)
    means = [np.bincount(number, popularity[items, f]) / n_cell for f in range(popularity.shape[1])]
    return cell, n_cell.astype(np.float32), np.stack(means, axis=1).astype(np.float32)


def ease_of(top: Ints, gram: Floats, regularization: float, n: int) -> Csr:
    """Return the largest weights of EASE on the most clicked items, from how often pairs were clicked together."""
    from scipy import linalg

    gram = np.array(gram, order="F")
    gram[np.diag_indices_from(gram)] += regularization
    with threadpool_limits(1):  # the number of threads would change the last bits
        upper = linalg.lapack.dpotri(linalg.lapack.dpotrf(gram, overwrite_a=1)[0], overwrite_c=1)[0]
    weights = _weights_of(upper)
    m = len(top)
    every: Any = sparse.csr_array(
        (weights.ravel(), np.tile(np.arange(m, dtype=np.int32), m), np.arange(0, m * m + 1, m)), shape=(m, m)
    )
    start, item, value = arrays_of(keep_largest(every, KEPT if m > ALL else ALL))
    full = np.zeros(n + 1, np.int64)
    full[top + 1] = np.diff(start)
    return Csr(np.cumsum(full), top[item].astype(np.int32), value.astype(np.float32), np.zeros(n, np.float32))


@numba.njit(cache=True, nogil=True)
def _weights_of(upper):
    """Return -P[i, j] / P[j, j] off the diagonal, of the upper triangle of P."""
    n = upper.shape[0]
    out = np.zeros((n, n), np.float32)
    for j in range(n):
        for i in range(j):
            out[i, j] = -upper[i, j] / upper[j, j]
            out[j, i] = -upper[i, j] / upper[i, i]
    return out


def only(counts: Csr, pairs: Any) -> Csr:
    """Return only the entries of these pairs, a CSR array; totals are those of what is left."""
    n = len(counts.total)
    rows = np.repeat(np.arange(n), np.diff(counts.start))
    pair_rows = np.repeat(np.arange(n), np.diff(pairs.indptr))
    kept = np.isin(rows * n + counts.item, pair_rows * n + pairs.indices)
    start = np.concatenate(([0], np.cumsum(np.bincount(rows[kept], minlength=n)))).astype(np.int64)
    total = np.bincount(rows[kept], np.maximum(counts.value[kept], 0), n).astype(np.float32)
    return Csr(start, counts.item[kept], counts.value[kept], total)


def of_many_users(tables: Tables, events: Events, fewest: int) -> Tables:
    """Return only the counts of pairs of items that enough users have."""
    kept: dict[str, Any] = {}
    for name, gaps, both in (
        ("follows", 1, False), ("follows_recent", NEAR, False), ("later", FAR, False),
        ("goes_with", NEAR, True), ("ease", NEAR, True),
    ):  # fmt: skip
        kept[name] = only(getattr(tables, name), pairs_of_many(events, fewest, gaps, both=both))
    if len(tables.two_steps.item):
        follows, n = kept["follows"], tables.n_items
        steps: Any = sparse.csr_array((follows.value, follows.item, follows.start), shape=(n, n))
        kept["two_steps"] = _walk_of(steps, follows.total, n, tables.smoothing)
    return tables._replace(**kept)


def _walk_of(follows: Any, total: NDArray[Any], n_items: int, smoothing: float) -> Csr:
    """Return where two steps from each item lead."""
    return _csr(*two_steps(keep_largest(follows, FIRST_STEPS), total, smoothing, kept_of(n_items)))


# ---- the candidates of one user ----


@numba.njit(cache=True, nogil=True)
def most_candidates(items, histories, first, last, t, n_head):
    """Return the largest number of candidates that one of these users may have."""
    most = 0
    for e in range(first, last):
        seen, running, end = histories[e, 0], histories[e, 1], histories[e, 2]
        n = n_head + end - seen + 1
        used = 0
        for place in range(end - 1, running - 1, -1):  # as `candidates` does: unknown items do not count
            a = items[place]
            if a < 0 or not t.known[a]:
                continue
            n += t.follows_recent.start[a + 1] - t.follows_recent.start[a] + t.later.start[a + 1] - t.later.start[a]
            n += t.goes_with.start[a + 1] - t.goes_with.start[a] + t.ease.start[a + 1] - t.ease.start[a]
            n += t.follows.start[a + 1] - t.follows.start[a] + t.two_steps.start[a + 1] - t.two_steps.start[a]
            used += 1
            if used == SESSION:
                break
        used = 0
        for place in range(end - 1, seen - 1, -1):
            a = items[place]
            if a < 0 or not t.known[a]:
                continue
            n += t.ease.start[a + 1] - t.ease.start[a]
            used += 1
            if used == RECENT:
                break
        most = max(most, n)
    return most


@numba.njit(cache=True, nogil=True)
def _add(a, weight, csr, column, slot, found, x, m):
    """Add a weighted row of counts to the feature of each item it touches."""
    for e in range(csr.start[a], csr.start[a + 1]):
        j = csr.item[e]
        if slot[j] == -1:  # an item that is no candidate yet, and may be one; a function here would cost a lot
            slot[j] = m
            found[m] = j
            x[m] = 0.0
            m += 1
        r = slot[j]
        if r >= 0:
            x[r, column] += weight * csr.value[e]
    return m


@numba.njit(cache=True, nogil=True)
def _log1p(value):
    """Return log(1 + value); most values are 0."""
    return log1p_of(value) if value != 0.0 else 0.0


@numba.njit(cache=True, nogil=True)
def candidates(
    items, seen, running, end, t, head, smoothing, repeats, near_items, near_scores, n_near, place_of, extra, slot,
    found, x, mult,
):  # fmt: skip
    """Write the candidates of one user and their features; return how many there are.

    ``items[running:end]`` is the running session, ``items[seen:end]`` everything the user clicked. ``near_items``
    are what similar sessions contain; ``extra`` has the features of members that score densely, for the items with
    ``place_of`` >= 0. ``slot`` must be -1 throughout, and is so again in the end. ``mult`` gets the number of items
    of each cell that compete.
    """
    n_dense, n_extra = t.popularity.shape[1], extra.shape[1]
    first = n_dense
    m = 0
    if not repeats:
        for place in range(seen, end):
            if items[place] >= 0:
                slot[items[place]] = -2  # never a candidate
    for j in head:
        if slot[j] == -1:
            slot[j] = m
            found[m] = j
            x[m] = 0.0
            m += 1
    if repeats:
        for place in range(seen, end):
            j = items[place]
            if j >= 0 and t.known[j] and slot[j] == -1:
                slot[j] = m
                found[m] = j
                x[m] = 0.0
                m += 1
    last = -1
    for place in range(end - 1, running - 1, -1):
        if items[place] >= 0 and t.known[items[place]]:
            last = items[place]
            break
    if last >= 0:
        m = _add(last, 1.0 / smoothing, t.follows, first, slot, found, x, m)
        walked = min(t.two_steps.total[last], 0.9)
        m = _add(last, 1.0, t.two_steps, first + 4, slot, found, x, m)
        weight, after, much_after, with_all, n_used = 1.0, 0.0, 0.0, 0.0, 0
        for place in range(end - 1, running - 1, -1):
            a = items[place]
            if a < 0 or not t.known[a]:
                continue
            v = weight / (t.follows_recent.total[a] + smoothing)
            after += v
            m = _add(a, v, t.follows_recent, first + 2, slot, found, x, m)
            v = weight / (t.later.total[a] + smoothing)
            much_after += v
            m = _add(a, v, t.later, first + 6, slot, found, x, m)
            v = weight / (t.goes_with.total[a] + smoothing)
            with_all += v
            m = _add(a, v, t.goes_with, first + 7, slot, found, x, m)
            m = _add(a, 1.0, t.ease, first + 12, slot, found, x, m)
            weight *= FADING
            n_used += 1
            if n_used == SESSION:
                break
        for r in range(m):
            x[r, first + 3] = _log1p(x[r, first + 2] / LEVEL)
            x[r, first + 5] = _log1p(x[r, first + 4] / LEVEL)
            x[r, first + 9] = _log1p(x[r, first + 7] / LEVEL)
            x[r, first + 2] /= smoothing * after
            x[r, first + 4] /= 1.0 - walked
            x[r, first + 6] /= smoothing * much_after
            x[r, first + 7] /= smoothing * with_all
    for q in range(n_near):
        j = near_items[q]
        if slot[j] == -1:
            slot[j] = m
            found[m] = j
            x[m] = 0.0
            m += 1
        r = slot[j]
        if r >= 0:
            x[r, first + 10] = _log1p(near_scores[q] / (10.0 * LEVEL))
            x[r, first + 11] = math.sqrt(near_scores[q])
    weight, n_used = 1.0, 0
    for place in range(end - 1, seen - 1, -1):
        a = items[place]
        if a < 0 or not t.known[a]:
            continue
        m = _add(a, weight, t.ease, first + 13, slot, found, x, m)
        if repeats and slot[a] >= 0 and x[slot[a], first + 14] == 0.0:
            x[slot[a], first + 14] = 1.0
            x[slot[a], first + 15] = 1.0 if n_used == 0 else 0.0
            x[slot[a], first + 16] = 1.0 / (1.0 + n_used)
        weight *= RECENT_FADING
        n_used += 1
        if n_used == RECENT:
            break
    mult[:] = t.n_cell
    if not repeats:
        for place in range(seen, end):
            j = items[place]
            if j >= 0 and slot[j] == -2:
                if t.cell[j] >= 0:
                    mult[t.cell[j]] -= 1.0
                slot[j] = -1
    for r in range(m):
        j = found[r]
        slot[j] = -1
        if t.cell[j] >= 0:
            mult[t.cell[j]] -= 1.0
        for f in range(n_dense):
            x[r, f] = t.popularity[j, f]
        x[r, first] = _log1p(x[r, first] / t.share[j])
        x[r, first + 1] = x[r, first] * x[r, first] / 5.0
        for f in (first + 2, first + 4, first + 6, first + 7):
            x[r, f] = _log1p(x[r, f] / t.share[j])
        x[r, first + 8] = x[r, first + 7] * x[r, first + 7] / 5.0
        for f in (first + 12, first + 13):
            x[r, f] = math.copysign(math.sqrt(abs(x[r, f])), x[r, f])
        place = place_of[j] if n_extra else -1
        for f in range(n_extra):
            x[r, first + N_TOUCHED + f] = extra[place, f] if place >= 0 else 0.0
    return m


class Near(NamedTuple):
    """What the sessions similar to those of several users contain, one user after the other."""

    start: Ints
    item: NDArray[np.int32]
    value: NDArray[np.float32]


class Asked(NamedTuple):
    """Users whose candidates are wanted: clicks, and where the history of each begins and ends in them."""

    items: NDArray[np.int32]
    histories: Ints  # [user, 3]: start of all clicks, start of the running session, end
    near: Near
    place_of: Ints  # of each item among those that members score densely; -1 for others
    extra: NDArray[np.float32]  # [user, place, feature]


@numba.njit(cache=True, nogil=True)
def _near(items, histories, known, of, latest, rows, members, weights, neighbours, fewest, decay):
    slot = np.full(known.size, -1, np.int32)
    start = np.zeros(len(histories) + 1, np.int64)
    out_item, out_value = np.empty(4096, np.int32), np.empty(4096, np.float32)
    for e in range(len(histories)):
        running, end = histories[e, 1], histories[e, 2]
        history, n = np.empty(end - running, np.int32), 0
        for place in range(running, end):
            if items[place] >= 0 and known[items[place]]:
                history[n] = items[place]
                n += 1
        at = start[e]
        if n:
            found, value = session_scores(
                history[:n], slot, of, latest, rows, members, weights, neighbours, fewest, decay
            )
            if at + found.size > out_item.size:
                bigger = max(2 * out_item.size, at + found.size)
                more_item, more_value = np.empty(bigger, np.int32), np.empty(bigger, np.float32)
                more_item[:at], more_value[:at] = out_item[:at], out_value[:at]
                out_item, out_value = more_item, more_value
            for i in range(found.size):
                out_item[at + i], out_value[at + i] = found[i], value[i]
            at += found.size
        start[e + 1] = at
    return start, out_item[: start[-1]].copy(), out_value[: start[-1]].copy()


def near_of(tables: Tables, items: NDArray[np.int32], histories: Ints) -> Near:
    """Return what the sessions similar to each running session contain; nothing if SessionKNN is no member."""
    if tables.sessions is None:
        nothing = np.zeros(len(histories) + 1, np.int64)
        return Near(nothing, np.zeros(0, np.int32), np.zeros(0, np.float32))
    return Near(*_near(items, histories, tables.known, *tables.sessions))


class Rows(NamedTuple):
    """Candidates of several users, one user after the other."""

    item: NDArray[np.int32]
    x: NDArray[np.float32]
    start: Ints
    mult: NDArray[np.float32]  # items of each cell that compete, [user, cell]


@numba.njit(cache=True, nogil=True)
def _fill(asked, first, last, t, head, smoothing, repeats, columns, room):
    """Return candidates, the chosen features of each, where each user's begin, and cells, of some users."""
    width = t.popularity.shape[1] + N_TOUCHED + asked.extra.shape[2]
    slot = np.full(t.share.size, -1, np.int32)
    found, x = np.empty(room, np.int32), np.empty((room, width), np.float32)
    out_item, out_x = np.empty(room, np.int32), np.empty((room, columns.size), np.float32)
    start = np.zeros(last - first + 1, np.int64)
    mult = np.zeros((last - first, t.n_cell.size), np.float32)
    for e in range(first, last):
        low, high = asked.near.start[e], asked.near.start[e + 1]
        own = asked.histories[e]
        m = candidates(
            asked.items, own[0], own[1], own[2], t, head, smoothing, repeats, asked.near.item[low:high],
            asked.near.value[low:high], high - low, asked.place_of, asked.extra[e], slot, found, x, mult[e - first],
        )  # fmt: skip
        at = start[e - first]
        if at + m > out_item.size:
            bigger = max(2 * out_item.size, at + m)
            more_item, more_x = np.empty(bigger, np.int32), np.empty((bigger, columns.size), np.float32)
            more_item[:at], more_x[:at] = out_item[:at], out_x[:at]
            out_item, out_x = more_item, more_x
        for r in range(m):
            out_item[at + r] = found[r]
            for f in range(columns.size):
                out_x[at + r, f] = x[r, columns[f]]
        start[e - first + 1] = at + m
    return out_item[: start[-1]].copy(), out_x[: start[-1]].copy(), start, mult


def rows_of(asked: Asked, tables: Tables, settings: Settings, columns: Ints, n_threads: int | None = None) -> Rows:
    """Return the candidates of users with the features in these columns."""
    counted, n = counted_only(tables), len(asked.histories)
    pieces = [(a, min(a + PIECE, n)) for a in range(0, n, PIECE)]

    def piece(ends: tuple[int, int]) -> Any:
        room = most_candidates(asked.items, asked.histories, *ends, counted, len(tables.head))
        room += int(np.diff(asked.near.start)[ends[0] : ends[1]].max(initial=0))
        return _fill(asked, *ends, counted, tables.head, tables.smoothing, settings.repeats, columns, room)

    with ThreadPoolExecutor(thread_count(n_threads)) as pool:
        found = list(pool.map(piece, pieces))
    if not found:
        nothing = np.zeros((0, len(columns)), np.float32)
        cells = np.zeros((0, len(tables.n_cell)), np.float32)
        return Rows(np.zeros(0, np.int32), nothing, np.zeros(1, np.int64), cells)
    lengths = np.concatenate([np.diff(part[2]) for part in found])
    start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    item, x, mult = (np.concatenate([part[i] for part in found]) for i in (0, 1, 3))
    return Rows(item, x, start, mult)


class Counted(NamedTuple):
    """The part of `Tables` that kernels read."""

    popularity: NDArray[np.float32]
    share: NDArray[np.float32]
    known: NDArray[np.bool_]
    cell: NDArray[np.int32]
    n_cell: NDArray[np.float32]
    cells: NDArray[np.float32]
    follows: Csr
    follows_recent: Csr
    two_steps: Csr
    later: Csr
    goes_with: Csr
    ease: Csr


def counted_only(tables: Tables) -> Counted:
    """Return what kernels read."""
    return Counted(*(getattr(tables, name) for name in Counted._fields))


PIECE = 64
