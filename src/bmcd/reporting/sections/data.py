"""The section "The data": the clicks that were learned from, and those kept aside."""

from __future__ import annotations

from bmcd import plots
from bmcd.markup import bullets, paragraphs, short_title, table, tag
from bmcd.reporting.page import Section, captioned
from bmcd.reporting.results import Results
from bmcd.reporting.sentences import n_test_clicks, split


def section(results: Results) -> Section:
    """Return sizes and counts of the clicks, in words, as a table and as a figure."""
    numbers, test = results.clicks.summary(), results.test
    (low, median, high), (item_low, item_median, item_high) = numbers.clicks_per_user, numbers.clicks_per_item
    texts = [
        f"The model has learned from {numbers.n_clicks:,} clicks of {numbers.n_users:,} users on "
        f"{numbers.n_items:,} items. A user clicked {low:,} to {high:,} items, half of them at most {median:g}."
    ]
    rows = [
        ("users", f"{numbers.n_users:,}"),
        ("items", f"{numbers.n_items:,}"),
        ("items with a title", f"{numbers.n_titles:,}"),
        ("clicks", f"{numbers.n_clicks:,} ({numbers.density:.2%} of all user-item pairs)"),
        ("clicks of a user", f"{low:,} to {high:,}, median {median:g}"),
        ("clicks on an item", f"{item_low:,} to {item_high:,}, median {item_median:g}"),
        ("users without clicks", f"{numbers.n_users_without_clicks:,}"),
        ("items without clicks", f"{numbers.n_items_without_clicks:,}"),
        ("repeated clicks, counted once", f"{numbers.n_repeated:,}"),
    ]
    if (item_table := results.table) is not None:
        for name, groups in item_table.groups.items():
            rows.append((f"groups of items: {short_title(name)}", f"{len(groups.names):,}"))
        for what, texts_of in (("link", item_table.links), ("picture", item_table.pictures)):
            if texts_of is not None:
                rows.append((f"items with a {what}", f"{sum(map(bool, texts_of)):,}"))
        if item_table.n_refused:
            rows.append(("addresses left out: not http, https or relative", f"{item_table.n_refused:,}"))
    if test is not None:
        n_kept, n_users = n_test_clicks(results), len(results.test_clicks)
        texts.append(
            f"{n_kept} more clicks of each of {n_users:,} users were held out, to test the recommendations. "
            f"{split(results.by_k[-1])}"
        )
        if results.people is not results.clicks:
            texts.append("These are other users than those the model has learned from.")
        rows += [("test: clicks", f"{test.n_clicks:,}"), ("test: clicks of a user", n_kept)]
    figure = plots.item_popularity(results.clicks.per_item, results.n_popular)
    last = f"the {results.n_popular:,} last are called popular."
    caption = f"Clicks on each item, from the least to the most clicked; {last}"
    body = [
        paragraphs(*texts),
        tag("div", table(("", "number"), rows), captioned(figure, "popularity", caption), cls="beside"),
    ]
    if numbers.history:
        body += [tag("p", "What was done to them before:"), bullets(numbers.history)]
    return Section("data", "The data", body)
