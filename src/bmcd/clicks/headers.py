"""The columns of a file: which are wanted, by which argument each is named, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bmcd.errors import Message, Option
from bmcd.system.text import listed, shown

# From all columns of a file to those wanted, by the argument that names each.
Names = Callable[[list[str]], dict[str, str]]
# What such columns are often called.
OFTEN = {
    "user": ("user", "customer", "client", "visitor", "session", "who"),
    "item": ("item", "product", "article", "sku", "what"),
    "title": ("title", "name", "label"),
    "time": ("time", "date", "when", "stamp"),
}


class WrongColumn(NamedTuple):
    """A column that is not there once, and what to do about it."""

    name: str
    reason: Message


def wrong_header(header: Sequence[str], wanted: Mapping[str, str]) -> WrongColumn | None:
    """Return the first column wanted that is not there, or there several times.

    >>> print(wrong_header(["who", "item"], {"user": "user", "item": "item"}).reason)
    there is no column 'user'; the columns are 'who', 'item'. Say which one it is: user='who'.
    """
    for argument, name in wanted.items():
        n_there = header.count(name)
        if n_there > 1:
            return WrongColumn(name, Message(f"the column {name!r} occurs {n_there} times. Rename all but one."))
        if not n_there:
            said = f"there is no column {name!r}; the columns are {listed([shown(c) for c in header])}. "
            if len(header) == 1:
                advice = Message("If there are more, say what stands between them: ", Option("delimiter", "|"))
            else:
                advice = Message("Say which one it is: ", Option(argument, _likely(header, argument, wanted)))
            return WrongColumn(name, Message(said, advice, "."))
    return None


def _likely(header: Sequence[str], argument: str, wanted: Mapping[str, str]) -> str:
    """Return a column that may be the one meant, for an example."""
    left = [name for name in header if 0 < len(name) < 40 and name not in wanted.values()] or ["..."]
    role = argument.removesuffix("_column").removeprefix("title_")
    return next((name for name in left if any(word in name.lower() for word in OFTEN[role])), left[0])
