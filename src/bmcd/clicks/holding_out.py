"""Which clicks of each user are held out: random ones, or the last."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.errors import ClicksError, Message, Option
from bmcd.system.text import shown


def check_options(k: int, keep: int, by: str, too_few: str, has_times: bool) -> None:
    """Refuse senseless numbers and words, and an order by times that are not there."""
    if k < 1 or keep < 0 or too_few not in ("error", "drop") or by not in ("chance", "time"):
        raise ClicksError(
            "k must be 1 or more, keep 0 or more, too_few 'error' or 'drop', by 'chance' or 'time': "
            f"{k}, {keep}, {too_few!r}, {by!r}."
        )
    if by == "time" and not has_times:
        said = "there are no times to hold out the last clicks by. Say which column has them when reading: "
        raise ClicksError(Message(said, Option("time_column", "..."), "."))


def refuse_short(users: NDArray[Any], per_user: NDArray[np.int64], k: int, keep: int) -> None:
    """Name those who have fewer than k + keep clicks, if there are any, and what to do about them."""
    short = np.flatnonzero(per_user < k + keep)
    if not short.size:
        return
    named = ", ".join(f"{shown(users[u])} has {per_user[u]}" for u in short[:5])
    named += f" and {len(short) - 5} more have too few" if len(short) > 5 else ""
    said = f"holding out {k} and keeping {keep} needs {k + keep} clicks of each user, but user {named}. Use "
    enough = Option("at_least", k + keep, call=True)
    raise ClicksError(Message(said, enough, " first, or ", Option("too_few", "drop"), "."))


def taken_at_random(starts: NDArray[Any], k: int, seed: int) -> NDArray[np.bool_]:
    """Mark k random clicks of each user; `starts` is the indptr of the clicks by user.

    >>> taken_at_random(np.array([0, 2, 5]), 1, seed=0).sum()
    np.int64(2)
    """
    user = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    # Sorting random keys within users gives each user a random order; the first k of it are taken.
    order = np.lexsort((np.random.default_rng(seed).random(len(user)), user))
    taken = np.zeros(len(user), dtype=np.bool_)
    taken[order[np.arange(len(user)) - starts[user] < k]] = True
    return taken


def taken_last(starts: NDArray[Any], times: NDArray[Any], k: int, seed: int) -> NDArray[np.bool_]:
    """Mark the last k clicks of each user; which of those at the very same time is left to chance.

    >>> taken_last(np.array([0, 2, 5]), np.array([4, 3, 1, 2, 0]), 1, seed=0).tolist()
    [True, False, False, True, False]
    """
    user = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((np.random.default_rng(seed).random(len(user)), times, user))
    taken = np.zeros(len(user), dtype=np.bool_)
    taken[order[starts[user + 1] - np.arange(len(user)) <= k]] = True
    return taken
