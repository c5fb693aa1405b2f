"""The section "Example users": what some users clicked, and what is recommended to them."""

from __future__ import annotations

import math
from typing import Any

from bmcd.markup import Html, bullets, short_title, table, tag, title_tag
from bmcd.reporting.example_users import ExampleUser
from bmcd.reporting.page import Section, for_each_k, item_tag
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import counted, group_word, own_ranking, percent, split, test_clicks
from bmcd.utils import and_list

MOST_CLICKS = 15
# Groups to which a user belongs with a smaller probability are not named.
LEAST_MEMBERSHIP = 0.05


def section(results: Results) -> Section:
    """Return a card for each example user; scripts show one at a time."""
    text = (
        "What some users clicked, and what is recommended to them. The probability is that of an item being among "
        "the user's next k clicks."
    )
    if any((for_k.lists.values["mcse"] > 0).any() for for_k in results.by_k):
        text += " ± is its error because the calculation is finite."
    if own := own_ranking(results):
        text += f" {own}"
    if results.test is not None:
        text += f" {split(results.by_k[-1])}"
    names = [f"user {short_title(each.user)}" for each in results.examples]
    options = [tag("option", name, value=place) for place, name in enumerate(names)]
    picker = tag("p", tag("label", "Show ", for_="person"), tag("select", options, id="person"), cls="control")
    rows = [each.row for each in results.examples]
    highest = max(float(for_k.lists.values["probability"][rows].max(initial=0.0)) for for_k in results.by_k)
    cards = [_card(results, each, place, highest or 1.0) for place, each in enumerate(results.examples)]
    return Section("users", "Example users", [tag("p", text), picker, tag("div", cards, id="people")])


def _card(results: Results, user: ExampleUser, place: int, highest: float) -> Html:
    n_clicks = len(user.clicked)
    clicked: list[Any] = [item_tag(results, column) for column in user.clicked[:MOST_CLICKS]]
    clicked += [f"and {n_clicks - MOST_CLICKS:,} more"] if n_clicks > MOST_CLICKS else []
    text = f"{counted(n_clicks, 'click')} to learn from."
    word = group_word(results)
    likely = [f"{word} {c} ({percent(p)})" for c, p in user.memberships if p >= LEAST_MEMBERSHIP]
    if likely and len(user.memberships) > 1:
        text += f" {'Belongs to' if word == 'group' else 'Visits'} {and_list(likely)}."
    left = tag(
        "div",
        tag("h4", "Clicked" if results.people.order is None else "Clicked, the latest first"),
        bullets(clicked) if clicked else tag("p", "Nothing."),
    )
    right = tag("div", for_each_k(results, lambda for_k: _recommended(results, for_k, user, highest)))
    body = [tag("h3", "User ", title_tag(user.user)), tag("p", text), tag("div", left, right, cls="beside")]
    return tag("article", body, cls="card person", data_user=place)


def _recommended(results: Results, for_k: ResultsForK, user: ExampleUser, highest: float) -> list[Any]:
    lists = for_k.lists
    columns = (lists.items, lists.values["probability"], lists.values["mcse"])
    rows, n_hits, relevant = [], 0, for_k.relevant(user.row)
    for item, p, error in zip(*(column[user.row].tolist() for column in columns), strict=True):
        if item < 0:  # fewer than k items are left
            continue
        hit = item in relevant
        n_hits += hit
        number = percent(p) + (f" ± {100 * error:.1f}" if math.isfinite(error) and error > 0 else "")
        bar = tag("span", style=f"width: {100 * p / highest:.1f}%", cls="hit" if hit else None)
        mark = tag("strong", " ✓ hit") if hit else None
        why = tag("small", user.reasons[item], cls="why") if item in user.reasons else None
        rows.append(([item_tag(results, item), why], [tag("span", bar, cls="bar"), number, mark]))
    if not rows:
        return [tag("h4", "Recommended"), tag("p", "Nothing: everything is clicked already.")]
    heading = tag("h4", f"Recommended (k = {for_k.k})")
    said = f"{n_hits} of {len(rows)} were among {test_clicks(for_k)}." if results.test is not None else ""
    text = tag("p", said, cls="note")
    return [heading, table(("item", "probability"), rows, cls="list"), text]
