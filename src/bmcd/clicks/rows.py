"""The rows of a log, one a click, before they become a table: what they lack, and what is said about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import Coded, renumbered
from bmcd.clicks.times import Order, absent_times
from bmcd.errors import ClicksError
from bmcd.system.text import and_list, listed, shown


class Rows(NamedTuple):
    """Who clicked what and, if the log says so, when, and what it is called."""

    users: Coded
    items: Coded
    times: NDArray[Any] | None = None
    titles: Coded | None = None
    sessions: Coded | None = None
    order: Order | None = None
    """Where the order of the clicks comes from; "time" if and only if there are times."""
    n_dropped: int = 0
    steps: tuple[str, ...] = ()
    """What was done to them."""


def complete(rows: Rows) -> Rows:
    """Leave out rows that lack a user, an item or a time, with the ids that only they have, and say what was done.

    >>> rows = Rows(Coded(np.array([0, 1, 0]), np.array([7, 8])), Coded(np.array([0, -1, 1]), np.array([1, 2])))
    >>> complete(rows).users.ids.tolist(), complete(rows).steps
    ([7], ('dropped 1 of 3 rows: 1 without an item',))
    """
    lacks = {"a user": rows.users.codes < 0, "an item": rows.items.codes < 0}
    if rows.times is not None:
        lacks["a time"] = absent_times(rows.times)
    if rows.sessions is not None:
        lacks["a session"] = rows.sessions.codes < 0
    steps = (*_stripped(rows.users, "user"), *_stripped(rows.items, "item"))
    gone = np.logical_or.reduce(list(lacks.values()))
    if not gone.any():
        return rows._replace(steps=steps)
    counts = and_list([f"{int(lack.sum()):,} without {what}" for what, lack in lacks.items() if lack.any()])
    n_gone = int(gone.sum())
    if n_gone == len(gone):
        raise ClicksError(f"all {n_gone:,} rows were dropped, {counts}, so there are no clicks to read.")
    return rows._replace(
        users=renumbered(rows.users, ~gone),
        items=renumbered(rows.items, ~gone),
        times=None if rows.times is None else rows.times[~gone],
        titles=None if rows.titles is None else rows.titles._replace(codes=rows.titles.codes[~gone]),
        sessions=None if rows.sessions is None else rows.sessions._replace(codes=rows.sessions.codes[~gone]),
        n_dropped=n_gone,
        steps=(*steps, f"dropped {n_gone:,} of {len(gone):,} rows: {counts}"),
    )


def _stripped(column: Coded, what: str) -> list[str]:
    if not column.stripped:
        return []
    examples = listed([shown(text) for text in column.stripped], 2)
    return [f"blanks around {len(column.stripped):,} {what} ids stripped: {examples}"]
