"""The rows of a log, one a click, before they become a table: what they lack, and what is said about it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import Coded, renumbered
from bmcd.clicks.times import absent_times
from bmcd.errors import ClicksError
from bmcd.system.text import and_list, listed, shown


class Rows(NamedTuple):
    """Who clicked what and, if the log says so, when, and what it is called."""

    users: Coded
    items: Coded
    times: NDArray[Any] | None = None
    titles: Coded | None = None
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
    steps = (*_stripped(rows.users, "user"), *_stripped(rows.items, "item"))
    gone = np.logical_or.reduce(list(lacks.values()))
    if not gone.any():
        return rows._replace(steps=steps)
    counts = and_list([f"{int(lack.sum()):,} without {what}" for what, lack in lacks.items() if lack.any()])
    n_gone = int(gone.sum())
    if n_gone == len(gone):
        raise ClicksError(f"all {n_gone:,} rows were dropped, {counts}, so there are no clicks to read.")
    return Rows(
        renumbered(rows.users, ~gone),
        renumbered(rows.items, ~gone),
        None if rows.times is None else rows.times[~gone],
        None if rows.titles is None else rows.titles._replace(codes=rows.titles.codes[~gone]),
        n_gone,
        (*steps, f"dropped {n_gone:,} of {len(gone):,} rows: {counts}"),
    )


def _stripped(column: Coded, what: str) -> list[str]:
    if not column.stripped:
        return []
    examples = listed([shown(text) for text in column.stripped], 2)
    return [f"blanks around {len(column.stripped):,} {what} ids stripped: {examples}"]
