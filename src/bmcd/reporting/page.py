"""The page around the sections: menu, choice of k, style and script; and what most sections are built of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from string import Template
from typing import Any, NamedTuple

from bmcd.markup import Html, escape, tag, title_tag
from bmcd.plots import Figure
from bmcd.reporting.headlines import Headline, headlines
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.search import search_box, search_data
from bmcd.reporting.sentences import n_groups
from bmcd.reporting.svg import inline_svg

# A light must not be told by its colour alone.
LAMPS = {"good": "✓ ", "look": "! ", "bad": "✕ ", "none": ""}


class Section(NamedTuple):
    """A part of the page with a heading; the menu links to its id."""

    id: str
    title: str
    body: Any
    """`Html`, text, or a list of both."""


def for_each_k(results: Results, make: Callable[[ResultsForK], Any]) -> list[Html]:
    """Return what ``make`` gives for each k; the page shows the first, and scripts let the reader pick another."""
    views = [(for_k.k, make(for_k)) for for_k in results.by_k]
    return [tag("div", body, cls="view", data_k=k, hidden=place > 0) for place, (k, body) in enumerate(views)]


def item_tag(results: Results, column: int) -> Html:
    """Return the title of an item, with its link and its picture if it has them."""
    title = title_tag(results.titles[column])
    if results.table is None:
        return title
    if results.table.links is not None and (link := results.table.links[column]):
        title = tag("a", title, href=link, rel="noopener noreferrer", target="_blank")
    if results.table.pictures is not None and (picture := results.table.pictures[column]):
        image = tag("img", src=picture, alt="", loading="lazy", width=40, height=40, referrerpolicy="no-referrer")
        title = tag("span", image, title, cls="pictured")
    return title


def captioned(figure: Figure, name: str, caption: str) -> Html:
    """Return a figure with its caption; ``name`` must be unique in the page."""
    return tag("figure", inline_svg(figure, name, caption), tag("figcaption", caption))


def make_page(results: Results, title: str, about: str, sections: Sequence[Section]) -> str:
    """Return the page as one HTML text that needs nothing else; ``about`` tells which data these are, and when."""
    clicks = results.clicks
    sizes = f"{clicks.n_users:,} users, {clicks.n_items:,} items"
    sizes += f", {n_groups(results)} of users" if results.grouping else ""
    links = [tag("li", tag("a", section.title, href=f"#{section.id}")) for section in sections]
    strip = for_each_k(
        results, lambda for_k: tag("ul", [_tile(each) for each in headlines(results, for_k)], cls="strip")
    )
    header = tag("header", tag("h1", title), tag("p", sizes), tag("p", about) if about else None, strip)
    menu = tag("nav", tag("ul", links), aria_label="Contents")
    bar = tag("div", menu, _choice_of_k(results), search_box(), cls="menu")
    main = tag("main", [tag("section", tag("h2", title), body, id=name) for name, title, body in sections])
    files = {name: _file(f"report.{name}").strip() for name in ("css", "js")}
    # The parts are put in once; a "$" in them means nothing.
    return Template(_file("template.html")).substitute(
        files,
        title=escape(title),
        body=header + bar + main + search_data(results),
        # Without pictures the page may fetch nothing at all.
        images="data:"
        if results.table is None or results.table.pictures is None or not any(results.table.pictures)
        else "data: http: https: 'self' file:",
    )


def _tile(headline: Headline) -> Html:
    lamp = tag("span", LAMPS[headline.light], cls="lamp")
    value = tag("strong", headline.value)
    return tag(
        "li", tag("span", lamp, headline.label, cls="label"), value, tag("span", headline.text), cls=headline.light
    )


def _choice_of_k(results: Results) -> Html:
    if len(results.by_k) == 1:
        return Html("")
    choices = [
        tag("label", tag("input", type="radio", name="k", value=for_k.k, checked=place == 0), f" {for_k.k}")
        for place, for_k in enumerate(results.by_k)
    ]
    return tag("fieldset", tag("legend", "Items for each user (k):"), choices, cls="picker control")


def _file(name: str) -> str:
    return resources.files("bmcd.reporting").joinpath(name).read_text(encoding="utf-8")
