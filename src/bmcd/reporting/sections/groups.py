"""The section "Groups of users": what each cluster likes, in titles."""

from __future__ import annotations

from collections.abc import Sequence

from bmcd import plots
from bmcd.clusters.summary import RankedItem
from bmcd.reporting.markup import Html, bullets, paragraphs, table, tag, title_tag
from bmcd.reporting.page import Section, captioned
from bmcd.reporting.results import Results
from bmcd.reporting.sentences import percent

MOST_ITEMS = 5
NOTE = (
    "Ranges hold 90 % of the draws. alpha: how closely a group's users follow its taste, 0 being not at all. Runs "
    "agree: do the independent runs find the same group? 0 % would be no more alike than by chance."
)


def section(results: Results) -> Section:
    """Return a card for each group, then their sizes as a table and as a figure."""
    clusters = results.model.clusters_
    titles = dict(zip(results.clicks.items.tolist(), results.titles, strict=True))

    def list_items(ranked: Sequence[RankedItem]) -> Html:
        return bullets(title_tag(titles[each.item]) for each in ranked[:MOST_ITEMS])

    cards, rows = [], []
    for c in clusters:
        heading = tag("h3", f"Group {c.cluster}: {c.n_users:,.0f} users ({percent(c.share)})")
        card = [heading, tag("p", "Liked best:"), list_items(c.top)]
        card += [tag("p", "Liked more here than elsewhere:"), list_items(c.apart)] if c.apart else []
        cards.append(tag("article", card, cls="card"))
        users = f"{c.n_users:,.0f} ({c.n_users_interval[0]:,.0f} to {c.n_users_interval[1]:,.0f})"
        alpha = f"{c.alpha:.2f} ({c.alpha_interval[0]:.2f} to {c.alpha_interval[1]:.2f})"
        rows.append((f"Group {c.cluster}", users, alpha, percent(c.agreement)))
    if len(clusters) == 1:
        text = "All users are taken for one group; this is what they like best, on the whole."
    else:
        text = (
            f"The users fall into {len(clusters)} groups with tastes of their own. A user belongs to each of them "
            "with a probability; what is recommended weighs all of them."
        )
    sizes, intervals = [c.n_users for c in clusters], [c.n_users_interval for c in clusters]
    figure = plots.cluster_sizes(sizes, intervals, names=[row[0] for row in rows])
    numbers = [table(("", "users", "alpha", "runs agree"), rows, cls="numbers"), tag("p", NOTE, cls="note")]
    picture = captioned(figure, "sizes", "Users in each group, with the range of 90 % of the draws.")
    parts = [tag("div", cards, cls="cards"), tag("div", tag("div", numbers), picture, cls="beside")]
    return Section("groups", "Groups of users", [paragraphs(text), *parts])
