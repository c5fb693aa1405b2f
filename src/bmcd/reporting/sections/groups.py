"""The section "Groups of users": what each cluster likes, in titles."""

from __future__ import annotations

from collections.abc import Sequence

from bmcd import plots
from bmcd.markup import Html, bullets, paragraphs, table, tag
from bmcd.models.clusters import RankedItem
from bmcd.reporting.page import Section, captioned, item_tag
from bmcd.reporting.reliability import converged
from bmcd.reporting.results import Results
from bmcd.reporting.sentences import counted, group_word, percent

MOST_ITEMS = 5
# More groups than this are there for those who ask.
MOST_CARDS = 12
OF_TASTES = (
    "Every run finds tastes of its own, and recommendations average over all runs; these are the tastes of the run "
    "that fits best. alpha: how closely a visit follows the taste, 0 being not at all. Runs agree: how like it the "
    "nearest taste of the other runs is, 100 % being the same."
)
NOTE = (
    "Ranges hold 90 % of the draws. alpha: how closely a group's users follow its taste, 0 being not at all. Runs "
    "agree: do the independent runs find the same group? 0 % would be no more alike than by chance."
)


def section(results: Results) -> Section | None:
    """Return a card for each group or taste, then their sizes as a table and as a figure; None without any."""
    if results.grouping is None:
        return None
    clusters, word = results.grouping.clusters_, group_word(results)
    columns = {item: column for column, item in enumerate(results.clicks.items.tolist())}

    def list_items(ranked: Sequence[RankedItem]) -> Html:
        return bullets(item_tag(results, columns[each.item]) for each in ranked[:MOST_ITEMS])

    cards, rows = [], []
    for c in clusters:
        size = (
            f"{c.n_users:,.0f} users ({percent(c.share)})" if word == "group" else f"{percent(c.share)} of visits"
        )
        called = f"{word.capitalize()} {c.cluster}" + (f" ({c.name})" if c.name else "")
        heading = tag("h3", f"{called}: {size}")
        card = [heading]
        card += [tag("p", "Liked more here than elsewhere:"), list_items(c.apart)] if c.apart else []
        told = {each.item for each in c.apart[:MOST_ITEMS]}
        if left := [each for each in c.top if each.item not in told]:
            card += [tag("p", "Also liked best:" if c.apart else "Liked best:"), list_items(left)]
        cards.append(tag("article", card, cls="card"))
        users = f"{c.n_users:,.0f} ({c.n_users_interval[0]:,.0f} to {c.n_users_interval[1]:,.0f})"
        alpha = f"{c.alpha:.2f} ({c.alpha_interval[0]:.2f} to {c.alpha_interval[1]:.2f})"
        rows.append((called, users, alpha, percent(c.agreement)))
    if word == "taste":
        text = (
            f"Users have several of {len(clusters)} tastes, some more and some less; what is recommended weighs "
            "all of them. Users of a taste are shares of users added up."
        )
    elif len(clusters) == 1:
        text = "All users are taken for one group; this is what they like best, on the whole."
    else:
        text = (
            f"The users fall into {len(clusters)} groups with tastes of their own. A user belongs to each of them "
            "with a probability; what is recommended weighs all of them."
        )
    sizes, intervals = [c.n_users for c in clusters], [c.n_users_interval for c in clusters]
    figure = plots.cluster_sizes(sizes, intervals, names=[row[0] for row in rows])
    numbers = [
        table(("", "users", "alpha", "runs agree"), rows, cls="numbers"),
        tag("p", OF_TASTES if word == "taste" else NOTE, cls="note"),
    ]
    picture = captioned(figure, "sizes", f"Users in each {word}, with the range of 90 % of the draws.")
    shown = [tag("div", cards[:MOST_CARDS], cls="cards")]
    if rest := cards[MOST_CARDS:]:
        heading = tag("summary", f"{counted(len(rest), f'more {word}')}")
        shown.append(tag("details", heading, tag("div", rest, cls="cards")))
    parts = [*shown, tag("div", tag("div", numbers), picture, cls="beside")]
    if results.grouping is not results.model:
        name = type(results.grouping).__name__
        text += f" They come from a {name} model. {converged(results.grouping)}"
    title = "Tastes of the users" if word == "taste" else "Groups of users"
    return Section("groups", title, [paragraphs(text), *parts])
