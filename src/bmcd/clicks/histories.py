"""Histories of users a model was not fitted to, as clicks on the items it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bmcd.clicks.frames import column_names
from bmcd.clicks.ids import objects
from bmcd.clicks.log import Clicks
from bmcd.clicks.sequences import owners
from bmcd.errors import InputError, InputTypeError, Message, Option, UnknownIdError
from bmcd.utils import listed, shown


def clicks_of_histories(histories: Any, known: Clicks, unknown: str = "error") -> Clicks:
    """Return histories as clicks on the items of ``known``; an item may be repeated, and a history may be empty.

    ``histories`` is a list of lists of items in click order, the latest last (users are then 0, 1, ...), a dict
    from user to list, a `Clicks`, or a frame with the columns user and item, whose rows are in click order unless
    it has a column "time". Items that are not known are an error; with ``unknown="ignore"`` they are -1.

    >>> known = Clicks.from_matrix([[1, 1, 1]], items=["a", "b", "c"])
    >>> clicks_of_histories({"ann": ["c", "a"], "bob": []}, known).sequence.tolist()
    [2, 0]
    """
    if unknown not in ("error", "ignore"):
        raise InputError(f"unknown must be 'error' or 'ignore', but it is {unknown!r}.")
    if not isinstance(histories, Mapping | Clicks) and hasattr(histories, "columns"):
        timed = "time" in column_names(histories)
        histories = Clicks.from_frame(histories, order=None if timed else "rows")
    if isinstance(histories, Clicks):
        given = histories
        if given.items is known.items or np.array_equal(given.items, known.items):
            code = np.arange(-1, known.n_items, dtype=np.int32)  # code[0] is that of -1
        else:
            place = known.item_places
            code = np.array([-1, *(place.get(item, -1) for item in given.items.tolist())], np.int32)
            clicked = np.flatnonzero(np.bincount(given.sequence[given.sequence >= 0], minlength=given.n_items))
            _refuse_unknown([given.items[i] for i in clicked if code[i + 1] < 0], known, unknown)
        sequence = code[given.sequence + 1]
        if given.order is None:
            sequence = sequence[np.lexsort((sequence, owners(given.starts)))]
        own = {name: getattr(given, name) for name in ("starts", "times", "session_ids", "order", "session_gap")}
        own |= {"users": given.users, "library": given.library, "session_over": given.session_over}
    else:
        users, lists = _users_and_lists(histories)
        place = known.item_places
        items = [item for one in lists for item in one]
        _refuse_unknown(list(dict.fromkeys(item for item in items if item not in place)), known, unknown)
        sequence = np.array([place.get(item, -1) for item in items], np.int32)
        starts = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64)
        own = {"users": users, "starts": starts, "times": None, "session_ids": None, "order": "rows"}
        own["session_over"] = None
    return replace(known, sequence=sequence, **own, n_repeated=0, history=(), n_dropped=0, split="", n_new_users=0)


def _refuse_unknown(strange: list[Any], known: Clicks, unknown: str) -> None:
    if strange and unknown == "error":
        said = (
            f"the histories have {len(strange)} items that the model does not know: "
            f"{listed([shown(item) for item in strange])}. Its items look like "
            f"{listed([shown(item) for item in known.items[:3]])}. Leave them out, or say "
        )
        raise UnknownIdError(Message(said, Option("unknown", "ignore"), "."))


def _users_and_lists(histories: Any) -> tuple[Any, list[list[Any]]]:
    if isinstance(histories, str | bytes) or not isinstance(histories, Iterable):
        raise InputTypeError(f"histories must be a list of lists of items, not {shown(histories)}.")
    named = isinstance(histories, Mapping)
    pairs = list(histories.items()) if isinstance(histories, Mapping) else list(enumerate(histories))
    given = []
    for user, items in pairs:
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise InputTypeError(
                f"the history of user {shown(user)} must be a list of items, not {shown(items)}. One person is "
                "[[...]]: a list with one list in it."
            )
        given.append([item.item() if isinstance(item, np.generic) else item for item in items])
    users = [user for user, _ in pairs]
    return (objects(users) if named else np.arange(len(pairs))), given
