"""Tables of results: HTML for notebooks, in which all text is escaped, and plain text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

from bmcd.utils import plain

# Longer titles are cut, so that a table cannot grow without limit.
LONGEST_TITLE = 120


class Html(str):
    """Markup that goes into the page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the markup, for templates."""
        return self


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element with an end tag. Text among the children is escaped, `Html` is not, lists are joined.

    >>> print(tag("p", "a < b ", tag("b", "&"), title="'x'"))
    <p title="&#x27;x&#x27;">a &lt; b <b>&amp;</b></p>
    """
    pairs = "".join(f' {key}="{html.escape(plain(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{pairs}>{escape(children)}</{name}>")


def escape(content: Any) -> Html:
    """Return content as markup: text escaped, `Html` as it is, lists joined, nothing for None.

    >>> print(escape(["a < b", None, Html("<br>")]))
    a &lt; b<br>
    """
    if content is None:
        return Html("")
    if isinstance(content, Html):
        return content
    if isinstance(content, list | tuple):
        return Html("".join(map(escape, content)))
    return Html(html.escape(plain(content)))


def short_title(title: object) -> str:
    """Return a title or an id, cut to 120 characters.

    >>> len(short_title("x" * 10_000))
    120
    """
    text = plain(title).strip() or "(no title)"
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"


def paragraphs(*texts: str) -> list[Html]:
    """Return a paragraph for each text that is not empty."""
    return [tag("p", text) for text in texts if text]


def bullets(texts: Iterable[Any]) -> Html:
    """Return a list with a bullet for each text."""
    return tag("ul", [tag("li", text) for text in texts])


def table(heads: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Html:
    """Return a table; the first column names its rows."""
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in heads]))
    body = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in rows]
    return tag("div", tag("table", head, tag("tbody", body)))


def text_table(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return the lines of a table in plain text; the first columns are aligned to the left.

    >>> text_table([["model", "hits"], ["EASE", "9"]])
    ['model  hits', 'EASE      9']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligns = [str.ljust if place < left else str.rjust for place in range(len(widths))]
    cells = ([put(text, width) for put, text, width in zip(aligns, row, widths, strict=True)] for row in rows)
    return ["  ".join(own).rstrip() for own in cells]
