"""The rows of a log, from a file or a frame: ids, times and sessions as arrays, checked and complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bmcd.clicks.frames import collected, column_names, column_of
from bmcd.clicks.ids import (
    Coded,
    Missing,
    by_appearance,
    check_missing,
    encode,
    encode_text,
    how_to_drop,
    lookalikes,
    strip,
    whole_texts,
)
from bmcd.clicks.text_files import TextTable
from bmcd.clicks.times import BadTimeError, Order, TimeReader, clocked, times_of_column
from bmcd.errors import ClicksError, Message, Option
from bmcd.utils import and_list, listed, shown


class Rows(NamedTuple):
    """Who clicked what and, if the log has it, when, in which session, and the item's title."""

    users: Coded
    items: Coded
    times: NDArray[Any] | None = None
    untimed: NDArray[np.bool_] | None = None
    """Where there is no time; None if every row has one."""
    titles: Coded | None = None
    sessions: Coded | None = None
    order: Order | None = None
    """Where the order of the clicks comes from; "time" if and only if there are times."""
    kept: NDArray[np.int64] | None = None
    """Which rows of the log these are, if some were dropped."""
    n_dropped: int = 0
    steps: tuple[str, ...] = ()
    """What was done to them."""


def rows_of_frame(
    frame: Any,
    user: str,
    item: str,
    time_column: str | None = None,
    title_column: str | None = None,
    missing: Missing = "error",
    order: str | None = None,
    session_column: str | None = None,
) -> Rows:
    """Return the complete rows of a log that is a pandas, polars or Arrow table."""
    check_missing(missing)
    have, wanted = column_names(frame), {"user": user, "item": item}
    by_name = time_column is None
    time_column, source = order_of_log(order, time_column, have, (user, item, title_column), session_column)
    if strange := [name for name in wanted.values() if name not in have]:
        call = ", ".join(f"{what}={(name if name in have else '...')!r}" for what, name in wanted.items())
        raise ClicksError(
            f"there is no column {strange[0]!r}; the columns are {listed([shown(c) for c in have])}. Say which "
            f"ones to read: bmcd.Clicks.from_frame(frame, {call}).",
            column=strange[0],
        )

    frame = collected(frame, (user, item, time_column, title_column, session_column))

    def coded(name: str | None, missing: Missing, advice: str = "") -> Coded | None:
        return None if name is None else strip(encode(column_of(frame, name), name, missing, advice))

    users, items = coded(user, missing, how_to_drop()), coded(item, missing, how_to_drop())
    assert users is not None
    assert items is not None
    times = untimed = None
    if time_column is not None:
        try:
            times, untimed = clocked(*times_of_column(column_of(frame, time_column), time_column))
        except BadTimeError as error:
            reason = Message(f"{error.reason} (Rows count from 0.)", without_times(by_name))
            raise ClicksError(reason, row=error.place, column=time_column) from None
        if missing == "error" and untimed is not None:
            said = "the time is missing (rows count from 0). "
            reason = Message(said, how_to_drop("a time"), without_times(by_name))
            raise ClicksError(reason, row=int(untimed.argmax()), column=time_column)
    titles, sessions = coded(title_column, "drop"), coded(session_column, missing, how_to_drop("a session"))
    return complete(Rows(users, items, times, untimed, titles, sessions, source))


def rows_of_text(table: TextTable, missing: Missing, text_ids: bool, order: Order | None, by_name: bool) -> Rows:
    """Return the complete rows of a log that is a text file; ids become int64 where nothing is lost by it.

    ``by_name`` says that a column of times was chosen because it is called so.
    """
    found: dict[str, list[pa.Array]] = {}
    reader = TimeReader(empty=Message("the time is empty. ", how_to_drop("a time")) if missing == "error" else None)
    problems: list[tuple[int, str, str]] = []
    times = untimed = later = None
    try:
        for piece in table.pieces():
            for which, texts in piece.items():
                if which == "time_column":
                    reader.read(texts)
                else:
                    found.setdefault(which, []).append(texts)
        if "time_column" in table.wanted:
            times, untimed = clocked(*reader.times())
    except BadTimeError as error:
        problems.append((error.place, "time_column", Message(error.reason, without_times(by_name))))
    except ClicksError as error:
        if not found:
            raise
        later = error  # the rows before it may have something wrong too

    def coded(which: str, whole: bool = False, needed: str = "") -> Coded | None:
        if which not in table.wanted:
            return None
        own = encode_text(pa.chunked_array(found.pop(which, []), pa.string()), whole)  # the text is freed here
        if needed and missing == "error" and (lacks := own.codes < 0).any():
            what = f"{table.wanted[which]} id" if needed != "a session" else "session"
            advice = how_to_drop() if needed != "a session" else how_to_drop(needed)
            problems.append((int(lacks.argmax()), which, Message(f"the {what} is empty. ", advice)))
        return own

    users, items = coded("user", not text_ids, "a user"), coded("item", not text_ids, "an item")
    titles, sessions = coded("title_column"), coded("session_column", needed="a session")
    if problems:
        row, which, reason = min(problems, key=lambda problem: problem[0])
        raise table.error(reason, row, which) from None
    if later is not None:
        raise later
    assert users is not None
    assert items is not None
    source: Order | None = order if times is None else "time"
    rows = complete(Rows(users, items, times, untimed, titles, sessions, source))
    return rows if text_ids else rows._replace(users=whole_texts(rows.users), items=whole_texts(rows.items))


def without_times(by_name: bool) -> Message:
    """Say how a log is read without its times, if they are in a column that nobody has named."""
    if not by_name:
        return Message("")
    said = " The column 'time' is used because of its name; to read the log without an order, say "
    return Message(said, Option("order", "none"), ".")


def order_of_log(
    order: str | None,
    time_column: str | None,
    have: Sequence[str],
    taken: Iterable[str | None],
    session_column: str | None,
) -> tuple[str | None, Order | None]:
    """Return which column has the times, if any, and where the order of the clicks comes from.

    A column named "time" is used unless ``order`` says otherwise, or it is one of the ``taken`` columns.
    """
    column, source = _order_of_log(order, time_column, have, (*taken, session_column))
    if source is None and session_column is not None:
        said = f"the sessions in {session_column!r} need a log with an order. Say where it is: "
        raise ClicksError(Message(said, Option("time_column", "..."), " or ", Option("order", "rows"), "."))
    return column, source


def _order_of_log(
    order: str | None, time_column: str | None, have: Sequence[str], taken: Iterable[str | None]
) -> tuple[str | None, Order | None]:
    if order not in (None, "time", "rows", "none"):
        raise ClicksError(f"order must be 'time', 'rows' or 'none', not {shown(order)}.")
    if order in ("rows", "none"):
        if time_column is not None:
            said = f"order={order!r} and a time column contradict each other. Leave out one of them."
            raise ClicksError(said)
        return None, "rows" if order == "rows" else None
    if time_column is None and "time" in have and "time" not in taken:
        time_column = "time"
    if order == "time" and time_column is None:
        said = Message("order='time' needs a column of times. Name it: ", Option("time_column", "..."), ".")
        raise ClicksError(said)
    return time_column, None if time_column is None else "time"


def complete(rows: Rows) -> Rows:
    """Leave out rows that lack a user, an item or a time, with the ids that only they have; report what was done.

    >>> rows = Rows(Coded(np.array([0, 1, 0]), np.array([7, 8])), Coded(np.array([0, -1, 1]), np.array([1, 2])))
    >>> complete(rows).users.ids.tolist(), complete(rows).steps
    ([7], ('dropped 1 of 3 rows: 1 without an item',))
    """
    lacks = {"a user": rows.users.codes < 0, "an item": rows.items.codes < 0}
    if rows.untimed is not None:
        lacks["a time"] = rows.untimed
    if rows.sessions is not None:
        lacks["a session"] = rows.sessions.codes < 0
    gone = np.logical_or.reduce(list(lacks.values()))
    steps = [*_stripped(rows.users, "user"), *_stripped(rows.items, "item")]
    if gone.any():
        counts = and_list([f"{int(lack.sum()):,} without {what}" for what, lack in lacks.items() if lack.any()])
        kept = np.flatnonzero(~gone)
        n_gone = len(gone) - len(kept)
        if not len(kept):
            raise ClicksError(f"all {n_gone:,} rows were dropped, {counts}, so there are no clicks to read.")
        steps.append(f"dropped {n_gone:,} of {len(gone):,} rows: {counts}")
        own = {
            name: column._replace(codes=column.codes[kept])
            for name in ("users", "items", "titles", "sessions")
            if (column := getattr(rows, name)) is not None
        }
        own |= {name: by_appearance(own[name]) for name in ("users", "items")}
        times = None if rows.times is None else rows.times[kept]
        rows = rows._replace(**own, times=times, untimed=None, kept=kept, n_dropped=n_gone)
    pa.default_memory_pool().release_unused()  # what was parsed is no longer needed
    steps += [*_lookalikes(rows.users, "user"), *_lookalikes(rows.items, "item")]
    return rows._replace(steps=tuple(steps))


def _stripped(column: Coded, what: str) -> list[str]:
    if not column.stripped:
        return []
    examples = listed([shown(text) for text in column.stripped], 2)
    return [f"blanks around {len(column.stripped):,} {what} ids stripped: {examples}"]


def _lookalikes(column: Coded, what: str) -> list[str]:
    if not (pairs := lookalikes(column.ids)):
        return []
    one, other = (ascii(text)[:60] for text in pairs[0])
    return [
        f"{len(pairs):,} {what} ids look like another one (they differ in Unicode normalisation or by invisible "
        f"characters) and were kept apart: {one} and {other}"
    ]
