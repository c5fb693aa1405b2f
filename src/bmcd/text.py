"""Text for people: values and lists inside sentences, and titles that no terminal or browser obeys."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

# What spreadsheets run as a formula. Plain numbers are none.
_FORMULA = re.compile(r"[\s\0]*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# Marks that turn the direction of writing, and so can make a title look like something else.
_DIRECTION = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(value: object, width: int = 60) -> str:
    """Return the repr of a value, cut so that a huge id cannot flood a message.

    >>> shown("a" * 1000, 8)
    "'aaaaaaa..."
    """
    is_number = getattr(value, "shape", None) == () and hasattr(
        value, "item"
    )  # of NumPy, whose repr names its type
    text = repr(value.item() if is_number else value)  # type: ignore[attr-defined]
    return text if len(text) <= width else text[:width] + "..."


def listed(words: Sequence[str], limit: int = 12) -> str:
    """Join words by commas, only the first few of many.

    >>> listed(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    return ", ".join(words[:limit]) + (f" and {len(words) - limit} more" if len(words) > limit else "")


def and_list(words: Sequence[str]) -> str:
    """Join words as a person would: commas, and "and" before the last.

    >>> and_list(["a", "b", "c"]), and_list(["a"])
    ('a, b and c', 'a')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]])) if words else ""


def plain(text: object) -> str:
    r"""Return text on one line, without anything that a terminal or a browser would obey.

    >>> plain("a\x1b[31m\nb") == "a\ufffd[31m b"
    True
    """
    # Spaces first: line ends and tabs are control characters too.
    return "".join(" " if c.isspace() else "\ufffd" if _is_control(c) else c for c in str(text))


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would run a cell with this text.

    >>> [is_formula(text) for text in ("=1+1", " @SUM(A1)", "-0.5", "+48 123", "A-1")]
    [True, True, False, True, False]
    """
    return _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs") or char in _DIRECTION
