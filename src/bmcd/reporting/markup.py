"""HTML out of plain text: whatever is not markup made here is escaped, so no title can become markup."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from bmcd.system.text import plain

# Titles longer than this are cut: nobody reads on, and a table must not grow without end.
LONGEST = 120
_PERCENT = re.compile(r"(?<=\d) %")
_VOID = frozenset(("br", "input", "meta", "col"))


class Html(str):
    """Markup that is safe as it is."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """An element. Text is escaped, markup is not, lists are put in a row, None is left out.

    Of attributes, ``cls`` is the class, `_` stands for `-`, True has no value, and None or False leaves it out.

    >>> print(tag("p", "a < b ", tag("b", "&"), cls="x", data_k=5, hidden=True))
    <p class="x" data-k="5" hidden>a &lt; b <b>&amp;</b></p>
    """
    given = []
    for key, value in attributes.items():
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        if value is True:
            given.append(f" {key}")
        elif value is not None and value is not False:
            given.append(f' {key}="{html.escape(plain(value), quote=True)}"')
    inside = "".join(_parts(children))
    return Html(f"<{name}{''.join(given)}>" + ("" if name in _VOID else f"{inside}</{name}>"))


def _parts(children: Iterable[Any]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            yield child
        elif isinstance(child, list | tuple):
            yield from _parts(child)
        else:
            # A number and its sign stay on one line.
            yield html.escape(_PERCENT.sub("\u00a0%", plain(child)), quote=True)


def short(title: str) -> str:
    """A title of bearable length.

    >>> len(short("x" * 10_000))
    120
    """
    clean = plain(title).strip() or "(no title)"
    return clean if len(clean) <= LONGEST else clean[: LONGEST - 1] + "…"


def titled(title: str) -> Html:
    """A title of an item, whose direction of writing changes nothing around it."""
    return tag("bdi", short(title))


def table(
    heads: Sequence[Any], rows: Iterable[Sequence[Any]], *, cls: str = "", caption: str | None = None
) -> Html:
    """A table whose first column names its rows; all others are numbers."""
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in heads]))
    body = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in rows]
    made = tag("table", tag("caption", caption) if caption else None, head, tag("tbody", body), cls=cls or None)
    return tag("div", made, cls="wide")


def json_script(name: str, value: Any) -> Html:
    r"""Data for scripts: nothing in it can end the element or start another.

    >>> print(json_script("data", ["</script>"]))
    <script type="application/json" id="data">["\u003c/script\u003e"]</script>
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Html(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')
