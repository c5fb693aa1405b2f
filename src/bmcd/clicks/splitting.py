"""Split a log into clicks to learn from and clicks to evaluate on: every way in which the package does it.

| function       | the clicks to evaluate on are                                    | measures          |
|----------------|------------------------------------------------------------------|-------------------|
| `hold_out`     | k random clicks of each user, or the last k (``by="time"``)      | past, or future   |
| `split_at`     | each user's first k new clicks after a point in time             | future            |
| `last`         | (no test clicks: the last hours or days of the log, to fit to)   |                   |
| `split_users`  | all clicks of the later users                                    | future            |
| `moments`      | the k new clicks after a random moment of each user              | future            |
| `split_at_random_users`, `hold_out_share`, `hold_out_one`, `folds` | random clicks or users | past |

A *new* click is a user's first click on an item. With ``repeats=True`` every click counts. `time_windows` and
`user_windows` are series of such splits, for back-tests. Random moments depend on the seed and the user's id alone,
so that filters and other users do not change them.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.sequences import owners, position_in_group
from bmcd.clicks.times import as_text, read_duration, read_time
from bmcd.errors import ClicksError, InputError, Message, Option
from bmcd.utils import check_count, shown

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

RANDOM_USERS_STREAM = 2**32 - 1
"""The random stream that chooses held-out users; those of the chains of a sampler are numbered from 0."""
RANDOM_CLICKS, RANDOM_PARTS = "random clicks of each user", "random parts of the clicks"
"""How the `split` of test clicks reads that are not the clicks that followed."""


class Fold(NamedTuple):
    """Clicks to fit to, clicks to predict, and the users who have some of the latter."""

    train: Clicks
    test: Clicks
    users: list[Any]


class Window(NamedTuple):
    """A cut of a back-test: what was known at the cut, and what followed.

    `histories` and `test` have the same users, in the same order, and the items of `train`; items first clicked
    after the cut are -1 in both.
    """

    label: str
    train: Clicks
    histories: Clicks
    test: Clicks


# ---- one split ----


def hold_out(clicks: Clicks, k: int, seed: int, by: str, keep: int, too_few: str) -> tuple[Clicks, Clicks]:
    """Take k clicks from each user; see `Clicks.hold_out`."""
    k, keep = operator.index(k), operator.index(keep)
    if k < 1 or keep < 0 or too_few not in ("error", "drop") or by not in ("chance", "time"):
        raise ClicksError(
            "k must be 1 or more, keep 0 or more, too_few 'error' or 'drop', by 'chance' or 'time': "
            f"{k}, {keep}, {too_few!r}, {by!r}."
        )
    if by == "time":
        _needs_order(clicks, "it has no last clicks to hold out")
    if too_few == "drop":
        return hold_out(clicks.at_least(k + keep), k, seed, by, keep, "error")
    _refuse_short(clicks, k, keep)
    matrix, pair, first = clicks.distinct
    user, rng = owners(matrix.indptr), np.random.default_rng(seed)
    if by == "chance":
        taken = _shuffled(matrix.indptr, rng) < k
        train = ~taken[pair]
        which, how, split = f"{k}", f"(seed {seed})", RANDOM_CLICKS
    else:
        position = np.arange(len(pair)) if clicks.times is None else clicks.times
        at = np.empty(matrix.nnz, position.dtype)
        at[pair[first]] = position[first]
        taken = _shuffled(matrix.indptr, rng, at) >= clicks.per_user[user] - k
        # A repeated click after the first held-out one is of the future too.
        starts = np.concatenate(([0], np.cumsum(taken)))[matrix.indptr]
        cut = np.minimum.reduceat(at[taken], starts[:-1])[owners(clicks.starts)]
        train = ~taken[pair] & (first | (position < cut))
        which, split = f"last {k}", "clicks of each user"
        how = f"by time (seed {seed} where times are equal)" if clicks.order == "time" else "by row"
    the = "the " if by == "time" else ""
    test = clicks.keep(first & taken[pair], f"kept only the {which} held-out clicks of each user {how}")
    train_part = clicks.keep(train, f"held out {the}{which} clicks of each user {how}")
    return train_part, test.as_test(f"{the}{which} {split} {how}")


def split_at(clicks: Clicks, time: Any, k: int, repeats: bool = False) -> tuple[Clicks, Clicks]:
    """Return the clicks before a time, and each user's first k new clicks after it; see `Clicks.split_at`."""
    k = check_count("k", k)
    times = _needs_times(clicks, "split_at")
    cut = read_time(time, clicks.has_clock)
    before = times < cut
    if before.all() or not before.any():
        where = "before its first" if not before.any() else "after its last"
        raise ClicksError(
            f"{as_text(cut)} is {where} click: the log runs from {as_text(times.min())} to {as_text(times.max())}. "
            "Choose a time in between."
        )
    new = _is_new(clicks, repeats) & ~before
    chosen = new & (position_in_group(new, clicks.starts) < k)
    train, known_users = _known_before(clicks, before)
    has_test = _sum_by_user(chosen, clicks) > 0
    n_new = int((has_test & ~np.isin(np.arange(clicks.n_users), known_users)).sum())
    test = _on_items_of(clicks.keep(chosen).of_users(known_users), train)
    step = f"kept the clicks before {as_text(cut)}"
    split = f"each user's first {k} {_kind(repeats)} from {as_text(cut)} on"
    return train.with_steps(step), test.as_test(split, n_new).with_steps(f"kept {split}")


def last(clicks: Clicks, duration: str) -> Clicks:
    """Return the clicks of the last hours or days of a log; see `Clicks.last`."""
    length = np.timedelta64(read_duration(duration, "last"), "us")
    times = _needs_clock(clicks, "last", f"last={duration!r} needs points in time.")
    kept = times > times.max() - length
    if kept.all():
        return clicks
    found = clicks.keep(kept)
    rows = np.flatnonzero(np.diff(found.starts) > 0)
    step = f"kept the last {duration.strip()}: {kept.sum():,} of {len(kept):,} clicks, {len(rows):,} users"
    return found.of_users(rows).with_steps(step)


def split_users(clicks: Clicks, share: float = 0.8) -> tuple[Clicks, Clicks]:
    """Return the clicks of the earlier users, and of the later users; see `Clicks.split_users`."""
    _check_share(share, "share")
    _needs_order(clicks, "no users are earlier than others")
    order = _by_first_click(clicks)
    n_earlier = round(share * len(order))
    if not 0 < n_earlier < len(order):
        raise InputError(f"share={share} of {len(order)} users leaves no users on one side. Choose another share.")
    parts = np.sort(order[:n_earlier]), np.sort(order[n_earlier:])
    steps = (f"kept the {n_earlier:,} earlier of {len(order):,} users", f"kept the {len(parts[1]):,} later users")
    earlier, later = (clicks.of_users(rows).with_steps(step) for rows, step in zip(parts, steps, strict=True))
    return earlier, later


def moments(clicks: Clicks, k: int, seed: int = 0, repeats: bool = False) -> tuple[Clicks, Clicks]:
    """Return users' clicks until a random moment, and the k new clicks that followed; see `Clicks.moments`."""
    k = check_count("k", k)
    if clicks.order is None:
        raise ClicksError(
            "the log has no order, so nothing follows a moment. Use hold_out, which takes random clicks."
        )
    total = _sum_by_user(_is_new(clicks, repeats), clicks)
    rows = np.flatnonzero(total > k)
    if not rows.size:
        raise ClicksError(f"no user has more than {k} clicks; the most any user has is {total.max(initial=0)}.")
    clicks, total = clicks.of_users(rows), total[rows]
    new = _is_new(clicks, repeats)
    begin = _moment(clicks, new, 1 + np.floor(_random_by_user(clicks, seed) * (total - k)).astype(np.int64))
    # Where all clicks before a moment have the time of those after it, the next moment is taken.
    first = clicks.starts[:-1]
    at_first = np.arange(len(new)) < _ends_of_time(clicks)[first][owners(clicks.starts)]
    behind = _moment(clicks, new, _sum_by_user(new & at_first, clicks))
    begin = np.where(begin == first, behind, begin)
    history, test = _around(clicks, new, begin, k)
    rows = np.flatnonzero(_sum_by_user(test, clicks) == k)
    if not rows.size:
        raise ClicksError(f"no user has {k} clicks after others: those of each user have the same time.")
    split = f"{k} {_kind(repeats)} after a random moment of each user (seed {seed})"
    histories, after = (clicks.keep(mask).of_users(rows) for mask in (history, test))
    histories = replace(histories, session_over=_session_over(clicks, begin)[rows])
    step = f"kept what each user had clicked at a random moment (seed {seed})"
    return histories.with_steps(step), after.as_test(split).with_steps(f"kept {split}")


def split_at_random_users(clicks: Clicks, share: float, seed: int) -> tuple[Clicks, Clicks]:
    """Return the clicks of the users to fit, and of a random share of users held out."""
    _check_share(share, "holdout")
    n_held_out = round(float(share) * clicks.n_users)
    if n_held_out < 2 or n_held_out == clicks.n_users:
        raise InputError(
            f"holdout={share} of {clicks.n_users} users holds out {n_held_out}: two or more are needed for a "
            "standard error, and some must stay to fit. Choose another share, or get more users."
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(RANDOM_USERS_STREAM,)))
    chosen = np.zeros(clicks.n_users, np.bool_)
    chosen[rng.permutation(clicks.n_users)[:n_held_out]] = True
    what = f"{n_held_out} of {clicks.n_users} users at random (seed {seed})"
    fitted = clicks.of_users(~chosen).with_steps(f"left out {what}")
    return fitted, clicks.of_users(chosen).with_steps(f"kept only {what}")


def hold_out_share(clicks: Clicks, share: float, at_least: int, seed: list[int]) -> tuple[Clicks, Ints]:
    """Take a random share of the clicks of each user with ``at_least`` of them, and leave two.

    Returns what is left, and the (user, item) pairs that were taken, [pair, 2].
    """
    rng = np.random.default_rng(seed)
    matrix, per_user = clicks.matrix, clicks.per_user
    user, place = owners(matrix.indptr), _shuffled(matrix.indptr, rng)
    number = np.floor(share * per_user + rng.random(clicks.n_users)).astype(np.int64)
    number = np.where(per_user >= at_least, np.minimum(number, per_user - 2), 0)
    return _taken_apart(clicks, place < number[user])


def hold_out_one(clicks: Clicks, rng: np.random.Generator) -> tuple[Clicks, Ints]:
    """Take one random click from each user; returns what is left, and the (user, item) pairs, [pair, 2]."""
    matrix = clicks.matrix
    taken = np.zeros(matrix.nnz, np.bool_)
    taken[matrix.indptr[:-1] + rng.integers(0, clicks.per_user)] = True
    return _taken_apart(clicks, taken)


def are_next_clicks(test: Clicks, train: Clicks, rows: Ints) -> bool:
    """Return whether test clicks are those that followed the training clicks, in order, and not random ones.

    ``rows`` has the row in ``train`` of each test user. Where it is not known how the clicks were split, their
    times tell: those of the future come after the user's last training click.
    """
    if test.order is None or any(text in test.split for text in (RANDOM_CLICKS, RANDOM_PARTS)):
        return False
    if test.split or test.times is None or train.times is None or test.times.dtype.kind != train.times.dtype.kind:
        return True
    both = np.flatnonzero((np.diff(test.starts) > 0) & (np.diff(train.starts)[rows] > 0))
    first, last = test.times[test.starts[both]], train.times[train.starts[rows[both] + 1] - 1]
    return bool((first >= last).all())


# ---- several splits ----


def folds(clicks: Clicks, n_folds: int, seed: int) -> list[Fold]:
    """Deal every user's clicks out over the folds, in random order and beginning with a random fold.

    So all folds have nearly the same size, and a user with n clicks loses at most n / n_folds of them, rounded up.
    """
    n_folds = operator.index(n_folds)
    if not 2 <= n_folds <= clicks.n_clicks:
        raise InputError(f"folds must be 2 to {clicks.n_clicks}, the number of clicks, but it is {n_folds}.")
    rng = np.random.default_rng(seed)
    matrix, pair, first = clicks.distinct
    place = _shuffled(matrix.indptr, rng)
    fold = (place + rng.integers(n_folds, size=clicks.n_users)[owners(matrix.indptr)]) % n_folds
    parts = []
    for number in np.unique(fold):  # with few clicks some folds may be empty
        train = clicks.keep((fold != number)[pair])
        test = clicks.keep(first & (fold == number)[pair]).as_test(f"one of {n_folds} {RANDOM_PARTS}")
        parts.append(Fold(train, test, clicks.users[test.per_user > 0].tolist()))
    return parts


def time_windows(
    clicks: Clicks,
    cuts: int | Sequence[Any],
    window: str,
    horizon: int,
    at: str = "moment",
    seed: int = 0,
    repeats: bool = False,
) -> Iterator[Window]:
    """Return windows of a log with a clock, each with all clicks before it, to be iterated over.

    ``cuts`` is a number of windows that follow each other until the end of the log, or the times at which windows
    begin. With ``at="moment"`` the test clicks are those that followed a random moment of each user active in the
    window, and histories include the user's own clicks up to it; with ``at="cut"`` they are the first of the
    window, and histories end at the cut.
    """
    if at not in ("moment", "cut"):
        raise InputError(f"at must be 'moment' or 'cut', but it is {at!r}.")
    horizon = check_count("horizon", horizon)
    remedy = "A window then has no length. Leave it out: cuts are then made between users."
    times = _needs_clock(clicks, "a back-test by time", remedy)
    length = np.timedelta64(read_duration(window, "window"), "us")
    begins = _cut_times(times, cuts, window, length)
    return (_time_window(clicks, begin, length, window, horizon, at, [seed, i], repeats) for i, begin in begins)


def _cut_times(times: NDArray[Any], cuts: int | Sequence[Any], window: str, length: Any) -> list[tuple[int, Any]]:
    """Return the times at which windows begin, numbered."""
    first, last = times.min(), times.max()
    runs = f"the log runs from {as_text(first)} to {as_text(last)}"
    if last - first < length:
        raise InputError(f"a window of {window} is longer than the log: {runs}. Use a shorter window.")
    if isinstance(cuts, int | np.integer):
        end = last + np.timedelta64(1, "us")
        begins = [end - n * length for n in range(check_count("cuts", cuts), 0, -1)]
        if begins[0] <= first:
            most = int((last - first) // length)
            raise InputError(
                f"{cuts} windows of {window} do not fit: {runs}, and there must be clicks before the first cut. "
                f"Use at most {most} cut{'s' * (most > 1)}, or a shorter window."
            )
        return list(enumerate(begins))
    begins = sorted(read_time(cut, True) for cut in _cut_list(cuts))
    for begin in begins:
        if not first < begin <= last:
            raise InputError(
                f"the cut {as_text(begin)} is outside the log: {runs}, and there must be clicks before and after "
                "each cut. Choose a time in between."
            )
    return list(enumerate(begins))


def _cut_list(cuts: Any) -> list[Any]:
    if isinstance(cuts, str) or not isinstance(cuts, Sequence | np.ndarray) or not len(cuts):
        raise InputError(f"cuts must be a number, 1 or more, or a list of cuts, but it is {shown(cuts)}.")
    return list(cuts)


def _time_window(
    clicks: Clicks, cut: Any, length: Any, window: str, horizon: int, at: str, seed: list[int], repeats: bool
) -> Window:
    times: Any = clicks.times
    label = as_text(cut.astype("M8[s]").astype("M8[us]") if length >= np.timedelta64(1, "s") else cut)
    before, inside = times < cut, (times >= cut) & (times < cut + length)
    train, _ = _known_before(clicks, before)
    new = _is_new(clicks, repeats) & inside
    n_new = _sum_by_user(new, clicks)
    moment = np.zeros(clicks.n_users, np.int64)
    if at == "moment":
        moment = np.floor(_random_by_user(clicks, *seed) * n_new).astype(np.int64)
    begin = _moment(clicks, new, moment)
    history, test = _around(clicks, new, begin, horizon)
    history &= before | inside if at == "moment" else before
    rows = np.flatnonzero(n_new > 0)
    known, after = (_on_items_of(clicks.keep(m).of_users(rows), train) for m in (history, test))
    if at == "moment":
        known = replace(known, session_over=_session_over(clicks, begin)[rows])
    what = "a random moment of each user" if at == "moment" else "the cut"
    split = f"up to {horizon} {_kind(repeats)} after {what} in the {window} from {label} on"
    return Window(label, train, known, after.as_test(split))


def user_windows(
    clicks: Clicks, cuts: int | Sequence[float], horizon: int, seed: int = 0, repeats: bool = False
) -> Iterator[Window]:
    """Return cuts between earlier and later users, to be iterated over.

    ``cuts`` is a number: then the second half of the users, by their first click, is cut into that many parts. Or
    it is a list of the shares of the users at which parts begin. Each part comes with all earlier users.
    """
    horizon = check_count("horizon", horizon)
    _needs_order(clicks, "there is no past to fit to")
    order = _by_first_click(clicks)
    if isinstance(cuts, int | np.integer):
        shares = np.linspace(0.5, 1.0, check_count("cuts", cuts) + 1)
        remedy = f"Use at most {len(order) // 2} cuts."
    else:
        for share in (given := _cut_list(cuts)):
            _check_share(share, "a cut of a log without a clock")
        shares, remedy = np.array([*sorted(given), 1.0]), "Use fewer cuts, further apart."
    edges = np.round(shares * len(order)).astype(np.int64)
    if edges[0] < 1 or (np.diff(edges) < 1).any():
        n_cuts = len(shares) - 1
        raise InputError(
            f"{n_cuts} cuts between users leave a part without users: the log has {len(order)} users. {remedy}"
        )
    parts = enumerate(itertools.pairwise(edges))
    return (_user_window(clicks, order, *ends, horizon, [seed, number], repeats) for number, ends in parts)


def _user_window(
    clicks: Clicks, order: Ints, begin: int, end: int, horizon: int, seed: list[int], repeats: bool
) -> Window:
    train, _ = _known_before(clicks, np.isin(owners(clicks.starts), order[:begin]))
    later = clicks.of_users(np.sort(order[begin:end]))
    new = _is_new(later, repeats)
    moment = np.floor(_random_by_user(later, *seed) * _sum_by_user(new, later)).astype(np.int64)
    masks = _around(later, new, _moment(later, new, moment), horizon)
    known, after = (_on_items_of(later.keep(mask), train) for mask in masks)
    split = f"up to {horizon} {_kind(repeats)} after a random moment of each later user"
    return Window(f"{begin / len(order):.0%} of users", train, known, after.as_test(split))


# ---- parts of the above ----


def _kind(repeats: bool) -> str:
    return "clicks" if repeats else "new clicks"


def _is_new(clicks: Clicks, repeats: bool) -> Bools:
    """Return which clicks are a user's first on an item, or all of them."""
    return np.ones(len(clicks.sequence), np.bool_) if repeats else clicks.distinct.first


def _sum_by_user(mask: Bools, clicks: Clicks) -> Ints:
    """Return how many clicks of each user have the mask."""
    return np.diff(np.concatenate(([0], np.cumsum(mask)))[clicks.starts])


def _moment(clicks: Clicks, new: Bools, number: Ints) -> Ints:
    """Return where each user's new click of that number is, or the first click at the same time.

    Nothing is known of the order of clicks at the same time, so no moment lies between them.
    """
    place, owner = position_in_group(new, clicks.starts), owners(clicks.starts)
    begin = clicks.starts[1:].copy()
    found = np.flatnonzero(new & (place == number[owner]))
    begin[owner[found]] = _starts_of_time(clicks)[found]
    return begin


def _session_over(clicks: Clicks, begin: Ints) -> Bools:
    """Return whether the click at the moment of each user begins another session than the one before it."""
    inside = (begin > clicks.starts[:-1]) & (begin < clicks.starts[1:])
    over = np.zeros(clicks.n_users, np.bool_)
    sessions = clicks.sessions
    over[inside] = sessions[begin[inside]] != sessions[begin[inside] - 1]
    return over


def _around(clicks: Clicks, new: Bools, begin: Ints, k: int) -> tuple[Bools, Bools]:
    """Mark what is before the moment of each user, and the first k new clicks from then on."""
    earlier = np.arange(len(new)) < begin[owners(clicks.starts)]
    after = new & ~earlier
    return earlier, after & (position_in_group(after, clicks.starts) < k)


def _starts_of_time(clicks: Clicks) -> Ints:
    """Return, for each click, the first click of the user at the same time; itself if there are no times."""
    number = np.arange(len(clicks.sequence))
    if clicks.times is None:
        return number
    first = np.ones(len(number), np.bool_)
    first[1:] = clicks.times[1:] != clicks.times[:-1]
    first[clicks.starts[:-1][np.diff(clicks.starts) > 0]] = True
    starts: Ints = np.maximum.accumulate(np.where(first, number, 0))
    return starts


def _ends_of_time(clicks: Clicks) -> Ints:
    """Return, for each click, the place after the last click of the user at the same time."""
    starts, counts = np.unique(_starts_of_time(clicks), return_counts=True)
    return np.repeat(starts + counts, counts)


def _random_by_user(clicks: Clicks, *seeds: int) -> NDArray[np.float64]:
    """Return a random number in [0, 1) for each user, which depends on the seeds and the user's id alone."""
    texts = [f"{type(user).__name__} {user!r}".encode(errors="surrogatepass") for user in clicks.users.tolist()]
    key = " ".join(str(operator.index(seed)) for seed in seeds).encode()
    digests = b"".join(blake2b(text, digest_size=8, key=key[:64]).digest() for text in texts)
    return np.asarray((np.frombuffer(digests, "<u8") >> np.uint64(11)) * 2.0**-53, np.float64)


def _known_before(clicks: Clicks, before: Bools) -> tuple[Clicks, Ints]:
    """Return the clicks with the mask, on the users and items that have any, and the rows of these users."""
    kept = clicks.keep(before)
    rows = np.flatnonzero(np.diff(kept.starts) > 0)
    items = np.flatnonzero(np.bincount(kept.sequence[kept.sequence >= 0], minlength=clicks.n_items) > 0)
    return kept.of_users(rows).of_items(items), rows


def _on_items_of(clicks: Clicks, train: Clicks) -> Clicks:
    """Return clicks with the items of ``train``, which are some of theirs; others become -1."""
    return clicks.of_items(clicks.columns_of(train.items), keep_outside=True)


def _taken_apart(clicks: Clicks, taken: Bools) -> tuple[Clicks, Ints]:
    """Return the clicks without the distinct clicks marked, and these as (user, item) pairs, [pair, 2]."""
    matrix = clicks.matrix
    pairs = np.stack([owners(matrix.indptr)[taken], matrix.indices[taken]], axis=1).astype(np.int64)
    return clicks.keep(~taken[clicks.distinct.pair]), pairs


def _shuffled(starts: NDArray[Any], rng: np.random.Generator, *keys: NDArray[Any]) -> Ints:
    """Return the place of each entry in its group when that is sorted by the keys; chance decides between equals.

    >>> _shuffled(np.array([0, 2, 5]), np.random.default_rng(0), np.array([4, 3, 1, 2, 0])).tolist()
    [1, 0, 1, 2, 0]
    """
    group = owners(starts)
    place = np.empty(len(group), np.int64)
    place[np.lexsort((rng.random(len(group)), *keys, group))] = np.arange(len(group)) - starts[group]
    return place


def _by_first_click(clicks: Clicks) -> Ints:
    """Return the rows of users with clicks, sorted by their first click; as they are if there are no times."""
    rows = np.flatnonzero(np.diff(clicks.starts) > 0)
    if clicks.times is None:
        return rows
    return rows[np.argsort(clicks.times[clicks.starts[rows]], kind="stable")]


def _needs_order(clicks: Clicks, so: str) -> None:
    if clicks.order is None:
        said = f"the log has no order, so {so}. Say where the order is when reading: "
        raise ClicksError(Message(said, Option("time_column", "..."), " or ", Option("order", "rows"), "."))


def _needs_times(clicks: Clicks, what: str) -> NDArray[Any]:
    if clicks.times is None:
        said = f"{what} needs times, but the log has none. Say which column has them when reading: "
        raise ClicksError(Message(said, Option("time_column", "..."), "."))
    if not len(clicks.times):
        raise ClicksError(f"{what} needs clicks, but the log has none.")
    return clicks.times


def _needs_clock(clicks: Clicks, what: str, remedy: str) -> NDArray[Any]:
    times = _needs_times(clicks, what)
    if not clicks.has_clock:
        said = f"the times of the log are numbers such as {as_text(times[0])}, which give an order but no clock."
        raise ClicksError(f"{said} {remedy}")
    return times


def _refuse_short(clicks: Clicks, k: int, keep: int) -> None:
    """Raise an error that names users with fewer than k + keep clicks, if there are any."""
    users, per_user = clicks.users, clicks.per_user
    short = np.flatnonzero(per_user < k + keep)
    if not short.size:
        return
    named = ", ".join(f"{shown(users[u])} has {per_user[u]}" for u in short[:5])
    named += f" and {len(short) - 5} more have too few" if len(short) > 5 else ""
    said = f"holding out {k} and keeping {keep} needs {k + keep} clicks of each user, but user {named}. Use "
    enough = Option("at_least", k + keep, call=True)
    raise ClicksError(Message(said, enough, " first, or ", Option("too_few", "drop"), "."))


def _check_share(share: Any, name: str) -> None:
    is_number = isinstance(share, int | float | np.integer | np.floating) and not isinstance(share, bool)
    if not is_number or not 0 < share < 1:
        raise InputError(f"{name} is a share of users: it must lie between 0 and 1, but it is {share!r}.")
