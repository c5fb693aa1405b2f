"""Moments: points in users' histories, and the clicks that followed. Weights are learnt from them.

| the log has  | members are fitted to        | moments                                                          |
|--------------|------------------------------|------------------------------------------------------------------|
| a clock      | the clicks before a cut      | random points within the window that follows, up to eight cuts   |
| order only   | the clicks of earlier users  | random points in the histories of the later fifth of the users   |
| neither      | clicks not held out          | random clicks of half of the users, in two turns                 |
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners
from bmcd.clicks.times import duration_text
from bmcd.errors import InputError

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_CUTS = 8
# Of short windows these follow each other, up to the end of the log.
LATEST = 3
# Without a clock: the share of the users, the latest, that moments come from, and the most users.
LATER_SHARE, MOST_LATER = 0.2, 20_000
# With a clock and no `refresh`: the window is as long as this share of the clicks takes, the latest.
LAST_SHARE = 0.2
# Windows shorter than this are spread over a day, because hours differ.
SPREAD_OVER = 24 * 3_600_000_000
MICROSECONDS_PER_HOUR = 3_600_000_000


class Cut(NamedTuple):
    """A past moment of fitting: what members may see, and where the clicks to predict are."""

    before: Bools  # clicks of the log that members are fitted to
    inside: Bools  # clicks among which targets are taken
    hours: float | None  # from the cut to the last click of the log; None without a clock
    label: str


class Moments(NamedTuple):
    """Points in histories: histories are parts of the log's sequence, targets are item numbers."""

    histories: Ints  # [moment, 3]: where the user's clicks begin, where the running session begins, end
    targets: NDArray[np.int32]
    target_start: Ints
    user: Ints

    @property
    def n(self) -> int:
        """The number of moments."""
        return len(self.user)


def length_of_refresh(clicks: Clicks) -> int:
    """Return the length in microseconds of the last fifth of the clicks of a log with a clock."""
    times = np.sort(clicks.times.view(np.int64))  # type: ignore[union-attr]
    at = min(int((1.0 - LAST_SHARE) * len(times)), len(times) - 1)
    return max(int(times[-1] - times[at]) + 1, 1)


def cuts_in_time(clicks: Clicks, refresh: int | None, most: int = MOST_CUTS) -> list[Cut]:
    """Return the cuts of a log with a clock, the earliest first: windows of the length of ``refresh``.

    Short windows are spread over the last day; each needs clicks before it, a third of the log or more.
    """
    times = clicks.times.view(np.int64)  # type: ignore[union-attr]
    begin, end = int(times.min()), int(times.max()) + 1
    length = length_of_refresh(clicks) if refresh is None else refresh
    found = []
    for cut in cut_times(begin, end, length, most):
        before, inside = times < cut, (times >= cut) & (times < cut + length)
        if before.any() and inside.any():
            found.append(Cut(before, inside, hours_back(cut, end), label_of(cut)))
    return found


def hours_back(cut: int, end: int) -> float:
    """Return the hours from a cut to the last click of a log that ends right after it."""
    return (end - 1 - cut) / MICROSECONDS_PER_HOUR


def label_of(cut: int) -> str:
    """Return the time of a cut as windows are labelled."""
    return str(np.datetime64(cut, "us"))[:16]


def cut_times(begin: int, end: int, length: int, most: int) -> list[int]:
    """Return where windows of that length begin in a log from ``begin`` to before ``end``, the earliest first."""
    if length >= end - begin:
        raise InputError(
            f"refresh={duration_text(length)!r} is longer than the log, which covers "
            f"{duration_text(end - begin)}: there are no clicks to fit to before a window of that length. Use a "
            "shorter refresh or a longer log."
        )
    # No window may begin before a third of the log has passed, but the last one always counts. Days that begin with
    # the first click are a little shorter than a day.
    room = max(int((end - begin) * 2 / 3) + length // 100, length) - length
    backs = [back * length for back in range(min(most, 1 + room // length))]
    if len(backs) == most > LATEST and most * length < SPREAD_OVER:  # the latest, and others over the day before
        spread = np.linspace(backs[LATEST - 1], min(room, SPREAD_OVER), most - LATEST + 1)[1:]
        backs = [*backs[:LATEST], *(int(back) for back in spread)]
    return [end - length - back for back in backs[::-1]]


def cuts_between_users(clicks: Clicks, most: int = MOST_CUTS) -> list[Cut]:
    """Return one cut between earlier and later users of a log without a clock; the later ones in up to 8 windows.

    All windows have the same clicks before: members are fitted once.
    """
    rows = np.flatnonzero(np.diff(clicks.starts) > 0)
    if clicks.times is not None:
        rows = rows[np.argsort(clicks.times[clicks.starts[rows]], kind="stable")]
    n_later = min(max(round(LATER_SHARE * len(rows)), 1), MOST_LATER)
    if len(rows) < 2:
        raise InputError("the log has a single user: there is nobody to learn the weights from. Add users.")
    later = rows[len(rows) - n_later :]
    owner = owners(clicks.starts)
    number = np.full(clicks.n_users, -1)
    n_windows = max(1, min(most, n_later // 50))
    number[later] = np.arange(n_later) * n_windows // n_later
    before = number[owner] < 0
    return [Cut(before, number[owner] == w, None, f"later users {w + 1}/{n_windows}") for w in range(n_windows)]


def n_eligible(clicks: Clicks, cut: Cut, h: int, repeats: bool) -> int:
    """Return the number of users with at least ``h`` new clicks inside."""
    first = np.ones(len(clicks.sequence), np.bool_) if repeats else _first_clicks(clicks)
    ends = np.concatenate(([0], np.cumsum(first & cut.inside)))[clicks.starts]
    return int((np.diff(ends) >= h).sum())


def moments_in(
    clicks: Clicks, cut: Cut, h: int, budget: int, seed: int, repeats: bool, n_users: int | None = None
) -> Moments:
    """Return a random point of each user with at least ``h`` new clicks inside, and the h that followed.

    Where that gives fewer moments than the budget, users give up to four; where it gives more, some users are left
    out at random. Everything that is random is a hash of the seed, the user's id and the time of the click, so that
    no other user has a part in it: ``clicks`` may be those of some users, if ``n_users`` is the number of all that
    are eligible and those with the smallest `user_hash` are among them.
    """
    first = np.ones(len(clicks.sequence), np.bool_) if repeats else _first_clicks(clicks)
    place = np.flatnonzero(first & cut.inside)
    owner = owners(clicks.starts)[place]
    users, begin, n_new = np.unique(owner, return_index=True, return_counts=True)
    eligible = n_new >= h
    users, begin, n_new = users[eligible], begin[eligible], n_new[eligible]
    keys = user_hash(clicks.users[users], seed)
    turns = int(np.clip(budget // max(len(users) if n_users is None else n_users, 1), 1, 4))
    if len(users) > budget:
        chosen = np.sort(np.argsort(keys, kind="stable")[:budget])
        users, begin, n_new, keys = users[chosen], begin[chosen], n_new[chosen], keys[chosen]
    # The points of each user, and their hashes; those with the smallest are taken.
    n_points = n_new - h + 1
    of = np.repeat(np.arange(len(users)), n_points)
    at = np.arange(len(of)) - np.repeat(np.cumsum(n_points) - n_points, n_points)
    points = begin[of] + at
    when = np.zeros(len(points), np.int64)
    if clicks.times is not None:
        when = clicks.times.view(np.int64)[place[points]]
    hashes = xxhash64(at, xxhash64(when, keys[of] + np.int64(h)))
    order = np.lexsort((hashes, of))
    rank = np.arange(len(of)) - np.repeat(np.cumsum(n_points) - n_points, n_points)
    kept = np.sort(order[rank < turns])
    if len(kept) > budget:
        kept = np.sort(kept[np.argsort(hashes[kept], kind="stable")[:budget]])
    user, at = users[of[kept]], points[kept]
    targets = clicks.sequence[place[at[:, None] + np.arange(h)].ravel()].astype(np.int32)
    target_start = np.arange(len(user) + 1) * h
    if repeats:  # a second click on an item is no further item: it counts as outside
        owner_of = np.repeat(np.arange(len(user)), h)
        seen_at = np.unique(owner_of * (clicks.n_items + 1) + targets, return_index=True)[1]
        again = np.ones(len(targets), np.bool_)
        again[seen_at] = False
        targets[again] = -1
    return Moments(histories_until(clicks, place[at], user), targets, target_start, user)


def user_hash(users: NDArray[np.generic], seed: int) -> Ints:
    """Return a hash of each user's id: Spark's ``xxhash64(seed, id)``, of text the first digits of its md5.

    >>> user_hash(np.array([7, 8]), 0).tolist() == user_hash(np.array([8, 7]), 0).tolist()[::-1]
    True
    """
    if users.dtype.kind not in "iu":
        digests = [hashlib.md5(str(user).encode(errors="surrogatepass")) for user in users.tolist()]
        users = np.array([int(digest.hexdigest()[:15], 16) for digest in digests], np.int64)
    return xxhash64(users.astype(np.int64), xxhash64(np.array([seed]), np.int64(42)))


def xxhash64(values: Ints, seed: Ints | np.int64) -> Ints:
    """Return the 64-bit xxHash of whole numbers as Spark computes it, with a seed for all or for each.

    >>> xxhash64(np.array([0, 1]), np.int64(42)).tolist()
    [-5252525462095825812, -7001672635703045582]
    """
    p1, p2, p3, p4, p5 = (
        np.uint64(prime)
        for prime in (
            0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
        )
    )  # fmt: skip

    def turned(value: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
        return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))

    with np.errstate(over="ignore"):
        z = np.asarray(seed, np.int64).astype(np.uint64) + p5 + np.uint64(8)
        z = z ^ (turned(np.asarray(values, np.int64).astype(np.uint64) * p2, 31) * p1)
        z = turned(z, 27) * p1 + p4
        z = (z ^ (z >> np.uint64(33))) * p2
        z = (z ^ (z >> np.uint64(29))) * p3
        z = z ^ (z >> np.uint64(32))
    return z.astype(np.int64)


def histories_until(clicks: Clicks, place: Ints, user: Ints) -> Ints:
    """Return what was known right before the clicks at these places: start, start of the session, end."""
    end = place.copy()
    if clicks.times is not None and clicks.order == "time":  # clicks at the very same time were not known
        times = clicks.times.view(np.int64) if clicks.has_clock else clicks.times
        new = np.ones(len(times), np.bool_)
        new[1:] = times[1:] != times[:-1]
        new[clicks.starts[:-1][np.diff(clicks.starts) > 0]] = True
        run = np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
        end = run[place]
    sessions = clicks.sessions
    first = np.ones(len(sessions), np.bool_)
    first[1:] = sessions[1:] != sessions[:-1]
    start_of = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
    running = np.minimum(start_of[place], end)
    return np.stack([clicks.starts[user], running, end], axis=1).astype(np.int64)


def histories_now(clicks: Clicks, users: Ints, as_of: bool) -> Ints:
    """Return all clicks of users, and the running session: the last one.

    With ``as_of`` the present is the last click of a log with a clock: a session that ended longer ago than
    `session_gap` is over, and the running session is empty; without it, the sessions that are marked as over.
    """
    start, end = clicks.starts[users], clicks.starts[users + 1]
    running = start.copy()
    some = end > start
    if some.any():
        sessions = clicks.sessions
        first = np.ones(len(sessions), np.bool_)
        first[1:] = sessions[1:] != sessions[:-1]
        first[clicks.starts[:-1][np.diff(clicks.starts) > 0]] = True
        start_of = np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))
        running[some] = start_of[end[some] - 1]
        if as_of and clicks.has_clock and clicks.times is not None:
            times = clicks.times.view(np.int64)
            over = np.zeros(len(users), np.bool_)
            over[some] = times.max() - times[end[some] - 1] > clicks.session_gap
            running = np.where(over, end, running)
    if not as_of and clicks.session_over is not None:
        running = np.where(clicks.session_over[users], end, running)
    return np.stack([start, running, end], axis=1).astype(np.int64)


def share_outside(clicks: Clicks, cut: Cut, refresh_hours: float) -> float:
    """Return the share of the clicks of the day before a cut that went to items unknown at the refresh before.

    The day is cut into periods of ``refresh``; an item first clicked within a period was unknown at its beginning.
    """
    if cut.hours is None or not clicks.has_clock or clicks.times is None:
        return 1e-4
    times = clicks.times.view(np.int64)
    end = int(times.max()) - int(cut.hours * MICROSECONDS_PER_HOUR)
    length = max(int(refresh_hours * MICROSECONDS_PER_HOUR), 1)
    window = max(SPREAD_OVER, length)
    chosen = (times < end) & (times >= end - window) & (clicks.sequence >= 0)
    if not chosen.any():
        return 1e-4
    first = np.full(clicks.n_items, np.iinfo(np.int64).max)
    inside = clicks.sequence >= 0
    np.minimum.at(first, clicks.sequence[inside], times[inside])
    begins = end - np.ceil((end - times[chosen]) / length).astype(np.int64) * length
    return float((first[clicks.sequence[chosen]] >= begins).mean())


def _first_clicks(clicks: Clicks) -> Bools:
    """Mark each user's first click on an item; of clicks outside the catalogue every one counts."""
    return clicks.distinct.first | (clicks.sequence < 0)


def _uniform(users: Ints, seed: int, h: int, turn: Ints | int) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each user: a hash of user, seed, number of clicks and turn (SplitMix64)."""
    with np.errstate(over="ignore"):
        z = users.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(seed % 2**32) * np.uint64(0xD1B54A32D192ED03) + np.uint64(h) * np.uint64(0x8CB92BA72F3D8DD7)
        z += np.asarray(turn).astype(np.uint64) * np.uint64(0x2545F4914F6CDD1D) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) / 2.0**53


# Without order: the share of the clicks of half of the users that is held out, enough clicks, and the turns.
HELD_SHARE, ENOUGH_HELD, TURNS = 0.2, 20_000, 2


class Turn(NamedTuple):
    """Random clicks held out of a part of the users of a log without order."""

    train: Clicks
    moments: Moments
    """Histories are parts of the sequence of ``train``; the targets of a user are all clicks held out."""


def random_turns(clicks: Clicks, seed: int) -> list[Turn]:
    """Hold out random clicks of one half of the users, and of the other half; each user keeps two or more."""
    everyone = np.arange(clicks.n_users)
    per_user = np.diff(clicks.starts)
    number = np.floor(HELD_SHARE * per_user + _uniform(everyone, seed, 0, 1)).astype(np.int64)
    number = np.minimum(number, np.maximum(per_user - 2, 0))
    if number.sum() > ENOUGH_HELD:
        number[_uniform(everyone, seed, 0, 2) > ENOUGH_HELD / number.sum()] = 0
    half = (_uniform(everyone, seed, 0, 3) * TURNS).astype(np.int64)
    owner = owners(clicks.starts)
    order = np.lexsort((_uniform(np.arange(len(owner)), seed, 0, 4), owner))
    found = []
    for turn in range(TURNS):
        taken = np.zeros(len(owner), np.bool_)
        place = np.arange(len(owner)) - clicks.starts[owner]
        taken[order[place < np.where(half == turn, number, 0)[owner]]] = True
        if not taken.any():
            continue
        train = clicks.keep(~taken)
        user = np.flatnonzero(np.bincount(owner[taken], minlength=clicks.n_users))
        start, end = train.starts[user], train.starts[user + 1]
        counts = np.bincount(owner[taken], minlength=clicks.n_users)[user]
        target_start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        histories = np.stack([start, start, end], axis=1).astype(np.int64)
        found.append(Turn(train, Moments(histories, clicks.sequence[taken], target_start, user)))
    return found


def some_of(moments: Moments, most: int) -> Moments:
    """Return at most ``most`` of the moments, evenly spread."""
    if moments.n <= most:
        return moments
    chosen = np.unique(np.linspace(0, moments.n - 1, most).round().astype(np.int64))
    lengths = np.diff(moments.target_start)[chosen]
    target_start = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    places = np.arange(target_start[-1]) + np.repeat(moments.target_start[chosen] - target_start[:-1], lengths)
    return Moments(moments.histories[chosen], moments.targets[places], target_start, moments.user[chosen])
