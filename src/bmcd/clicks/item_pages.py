"""Links and pictures of items, out of a frame or a file such as that of the titles."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bmcd.clicks.frames import column_names, columns
from bmcd.clicks.log import Clicks
from bmcd.clicks.reading import located, read_parquet, usual_delimiter
from bmcd.clicks.text_files import TextTable
from bmcd.errors import ClicksError

LINKS, PICTURES = ("link", "url"), ("image", "picture")
LONGEST = 2000


@dataclass(frozen=True)
class ItemPages:
    """Where to read about items, and what they look like; by the columns of the clicks."""

    links: Mapping[int, str]
    pictures: Mapping[int, str]
    n_refused: int
    """How many addresses were left out: not http, not https, not relative."""


def read_item_pages(source: Any, clicks: Clicks) -> ItemPages:
    """Return the links and pictures of the items of some clicks; others are left out.

    `source` is a frame or the path of a csv, tsv or parquet file: with the items in the column "item", or in the
    first one, links in "link" or "url", pictures in "image" or "picture". The first address of an item counts.
    """
    if not isinstance(source, (str, os.PathLike)):
        names = _wanted(column_names(source))
        return _item_pages(names, zip(*(_texts(source, name) for name in names.values()), strict=True), clicks)
    file = os.fsdecode(source)
    names = {}

    def wanted(have: list[str]) -> dict[str, str]:
        names.update(_wanted(have))
        return names

    with located(file):
        if (usual := usual_delimiter(file, None)) is None:
            frame = read_parquet(file, wanted)
            return _item_pages(names, zip(*(_texts(frame, name) for name in names.values()), strict=True), clicks)
        table = TextTable(file, wanted, usual)
        rows = ([row[place] for place in table.positions] for _, row in table.rows())
        return _item_pages(names, rows, clicks)


def is_safe(address: str) -> bool:
    """Return whether an address is http, https or relative, and nothing that a browser reads in another way.

    >>> [is_safe(text) for text in ("https://a.example/x", "img/1.png", "javascript:alert(1)", "//a.example/x")]
    [True, True, False, False]
    """
    if not address or len(address) > LONGEST or not address.isprintable() or set(address) & set("\\ <>\"'`"):
        return False
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    if parts.scheme in ("http", "https"):
        return bool(parts.netloc)
    return (
        not parts.scheme
        and not parts.netloc
        and not address.startswith("//")
        and ":" not in re.split("[/?#]", address)[0]
    )


def _wanted(have: list[str]) -> dict[str, str]:
    """Return the columns by what they hold: item, link, picture."""
    lower = {name.strip().lower(): name for name in reversed(have)}
    found = {"item": lower.get("item", have[0] if have else "item")}
    for what, usual in (("link", LINKS), ("picture", PICTURES)):
        if name := next((lower[name] for name in usual if name in lower and lower[name] != found["item"]), None):
            found[what] = name
    if len(found) == 1:
        raise ClicksError(
            f"there is no column of links (link or url) nor of pictures (image or picture), but {', '.join(have)}."
        )
    return found


def _texts(frame: Any, name: str) -> list[str]:
    (values,) = columns(frame, name)
    return ["" if value is None or value != value else str(value) for value in values.tolist()]


def _item_pages(names: Mapping[str, str], rows: Iterable[Iterable[str]], clicks: Clicks) -> ItemPages:
    # Ids are compared as text, since those of a file may be numbers or not.
    places = {str(item).strip(): column for column, item in enumerate(clicks.items.tolist())}
    found: dict[str, dict[int, str]] = {"link": {}, "picture": {}}
    refused = 0
    for row in rows:
        fields = dict(zip(names, (text.strip() for text in row), strict=True))
        column = places.get(fields.pop("item"))
        for what, address in fields.items():
            if column is None or not address or column in found[what]:
                continue
            if is_safe(address):
                found[what][column] = address
            else:
                refused += 1
    if not any(found.values()) and not refused:
        raise ClicksError("no link and no picture belongs to a clicked item. Check the ids of the items.")
    return ItemPages(found["link"], found["picture"], refused)
