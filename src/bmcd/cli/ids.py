"""Ids as they stand on a command line or in a text file, matched with a model's own, which may be numbers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.errors import ClicksError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bmcd.clicks.table import Clicks


def own_ids(wanted: list[str], known: NDArray[Any], what: str, hint: str) -> list[Any]:
    """The model's ids that read like these; `UnknownIdError` lists those that do not, and ends with ``hint``.

    >>> import numpy as np
    >>> own_ids(["12", "7"], np.array([7, 12]), "user", "")
    [12, 7]
    """
    from bmcd.clicks.ids import positions

    by_text = texts_of(known)
    found = [by_text.get(text, text) for text in wanted]
    positions(found, known, what, hint)  # refuses those it does not know
    return found


def as_known(test: Clicks, known: Clicks) -> Clicks:
    """The test clicks in the ids of the model, where they read the same."""
    from dataclasses import replace

    from bmcd.clicks.ids import objects

    hint = "Leave them out of the test clicks: the model was not fitted to them."
    ids = []
    for own, of, what in ((test.users, known.users, "user"), (test.items, known.items, "item")):
        ids.append(objects(own_ids([str(one) for one in own.tolist()], of, what, hint)))
    return replace(test, users=ids[0], items=ids[1])


def texts_of(known: NDArray[Any]) -> dict[str, Any]:
    """Each id by its text; where 7 and "7" are both ids, "7" means the text."""
    own = known.tolist()
    return {str(value): value for value in own} | {value: value for value in own if isinstance(value, str)}


def ids_in(text: str) -> list[str]:
    """The ids of a list with commas; an id that has a comma itself stands in double quotes.

    >>> ids_in('ann, "b,c"')
    ['ann', 'b,c']
    """
    fields = next(csv.reader([text], skipinitialspace=True), [])
    return [field.strip() for field in fields if field.strip()]


def ids_of_file(path: Path, column: str) -> list[str]:
    """The ids of a text file, one on a line; of csv and tsv files the column of that name, or else the first."""

    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ClicksError(f"is not UTF-8 (byte {error.start + 1}). Save it as UTF-8.", file=str(path)) from error
    marks = {".csv": ",", ".tsv": "\t"}
    if (mark := marks.get(path.suffix.lower())) is None:
        rows = [[line.strip()] for line in text.splitlines()]
    else:
        try:
            rows = list(csv.reader(text.splitlines(), delimiter=mark))
        except csv.Error as error:
            raise ClicksError(f"{error}.", file=str(path)) from error
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    header = [cell.strip() for cell in rows[0]] if rows else []
    at = header.index(column) if column in header else 0
    rows = rows[1:] if column in header else rows
    found = [row[at].strip() for row in rows if len(row) > at and row[at].strip()]
    if not found:
        raise ClicksError(f"there are no {column} ids in it. Write one on each line.", file=str(path))
    return list(dict.fromkeys(found))
