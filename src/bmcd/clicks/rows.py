"""The rows of a log, from a file or a frame: ids, times and sessions as arrays, checked and complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bmcd.clicks.frames import collected, column_names, column_of
from bmcd.clicks.ids import (
    Coded,
    Missing,
    by_appearance,
    encode,
    encode_text,
    how_to_drop,
    lookalikes,
    strip,
    whole_texts,
)
from bmcd.clicks.text_files import TextTable, wrong_header
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


class LogColumns(NamedTuple):
    """Which columns of a log to read, by the arguments that name them, and how."""

    user: str = "user"
    item: str = "item"
    title_column: str | None = None
    time_column: str | None = None
    session_column: str | None = None
    order: str | None = None
    missing: Missing = "error"

    def named(self) -> dict[str, str]:
        """Return the columns that are given, by argument."""
        own = {name: value for name, value in self._asdict().items() if name not in ("order", "missing")}
        return {name: value for name, value in own.items() if value is not None}

    def check(self, titles: Any) -> None:
        """Refuse what is not known or contradicts itself."""
        if self.missing not in ("error", "drop"):
            raise ClicksError(f"missing must be 'error' or 'drop', not {shown(self.missing)}.")
        if self.order not in (None, "time", "rows", "none"):
            raise ClicksError(f"order must be 'time', 'rows' or 'none', not {shown(self.order)}.")
        for (one, name), (two, other) in combinations(self.named().items(), 2):
            if name == other:
                raise ClicksError(f"{one} and {two} are both {name!r}; they must be two different columns.")
        if titles is not None and self.title_column is not None:
            raise ClicksError("titles and title_column are two sources of titles. Give one of them.")
        if self.order in ("rows", "none") and self.time_column is not None:
            raise ClicksError(
                f"order={self.order!r} and a time column contradict each other. Leave out one of them."
            )

    def among(self, have: Sequence[str]) -> dict[str, str]:
        """Return the columns to read; one named "time" has the times unless `order` or its other use forbids it."""
        found = self.named()
        if self.order not in ("rows", "none") and "time" in have and "time" not in found.values():
            found.setdefault("time_column", "time")
        if self.order == "time" and "time_column" not in found:
            said = "order='time' needs a column of times. Name it: "
            raise ClicksError(Message(said, Option("time_column", "..."), "."))
        if self.session_column is not None and self.order_of(found) is None:
            said = f"the sessions in {self.session_column!r} need a log with an order. Say where it is: "
            raise ClicksError(Message(said, Option("time_column", "..."), " or ", Option("order", "rows"), "."))
        return found

    def order_of(self, found: Mapping[str, str]) -> Order | None:
        """Return where the order of the clicks comes from, if these columns are read."""
        return "time" if "time_column" in found else "rows" if self.order == "rows" else None

    def without_times(self) -> Message:
        """Say how the log is read without its times, if they are in a column that nobody has named."""
        if self.time_column is not None:
            return Message("")
        said = " The column 'time' is used because of its name; to read the log without an order, say "
        return Message(said, Option("order", "none"), ".")


NEEDED = {"user": "a user and an item", "item": "a user and an item", "session_column": "a session"}
"""What every row must have."""
CODED = ("user", "item", "title_column", "session_column")


def rows_of_frame(frame: Any, asked: LogColumns) -> Rows:
    """Return the complete rows of a log that is a pandas, polars or Arrow table."""
    have = column_names(frame)
    wanted = asked.among(have)
    if wrong := wrong_header(have, wanted):
        call = ", ".join(f"{what}={(name if name in have else '...')!r}" for what, name in wanted.items())
        whole = Message(wrong.reason, f" The call is bmcd.Clicks.from_frame(frame, {call}).")
        raise ClicksError(whole, column=wrong.name)
    frame = collected(frame, wanted.values())
    own: dict[str, Coded] = {}
    for which in (name for name in CODED if name in wanted):
        missing: Missing = asked.missing if which in NEEDED else "drop"
        advice = how_to_drop(NEEDED.get(which, ""))
        own[which] = strip(encode(column_of(frame, wanted[which]), wanted[which], missing, advice))
    times = untimed = None
    if (name := wanted.get("time_column")) is not None:
        try:
            times, untimed = clocked(*times_of_column(column_of(frame, name), name))
        except BadTimeError as error:
            reason = Message(f"{error.reason} (Rows count from 0.)", asked.without_times())
            raise ClicksError(reason, row=error.place, column=name) from None
        if asked.missing == "error" and untimed is not None:
            said = "the time is missing (rows count from 0). "
            reason = Message(said, how_to_drop("a time"), asked.without_times())
            raise ClicksError(reason, row=int(untimed.argmax()), column=name)
    return complete(_rows(own, times, untimed, asked.order_of(wanted)))


def rows_of_text(table: TextTable, asked: LogColumns, text_ids: bool) -> Rows:
    """Return the complete rows of a log that is a text file; ids become int64 where nothing is lost by it."""
    is_needed = asked.missing == "error"
    found: dict[str, list[pa.Array]] = {}
    reader = TimeReader(empty=Message("the time is empty. ", how_to_drop("a time")) if is_needed else None)
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
        problems.append((error.place, "time_column", Message(error.reason, asked.without_times())))
    except ClicksError as error:
        if not found:
            raise
        later = error  # the rows before it may have something wrong too
    own: dict[str, Coded] = {}
    for which in (name for name in CODED if name in table.wanted):
        is_whole = which in ("user", "item") and not text_ids
        own[which] = encode_text(pa.chunked_array(found.pop(which, []), pa.string()), is_whole)  # frees the text
        if is_needed and which in NEEDED and (lacks := own[which].codes < 0).any():
            what = "session" if which == "session_column" else f"{table.wanted[which]} id"
            said = Message(f"the {what} is empty. ", how_to_drop(NEEDED[which]))
            problems.append((int(lacks.argmax()), which, said))
    if problems:
        row, which, reason = min(problems, key=lambda problem: problem[0])
        raise table.error(reason, row, which) from None
    if later is not None:
        raise later
    rows = complete(_rows(own, times, untimed, asked.order_of(table.wanted)))
    return rows if text_ids else rows._replace(users=whole_texts(rows.users), items=whole_texts(rows.items))


def _rows(own: Mapping[str, Coded], times: Any, untimed: Any, order: Order | None) -> Rows:
    columns = (own["user"], own["item"], times, untimed, own.get("title_column"), own.get("session_column"))
    return Rows(*columns, order)


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
