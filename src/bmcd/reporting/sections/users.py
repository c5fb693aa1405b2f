"""The section about single users: what they clicked, what they are recommended."""

from __future__ import annotations

import math
from typing import Any

from bmcd.reporting.facts import Facts, View
from bmcd.reporting.markup import Html, short, table, tag, titled
from bmcd.reporting.people import Person
from bmcd.reporting.sections import by_view, section, titles_of
from bmcd.reporting.words import percent
from bmcd.system.text import and_list

CLICKS_SHOWN = 15
# Groups to which a user belongs with less than this are not named.
LEAST_MEMBERSHIP = 0.05


def examples(facts: Facts, people: list[Person]) -> Html:
    """Users to look at one by one."""
    titles = titles_of(facts)
    widest = max(
        (
            float(view.lists.values["probability"][one.row].max(initial=0.0))
            for view in facts.views
            for one in people
        ),
        default=1.0,
    )
    cards = [_card(facts, one, titles, widest or 1.0, at) for at, one in enumerate(people)]
    picker = tag(
        "p",
        tag("label", "Show ", for_="person"),
        tag(
            "select",
            [tag("option", f"user {short(str(one.user))}", value=at) for at, one in enumerate(people)],
            id="person",
        ),
        cls="control",
    )
    said = (
        "What some users clicked, and what is recommended to them. The probability is that of an item being among "
        "the user's next clicks; ± is how far it may be off because the calculation is finite."
    )
    return section("users", "Example users", tag("p", said), picker, tag("div", cards, id="people"))


def _card(facts: Facts, one: Person, titles: list[str], widest: float, at: int) -> Html:
    own = [f"group {c} ({percent(p)})" for c, p in one.memberships if p >= LEAST_MEMBERSHIP]
    belongs = f" Belongs to {and_list(own)}." if own and facts.model.n_clusters_ > 1 else ""
    n = len(one.clicked)
    clicked = [tag("li", titled(titles[i])) for i in one.clicked[:CLICKS_SHOWN]]
    if n > CLICKS_SHOWN:
        clicked.append(tag("li", f"and {n - CLICKS_SHOWN:,} more"))
    return tag(
        "article",
        tag("h3", "User ", tag("bdi", short(str(one.user)))),
        tag("p", f"{n:,} click{'' if n == 1 else 's'} to learn from.{belongs}"),
        tag(
            "div",
            tag("div", tag("h4", "Clicked"), tag("ul", clicked) if clicked else tag("p", "Nothing.")),
            tag("div", by_view(facts, lambda view: _recommended(facts, view, one, titles, widest))),
            cls="beside",
        ),
        cls="card person",
        data_user=at,
    )


def _recommended(facts: Facts, view: View, one: Person, titles: list[str], widest: float) -> list[Any]:
    items = view.lists.items[one.row]
    rows = []
    n_hits = 0
    for place, item in enumerate(items.tolist()):
        if item < 0:
            continue
        p, error = (float(view.lists.values[name][one.row, place]) for name in ("probability", "mcse"))
        hit = item in one.kept_aside
        n_hits += hit
        number = percent(p) + (f" ± {100 * error:.1f}" if math.isfinite(error) else "")
        bar = tag(
            "span", tag("span", style=f"width: {100 * p / widest:.1f}%", cls="hit" if hit else None), cls="bar"
        )
        mark = tag("strong", " ✓ hit") if hit else None
        rows.append((titled(titles[item]), [bar, number, mark]))
    if not rows:
        return [tag("h4", "Recommended"), tag("p", "Nothing: everything is clicked already.")]
    said = ""
    if facts.test is not None:
        kept = len(one.kept_aside)
        said = f"{n_hits} of {len(rows)} were among the {kept} click{'' if kept == 1 else 's'} kept aside."
    return [
        tag("h4", f"Recommended (k = {view.k})"),
        table(("item", "probability"), rows, cls="list"),
        tag("p", said),
    ]
