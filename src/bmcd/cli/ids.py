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

    texts = [texts_of(ids) for ids in (known.users, known.items)]
    is_known = [
        [str(one) in of for one in own.tolist()] for own, of in zip((test.users, test.items), texts, strict=True)
    ]
    if all(map(all, is_known)):
        return test
    by_user = test.of_users(is_known[0])
    found = by_user.of_items(is_known[1], keep_outside=test.order is not None)
    n_kept, n_clicks = found.n_clicks, test.n_clicks
    strangers = [sum(not one for one in side) for side in is_known]
    of = f"{strangers[0]:,} users or {strangers[1]:,} items"
    said = f"{n_clicks - n_kept:,} of {n_clicks:,} test clicks are of {of}"
    if not n_kept:
        raise ClicksError(f"{said} that the model does not know, so there is nothing left to test on.")
    fate = "left out" if test.order is None else "clicks on such items count as misses, such users are left out"
    complain(f"{said} that the model does not know: {fate}.", "note: ")
    n_new = int((test.per_user > 0).sum() - (by_user.per_user > 0).sum())
    return found.as_test(found.split, found.n_new_users + n_new)


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
