"""Ids as they stand on a command line or in a text file, matched with a model's own, which may be numbers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.cli.log_files import Layout
from bmcd.cli.output import complain
from bmcd.errors import ClicksError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bmcd.clicks.log import Clicks


def own_ids(wanted: list[str], known: NDArray[Any], what: str, hint: str) -> list[Any]:
    """The model's ids that read like these; `UnknownIdError` lists those that do not, and ends with ``hint``.

    >>> import numpy as np
    >>> own_ids(["12", "7"], np.array([7, 12]), "user", "")
    [12, 7]
    """
    from bmcd.clicks.ids import positions, texts_of

    by_text = texts_of(known)
    found = [by_text.get(text, text) for text in wanted]
    positions(found, known, what, hint)  # refuses those it does not know
    return found


def as_known(test: Clicks, known: Clicks, ignore_unknown: bool) -> Clicks:
    """The test clicks in the ids of the model, where they read the same."""
    from dataclasses import replace

    from bmcd.clicks.ids import objects

    if ignore_unknown:
        test = _only_known(test, known)
    hint = "The model was not fitted to them: leave them out of the test clicks, or say --ignore-unknown."
    ids = []
    for own, of, what in ((test.users, known.users, "user"), (test.items, known.items, "item")):
        ids.append(objects(own_ids([str(one) for one in own.tolist()], of, what, hint)))
    return replace(test, users=ids[0], items=ids[1])


def _only_known(test: Clicks, known: Clicks) -> Clicks:
    """The test clicks whose user and item the model knows; it says how many others there are."""
    from bmcd.clicks.ids import texts_of
    from bmcd.clicks.log import Clicks

    texts = [texts_of(ids) for ids in (known.users, known.items)]
    is_known = [
        [str(one) in of for one in own.tolist()] for own, of in zip((test.users, test.items), texts, strict=True)
    ]
    rows, columns = test.matrix.nonzero()
    kept = [is_known[0][row] and is_known[1][column] for row, column in zip(rows, columns, strict=True)]
    if all(kept):
        return test
    strangers = [sum(not one for one in side) for side in is_known]
    of = f"{strangers[0]:,} users or {strangers[1]:,} items"
    said = f"{kept.count(False):,} of {len(kept):,} test clicks are of {of}"
    if not any(kept):
        raise ClicksError(f"{said} that the model does not know, so there is nothing left to test on.")
    complain(f"{said} that the model does not know: left out.", "note: ")
    import pandas as pd

    pairs = {"user": test.users[rows[kept]], "item": test.items[columns[kept]]}
    return Clicks.from_frame(pd.DataFrame(pairs))


def ids_in(text: str) -> list[str]:
    """The ids of a list with commas; an id that has a comma itself stands in double quotes.

    >>> ids_in('ann, "b,c"')
    ['ann', 'b,c']
    """
    fields = next(csv.reader([text], skipinitialspace=True), [])
    return [field.strip() for field in fields if field.strip()]


def ids_of_file(path: Path, column: str, layout: Layout | None = None) -> list[str]:
    """The ids of a text file, one on a line; of csv and tsv files the column of that name, or else the first."""
    from bmcd.clicks.decoding import TextFile

    layout = layout or Layout()
    text = b"".join(block for _, block in TextFile(str(path), layout.encoding).blocks()).decode()
    lines = text.splitlines()
    mark = layout.mark or {".csv": ",", ".tsv": "\t"}.get(path.suffix.lower())
    if mark is None:
        rows = [[line] for line in lines]
    else:
        try:
            rows = list(csv.reader(lines, delimiter=mark))
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
