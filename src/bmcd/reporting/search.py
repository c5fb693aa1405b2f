"""What the reader can look up: items, and users with their lists. Data for report.js, which shows it as text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.markup import Html, json_script, short_title, tag
from bmcd.reporting.results import Results

# More items than this, and only the most clicked can be looked up: the page must stay small. Of users those with
# most clicks, or only those shown if there are more items; 5,000 with lists of 5 and 10 take less than 1 MB.
MOST_ITEMS, MOST_USERS = 5_000, 5_000


def search_box() -> Html:
    """Return the field to type into, and where matches and answers go; it needs scripts."""
    field = tag("input", type="search", id="find", autocomplete="off", placeholder="an item or a user")
    return tag(
        "div",
        tag("label", "Find ", for_="find"),
        field,
        tag("ul", id="found", hidden=True),
        tag("p", id="fact", aria_live="polite", hidden=True),
        cls="control search",
    )


def search_data(results: Results) -> Html:
    """Return, for scripts: of each item its title, its clicks, and for each k how often it is recommended and hit.

    Of each user: the name, the number of clicks, the number of the card or -1, and the lists.
    """
    clicks, titles = results.clicks, results.titles
    counts = {}
    for for_k in results.by_k:
        columns = clicks.columns_of(for_k.items.item)
        hits = for_k.items.hits.tolist() if results.test is not None else [None] * len(columns)
        pairs = zip(columns.tolist(), for_k.items.recommended.tolist(), hits, strict=True)
        counts[for_k.k] = {column: [n, hit] for column, n, hit in pairs}
    order = sorted(range(clicks.n_items), key=lambda column: -int(clicks.per_item[column]))[:MOST_ITEMS]
    items: list[list[Any]] = [
        [short_title(titles[column]), int(clicks.per_item[column]), {k: of[column] for k, of in counts.items()}]
        for column in order
    ]
    cards = {each.row: place for place, each in enumerate(results.examples)}
    users = results.people
    rows = sorted(range(users.n_users), key=lambda row: (row not in cards, -int(users.per_user[row])))
    rows = [row for row in rows if row in cards or clicks.n_items <= MOST_ITEMS][: max(MOST_USERS, len(cards))]
    places = np.full(clicks.n_items, -1)
    places[order] = np.arange(len(order))
    people = [
        [
            f"user {short_title(users.users[row])}",
            int(users.per_user[row]),
            cards.get(row, -1),
            _lists(results, row, places),
        ]
        for row in rows
    ]
    return json_script("lookup", {"items": items, "users": people})


def _lists(results: Results, row: int, places: NDArray[np.int64]) -> dict[int, list[int]]:
    """Return for each k the user's items by their places in the data, each with its probability in 1/1000."""
    lists = {}
    for for_k in results.by_k:
        own = for_k.lists.items[row]
        probability = for_k.lists.values["probability"][row]
        there = (own >= 0) & (places[own] >= 0)
        pairs = np.stack([places[own[there]], np.rint(1000 * probability[there]).astype(np.int64)], axis=1)
        lists[for_k.k] = pairs.ravel().tolist()
    return lists
