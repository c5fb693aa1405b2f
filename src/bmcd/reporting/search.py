"""What the reader can look up: every item, and the users shown. Data for report.js, which shows it as text."""

from __future__ import annotations

from typing import Any

from bmcd.reporting.results import Results
from bmcd.system.markup import Html, json_script, short_title, tag

# More items than this, and only the most clicked can be looked up: the page must stay small.
MOST_ITEMS = 5_000


def search_box() -> Html:
    """Return the field to type into, and where matches and answers go; it needs scripts."""
    field = tag("input", type="search", id="find", autocomplete="off", placeholder="an item, or a user shown here")
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

    Users come as the numbers of their cards.
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
    users = [f"user {short_title(each.user)}" for each in results.examples]
    return json_script("lookup", {"items": items, "users": users})
