"""HTML made of plain text: everything but the tags made here is escaped, so that no title can become markup."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from bmcd.utils import plain

# Longer titles are cut: nobody reads on, and a table must not grow without end.
LONGEST_TITLE = 120
_SPACE_BEFORE_PERCENT = re.compile(r"(?<=\d) %")
_WITHOUT_END_TAG = frozenset(("br", "input", "meta", "col", "img", "link"))


class Html(str):
    """Markup that goes into the page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return itself: templates put it in without escaping."""
        return self


def tag(name: str, /, *children: Any, **attributes: Any) -> Html:
    """Return an element. Text among the children is escaped, `Html` is not, lists are joined, None is left out.

    Of the attributes, ``cls`` is the class, `_` stands for `-`, True has no value, and None or False is left out.

    >>> print(tag("p", "a < b ", tag("b", "&"), cls="x", data_k=5, hidden=True))
    <p class="x" data-k="5" hidden>a &lt; b <b>&amp;</b></p>
    """
    start = name
    for key, value in attributes.items():
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        if value is True:
            start += f" {key}"
        elif value is not None and value is not False:
            start += f' {key}="{html.escape(plain(value), quote=True)}"'
    return Html(f"<{start}>" if name in _WITHOUT_END_TAG else f"<{start}>{escape(children)}</{name}>")


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
    # A number and its percent sign stay on one line.
    return Html(html.escape(_SPACE_BEFORE_PERCENT.sub("\u00a0%", plain(content)), quote=True))


def short_title(title: object) -> str:
    """Return a title or an id, cut to 120 characters.

    >>> len(short_title("x" * 10_000))
    120
    """
    text = plain(title).strip() or "(no title)"
    return text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…"


def title_tag(title: object) -> Html:
    """Return a title in an element of its own, so that its direction of writing changes nothing around it."""
    return tag("bdi", short_title(title))


def paragraphs(*texts: str) -> list[Html]:
    """Return a paragraph for each text that is not empty."""
    return [tag("p", text) for text in texts if text]


def bullets(texts: Iterable[Any], cls: str | None = None) -> Html:
    """Return a list with a bullet for each text."""
    return tag("ul", [tag("li", text) for text in texts], cls=cls)


def table(
    heads: Sequence[Any], rows: Iterable[Sequence[Any]], *, cls: str | None = None, caption: str | None = None
) -> Html:
    """Return a table; the first column names its rows."""
    head = tag("thead", tag("tr", [tag("th", name, scope="col") for name in heads]))
    body = [tag("tr", tag("th", row[0], scope="row"), [tag("td", cell) for cell in row[1:]]) for row in rows]
    above = tag("caption", caption) if caption else None
    return tag("div", tag("table", above, head, tag("tbody", body), cls=cls), cls="wide")


def json_script(name: str, value: Any) -> Html:
    r"""Return data for scripts, in which nothing can end the element or start another.

    >>> print(json_script("data", ["</script>"]))
    <script type="application/json" id="data">["\u003c/script\u003e"]</script>
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return tag("script", Html(text), type="application/json", id=name)
