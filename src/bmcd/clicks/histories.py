"""The clicks of people a model has not seen, on the items it knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from bmcd.clicks.ids import objects
from bmcd.clicks.table import Clicks
from bmcd.errors import InputError, InputTypeError, Message, Option, UnknownIdError
from bmcd.system.text import listed, shown


def clicks_of_histories(histories: Any, known: Clicks, unknown: str = "error") -> Clicks:
    """Lay histories out over the items of ``known``; an item may be repeated, and a history may be empty.

    ``histories`` is a list of lists of items (users are then 0, 1, ...), a dict from user to list, a `Clicks`, or a
    frame with the columns user and item.

    >>> known = Clicks.from_matrix([[1, 1, 1]], items=["a", "b", "c"])
    >>> clicks_of_histories({"ann": ["c", "a"], "bob": []}, known).matrix.toarray().astype(int).tolist()
    [[1, 0, 1], [0, 0, 0]]
    """
    if unknown not in ("error", "ignore"):
        raise InputError(f"unknown must be 'error' or 'ignore', but it is {unknown!r}.")
    library = known.library
    if not isinstance(histories, Mapping | Clicks) and hasattr(histories, "columns"):
        histories = Clicks.from_frame(histories)
    if isinstance(histories, Clicks):
        users, given, library = histories.users, _lists_of(histories), histories.library
    else:
        users, given = _users_and_lists(histories)
    place = {own: i for i, own in enumerate(known.items.tolist())}
    strange = list(dict.fromkeys(item for items in given for item in items if item not in place))
    if strange and unknown == "error":
        said = (
            f"the histories have {len(strange)} items that the model does not know: "
            f"{listed([shown(item) for item in strange])}. Its items look like "
            f"{listed([shown(item) for item in known.items[:3]])}. Leave them out, or say "
        )
        raise UnknownIdError(Message(said, Option("unknown", "ignore"), "."))
    rows = [sorted({place[item] for item in items if item in place}) for items in given]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    columns = np.array([item for row in rows for item in row], np.int64)
    matrix = sparse.csr_array((np.ones(columns.size, np.bool_), columns, starts), shape=(len(rows), known.n_items))
    return replace(known, users=users, matrix=matrix, n_repeated=0, history=(), library=library, times=None)


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


def _lists_of(clicks: Clicks) -> list[list[Any]]:
    own, starts = clicks.items[clicks.matrix.indices].tolist(), clicks.matrix.indptr.tolist()
    return [own[first:last] for first, last in pairwise(starts)]
