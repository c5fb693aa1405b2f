"""Titles of items: out of dicts, of frames of their own, and of the log itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.frames import collected, column_names, column_of, columns
from bmcd.clicks.ids import WHOLE, Coded, encode, is_unicode, objects
from bmcd.clicks.text_files import TextTable
from bmcd.errors import ClicksError
from bmcd.utils import shown


def titles_for(
    items: NDArray[Any], titles: Mapping[Any, Any]
) -> tuple[NDArray[np.object_], NDArray[np.bool_], list[str]]:
    """Return the title of each item, or its id if it has none; whether it has one; and what was done.

    >>> titles_for(np.array([7, 8]), {7: "Seven", 9: "Nine"})[::2]
    (array(['Seven', '8'], dtype=object), ['1 titles of items nobody clicked left out'])
    """
    # NaN is what frames write, and dicts made of them hold, where there is no text.
    texts = {key: str(text) for key, text in titles.items() if text is not None and text == text}
    # Blanks around the ids of logs are stripped, and must not keep a title from its item.
    own = items.tolist()
    known = set(own)
    named = {_as_known(key, known): text for key, text in texts.items() if text.strip()}
    for key, text in named.items():
        if not is_unicode(text):
            raise ClicksError(f"the title of item {shown(key)} is not valid Unicode: {shown(text)}.")
    titled = np.array([key in named for key in own])
    if not titled.any():
        example = f"{shown(next(iter(named)))} against {shown(own[0])}" if named else "there are none"
        raise ClicksError(f"no title belongs to a clicked item ({example}). Check the item ids of the titles.")
    unused = len(named) - int(titled.sum())
    steps = [f"{unused} titles of items nobody clicked left out"] if unused else []
    return objects([named.get(key, str(key)) for key in own]), titled, steps


def _as_known(key: Any, known: set[Any]) -> Any:
    return key.strip() if isinstance(key, str) and key not in known else key


def titles_of_frame(
    frame: Any, item: str | None, title: str | None, usual: str = "item"
) -> tuple[dict[Any, str], list[str]]:
    """Return the titles by item out of a frame, and what was found out about its columns (see `title_columns`).

    An item may be repeated, but not with another title.
    """
    import pandas as pd

    item, title, steps = title_columns(column_names(frame), item, title, usual)
    frame = collected(frame, (item, title))
    (texts,) = columns(frame, title)
    own = encode(column_of(frame, item), item, advice="Every title needs an item.")
    found: dict[int, str] = {}
    for row in np.flatnonzero(~pd.isna(texts)).tolist():
        text = str(texts[row])
        if found.setdefault(int(own.codes[row]), text) != text:
            reason = f"item {shown(own.ids[own.codes[row]])} has two titles (rows count from 0). Keep one of them."
            raise ClicksError(reason, row=row, column=title)
    keys = own.ids.tolist()
    return {keys[code]: text for code, text in found.items()}, steps


def titles_of_text(table: TextTable, whole: bool) -> dict[Any, str]:
    """Return the titles by item out of a text file; `whole`: the items of the log are whole numbers."""
    found: dict[Any, str] = {}
    for line, row in table.rows():
        item, title = (row[place].strip() for place in table.positions)
        if not item:
            name = table.wanted["title_item"]
            raise table.error_at(f"the {name} id is empty. Every title needs an item.", line, "title_item")
        key = int(item) if whole and WHOLE.fullmatch(item) else item
        if title and found.setdefault(key, title) != title:
            raise table.error_at(f"item {shown(item)} has two titles. Keep one of them.", line, "title")
    return found


def title_columns(
    have: list[str], item: str | None, title: str | None, usual: str = "item"
) -> tuple[str, str, list[str]]:
    """Return which column of titles has the items and which the texts, and what was found out without being told.

    Of two columns, one that is not named is the other one; the first has the items if neither is.

    >>> title_columns(["sku", "name"], None, None)
    ('sku', 'name', ["titles of the column 'name', by the items of the column 'sku'"])
    """
    items = [item] if item is not None else [usual, "item"]
    texts = [title] if title is not None else ["title"]
    own = next((name for name in items if name in have), None)
    text = next((name for name in texts if name in have and name != own), None)
    told = own is not None and text is not None
    if not told and len(have) == 2:
        first, second = have
        if own is None and item is None:
            own = first if text != first else second
        if text is None and title is None:
            text = second if own != second else first
    own, text = own or items[0], text or texts[0]
    guessed = not told and own in have and text in have
    return own, text, [f"titles of the column {text!r}, by the items of the column {own!r}"] if guessed else []


def titles_of_rows(items: Coded, titles: Coded) -> tuple[dict[Any, str], list[str]]:
    """Return the first title of every item that has one, by its id, and what there is to say.

    >>> items = Coded(np.array([0, 1, 1, 0]), np.array([7, 8]))
    >>> titles_of_rows(items, Coded(np.array([-1, 0, 1, -1]), np.array(["Eight", "Acht"])))
    ({8: 'Eight'}, ["1 items have several titles in the log, of which the first was kept: 8 is 'Eight'"])
    """
    named = titles.codes >= 0
    item_codes, title_codes = items.codes[named].astype(np.int64), titles.codes[named].astype(np.int64)
    own, first = np.unique(item_codes, return_index=True)
    found = dict(zip(items.ids[own].tolist(), map(str, titles.ids[title_codes[first]]), strict=True))
    pairs = np.unique(item_codes * len(titles.ids) + title_codes) // max(len(titles.ids), 1)
    several = items.ids[np.flatnonzero(np.bincount(pairs) > 1)].tolist()
    if not several:
        return found, []
    example = f"{shown(several[0])} is {shown(found[several[0]])}"
    return found, [f"{len(several):,} items have several titles in the log, of which the first was kept: {example}"]
