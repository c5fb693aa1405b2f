"""The sections of a report, in their order: plain words first, numbers second, method last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bmcd import plots
from bmcd.plots.style import Figure
from bmcd.reporting import words
from bmcd.reporting.facts import Facts, View
from bmcd.reporting.markup import Html, table, tag, titled
from bmcd.reporting.svg import inline_svg
from bmcd.reporting.words import percent


def section(name: str, title: str, *parts: Any) -> Html:
    """A part of the page."""
    return tag("section", tag("h2", title), *parts, id=name)


def by_view(facts: Facts, make: Callable[[View], Any]) -> list[Html]:
    """The same for each k; the first is shown, also without scripts."""
    return [tag("div", make(view), cls="view", data_k=view.k, hidden=at > 0) for at, view in enumerate(facts.views)]


def shown(figure: Figure, name: str, caption: str) -> Html:
    """A figure with its caption."""
    return tag("figure", inline_svg(figure, name, caption), tag("figcaption", caption))


def paragraphs(*texts: str) -> list[Html]:
    """Sentences as paragraphs."""
    return [tag("p", text) for text in texts if text]


def short_version(facts: Facts) -> Html:
    """The whole report in a few sentences."""

    def said(view: View) -> Html:
        return tag("ul", [tag("li", sentence) for sentence in words.summary(facts, view)], cls="summary")

    return section("summary", "In short", by_view(facts, said), _how_to_test(facts))


def _how_to_test(facts: Facts) -> Html | None:
    if facts.test is not None:
        return None
    return tag(
        "p",
        "To learn that, keep some clicks of each user aside before the fit (Clicks.hold_out), and give them to the "
        "report: bmcd report model.bmcd --test test.csv -o report.html. It then also has the accuracy, whether the "
        "probabilities are right, which cut-off to use, and other methods beside this one.",
        cls="note",
    )


def data(facts: Facts) -> Html:
    """What was learned from."""
    clicks, found = facts.clicks, facts.clicks.summary()
    low, median, high = found.clicks_per_user
    said = [
        f"The model has learned from {found.n_clicks:,} clicks of {found.n_users:,} users on {found.n_items:,} "
        f"items. A user clicked {low:,} to {high:,} items, half of them at most {median:g}.",
    ]
    if facts.test is not None:
        fewest, mean, most = facts.test_clicks
        number = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}, on average {mean:.1f},"
        n_users = int((np.diff(facts.test.matrix.indptr) > 0).sum())
        said.append(
            f"{number} more clicks of each of {n_users:,} users were kept aside, to test what is recommended."
        )
    rows = [
        ("users", f"{found.n_users:,}"),
        ("items", f"{found.n_items:,}"),
        ("items with a title", f"{found.n_titles:,}"),
        ("clicks", f"{found.n_clicks:,} ({found.density:.2%} of all user-item pairs)"),
        ("clicks of a user", f"{low:,} to {high:,}, median {median:g}"),
        ("clicks on an item", "{:,} to {:,}, median {:g}".format(*(found.clicks_per_item[i] for i in (0, 2, 1)))),
        ("users without clicks", f"{found.n_users_without_clicks:,}"),
        ("items without clicks", f"{found.n_items_without_clicks:,}"),
        ("repeated clicks, counted once", f"{found.n_repeated:,}"),
        *((f"test: {name}", value) for name, value in _test_rows(facts)),
    ]
    counts = np.bincount(clicks.matrix.indices, minlength=clicks.n_items)
    figure = plots.item_popularity(counts, facts.n_popular)
    caption = (
        f"Clicks on each item, from the least to the most clicked; the {facts.n_popular:,} last are called popular."
    )
    steps = [tag("li", step) for step in clicks.history]
    return section(
        "data",
        "The data",
        paragraphs(*said),
        tag("div", table(("", "number"), rows), shown(figure, "popularity", caption), cls="beside"),
        [tag("p", "What was done to them before:"), tag("ul", steps)] if steps else None,
    )


def _test_rows(facts: Facts) -> list[tuple[str, str]]:
    if facts.test is None:
        return []
    fewest, mean, most = facts.test_clicks
    return [
        ("clicks", f"{facts.test.n_clicks:,}"),
        ("clicks of a user", f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}, mean {mean:.1f}"),
    ]


def convergence(facts: Facts) -> Html:
    """Converged or not, in words, then in numbers."""
    verdict = facts.model.verdict_
    mood = "good" if verdict.converged else "warning"
    return section(
        "convergence",
        "Has the calculation settled?",
        tag("p", words.converged(facts), cls=f"verdict {mood}"),
        tag("p", verdict.text, cls="note"),
        tag("ul", [tag("li", line) for line in verdict.advice]) if verdict.advice else None,
    )


def groups(facts: Facts) -> Html:
    """The clusters, in titles."""
    clusters = list(facts.model.clusters_)
    title = dict(zip(facts.clicks.items.tolist(), titles_of(facts), strict=True))

    def items(ranked: Any, most: int) -> Html:
        return tag("ul", [tag("li", titled(title[one.item])) for one in ranked[:most]])

    cards = [
        tag(
            "article",
            tag("h3", f"Group {c.cluster}: {c.n_users:,.0f} users ({percent(c.share)})"),
            tag("p", "Liked best:"),
            items(c.top, 5),
            [tag("p", "Liked more here than elsewhere:"), items(c.apart, 5)] if c.apart else None,
            cls="card",
        )
        for c in clusters
    ]
    if len(clusters) == 1:
        said = "All users are taken for one group; this is what they like best, on the whole."
    else:
        said = (
            f"The users fall into {len(clusters)} groups with tastes of their own. A user belongs to each of them "
            "with a probability; what is recommended weighs all of them."
        )
    rows = [
        (
            f"Group {c.cluster}",
            f"{c.n_users:,.0f} ({c.n_users_interval[0]:,.0f} to {c.n_users_interval[1]:,.0f})",
            f"{c.alpha:.2f} ({c.alpha_interval[0]:.2f} to {c.alpha_interval[1]:.2f})",
            percent(c.agreement),
        )
        for c in clusters
    ]
    figure = plots.cluster_sizes(
        [c.n_users for c in clusters], [c.n_users_interval for c in clusters], names=[r[0] for r in rows]
    )
    caption = "Users in each group, with the range of 90 % of the draws."
    numbers = table(("", "users", "alpha", "runs agree"), rows, cls="numbers")
    note = (
        "Ranges hold 90 % of the draws. alpha: how closely a group's users follow its taste, 0 being not at all. "
        "Runs agree: do the independent runs find the same group? 0 % would be no more alike than by chance."
    )
    return section(
        "groups",
        "Groups of users",
        paragraphs(said),
        tag("div", cards, cls="cards"),
        tag("div", tag("div", numbers, tag("p", note, cls="note")), shown(figure, "sizes", caption), cls="beside"),
    )


def titles_of(facts: Facts) -> list[str]:
    """What each item is called: its title, or its id."""
    clicks = facts.clicks
    if clicks.titles is None or clicks.titled is None:
        return [f"item {own}" for own in clicks.items.tolist()]
    pairs = zip(clicks.titles.tolist(), clicks.titled.tolist(), strict=True)
    return [str(text) if has else f"item {text}" for text, has in pairs]
