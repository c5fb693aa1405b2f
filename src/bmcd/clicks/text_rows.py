"""The rows of a log, and titles, out of a text table. Every text is looked at once, however often it comes."""

from __future__ import annotations

import re
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.ids import Coded, Missing, how_to_drop, objects
from bmcd.clicks.rows import Rows, complete
from bmcd.clicks.text_files import TextTable
from bmcd.clicks.times import BadTimeError, Order, TimeReader, to_clock
from bmcd.errors import Message
from bmcd.system.text import shown

# Only these are turned into numbers: writing the number down gives the very same text again.
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
# How many times are read at once.
PIECE = 1 << 16


def rows_of_text(table: TextTable, missing: Missing, text_ids: bool, order: Order | None = None) -> Rows:
    """Return the complete rows of a log; whole numbers in plain form become numbers, unless `text_ids`."""
    users, items, titles, sessions = _Codes(missing), _Codes(missing), _Codes("drop"), _Codes("drop")
    times = _Times(table, missing)
    user_at = item_at = title_at = time_at = session_at = -1
    line, row = 0, [""]
    try:
        for line, row in table:
            if user_at < 0:
                at = dict(zip(table.wanted, table.positions, strict=True))
                user_at, item_at = at["user"], at["item"]
                title_at, time_at = at.get("title_column", -1), at.get("time_column", -1)
                session_at = at.get("session_column", -1)
            users.codes.append(users[row[user_at]])
            items.codes.append(items[row[item_at]])
            if title_at >= 0:
                titles.codes.append(titles[row[title_at]])
            if session_at >= 0:
                sessions.codes.append(sessions[row[session_at]])
            if time_at >= 0:
                times.append(row[time_at], line)
    except _EmptyError:
        which = "item" if row[user_at].strip() else "user"
        raise table.error(Message(f"the {table.wanted[which]} id is empty. ", how_to_drop()), line, which) from None
    times.read()
    rows = complete(
        Rows(
            users.coded(),
            items.coded(),
            times.clock() if time_at >= 0 else None,
            titles.coded() if title_at >= 0 else None,
            sessions.coded() if session_at >= 0 else None,
            "time" if time_at >= 0 else order,
        )
    )
    if text_ids:
        return rows
    own = (column._replace(ids=_numbers(column.ids)) for column in (rows.users, rows.items))
    return rows._replace(users=next(own), items=next(own))


def titles_of_text(table: TextTable, whole: bool) -> dict[Any, str]:
    """Return the titles by item; `whole`: the items of the log are whole numbers."""
    found: dict[Any, str] = {}
    for line, row in table:
        item, title = (row[place].strip() for place in table.positions)
        if not item:
            name = table.wanted["title_item"]
            raise table.error(f"the {name} id is empty. Every title needs an item.", line, "title_item")
        key = int(item) if whole and WHOLE.fullmatch(item) else item
        if title and found.setdefault(key, title) != title:
            raise table.error(f"item {shown(item)} has two titles. Keep one of them.", line, "title")
    return found


class _EmptyError(Exception):
    """A row lacks an id."""


class _Codes(dict[str, int]):
    """Numbers ids as they come, without the blanks around them; -1 is for none, if that is no error."""

    def __init__(self, missing: Missing) -> None:
        super().__init__()
        self.missing = missing
        self.codes = array("i")
        self.ids: list[str] = []
        self.stripped: list[str] = []

    def __missing__(self, text: str) -> int:
        own = text.strip()
        if not own:
            if self.missing == "error":
                raise _EmptyError
            code = -1
        elif own != text:
            self.stripped.append(text)
            code = self[own]
        else:
            code = len(self.ids)
            self.ids.append(own)
        self[text] = code
        return code

    def coded(self) -> Coded:
        codes = np.frombuffer(self.codes, dtype=np.int32)
        return Coded(codes, objects(self.ids), tuple(self.stripped))


class _Times:
    """Reads the times of a table piece by piece, with the line of one that is wrong."""

    def __init__(self, table: TextTable, missing: Missing) -> None:
        self.table, self.missing, self.reader = table, missing, TimeReader()
        self.texts: list[str] = []
        self.lines = array("q")

    def append(self, text: str, line: int) -> None:
        self.texts.append(text)
        self.lines.append(line)
        if len(self.texts) == PIECE:
            self.read()

    def read(self) -> None:
        blank = -1
        if self.missing == "error":
            blank = next((place for place, text in enumerate(self.texts) if not text.strip()), -1)
        try:
            self.reader.read(self.texts if blank < 0 else self.texts[:blank])
        except BadTimeError as error:
            raise self.table.error(error.reason, self.lines[error.place], "time_column") from None
        if blank >= 0:
            reason = Message("the time is empty. ", how_to_drop("a time"))
            raise self.table.error(reason, self.lines[blank], "time_column")
        self.texts, self.lines = [], array("q")

    def clock(self) -> NDArray[Any]:
        try:
            return to_clock(self.reader.times())
        except BadTimeError as error:
            raise self.table.error(error.reason, None, "time_column") from None


def _numbers(texts: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in plain form as int64, if all are; else the texts."""
    if len(texts) and all(map(WHOLE.fullmatch, texts)):
        numbers = list(map(int, texts))
        if min(numbers) >= -(2**63) and max(numbers) < 2**63:
            return np.array(numbers, dtype=np.int64)
    return texts
