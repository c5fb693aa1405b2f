"""The sections of a report, in their order: plain words first, numbers second, method last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bmcd.evaluation.calibration import Calibration
from bmcd.report import plots, words
from bmcd.report.facts import OWN, Facts, View
from bmcd.report.markup import Html, json_script, table, tag, titled
from bmcd.report.style import Figure
from bmcd.report.svg import inline_svg
from bmcd.report.words import percent

MEASURES = ("accuracy", "coverage", "rare_share", "novelty", "intra_list_similarity")
# Bins of the calibration: the narrowest of these that are at most so many.
BIN_WIDTHS, MOST_BINS = (0.01, 0.02, 0.05, 0.1), 20


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
        f"The model has learned from {found.n_clicks:,} clicks of {found.n_users:,} users on {found.n_items:,} items. A "
        f"user clicked {low:,} to {high:,} items, half of them at most {median:g}.",
    ]
    if facts.test is not None:
        fewest, mean, most = facts.test_clicks
        number = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}, on average {mean:.1f},"
        n_users = int((np.diff(facts.test.matrix.indptr) > 0).sum())
        said.append(f"Of {n_users:,} users {number} more clicks were kept aside, to test what is recommended.")
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
        tag("p", verdict.text, cls="numbers"),
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
            f"The users fall into {len(clusters)} groups with tastes of their own. A user belongs to each of them with a "
            "probability; what is recommended weighs all of them."
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
    numbers = table(("", "users", "alpha", "runs agree"), rows)
    note = (
        "Ranges hold 90 % of the draws. alpha: how closely a group's users follow its taste, 0 being not at all. Runs "
        "agree: do the independent runs find the same group? 0 % would be no more alike than by chance."
    )
    return section(
        "groups",
        "Groups of users",
        paragraphs(said),
        tag("div", cards, cls="cards"),
        tag("div", tag("div", numbers, tag("p", note, cls="note")), shown(figure, "sizes", "Users in each group, with the range of 90 % of the draws."), cls="beside"),
    )  # fmt: skip


def trust(facts: Facts) -> Html:
    """Calibration."""

    def said(view: View) -> list[Any]:
        found = view.calibration
        width = next(
            (w for w in BIN_WIDTHS if len(Calibration.of(found.probability, found.hit, w).lower) <= MOST_BINS), 0.1
        )
        binned = Calibration.of(found.probability, found.hit, width)
        figure = plots.calibration(binned, rivals=_accuracies(view))
        caption = (
            f"Each point: recommendations with about the same probability (k = {view.k}). On the dashed line, as many hit "
            "as promised; above it, more. Below: how many recommendations there were."
        )
        first, *more = words.promise(facts, view)
        rows = [
            (f"{percent(low)} to {percent(high)}", f"{n:,}", percent(p), percent(rate))
            for low, high, n, p, rate in zip(
                binned.lower, binned.upper, binned.bin_n, binned.bin_probability, binned.bin_hit_rate, strict=True
            )
        ]
        return [
            paragraphs(f"{first} {more[0]}", *more[1:]),
            tag(
                "div",
                shown(figure, f"calibration-{view.k}", caption),
                table(("probability", "recommendations", "promised", "hits"), rows),
                cls="beside",
            ),
        ]

    return section("calibration", "Can the probabilities be trusted?", by_view(facts, said))


def cutoffs(facts: Facts) -> Html:
    """How much to recommend."""

    def said(view: View) -> list[Any]:
        if not view.steps:
            return paragraphs(words.cut(facts, view, view.best), words.reach(view))
        first = words.first_step(view)
        rows = [
            (
                percent(step.wanted),
                f"{100 * step.cutoff:.1f} %",
                f"{step.n:,} ({percent(step.share)})",
                f"{step.per_user:.2f}",
                f"{step.n_users:,}",
                percent(step.hit_rate),
            )
            for step in view.steps
        ]
        slider = tag(
            "p",
            tag("label", "How often do you want to be right? ", for_=f"wanted-{view.k}"),
            tag("input", type="range", id=f"wanted-{view.k}", min=0, max=len(view.steps) - 1, step=1, value=first,
                data_k=view.k, aria_describedby=f"cut-{view.k}"),
            tag("output", percent(view.steps[first].wanted), id=f"rate-{view.k}", for_=f"wanted-{view.k}"),
            cls="control slider",
        )  # fmt: skip
        heads = ("right", "least probability", "kept", "for a user", "users with one", "hits")
        figure = plots.cutoff_curve(view.calibration, rivals=_accuracies(view))
        caption = (
            f"The higher the least probability that is still recommended, the more of it hits, and the less of it is left "
            f"(k = {view.k}; the band is the 95 % interval)."
        )
        return [
            slider,
            tag(
                "p", words.cut(facts, view, view.steps[first]), id=f"cut-{view.k}", cls="answer", aria_live="polite"
            ),
            tag(
                "div",
                shown(figure, f"cutoff-{view.k}", caption),
                tag("div", table(heads, rows, cls="steps"), tag("p", words.reach(view), cls="note")),
                cls="beside",
            ),
        ]

    told = {
        str(view.k): [[percent(step.wanted), words.cut(facts, view, step)] for step in view.steps]
        for view in facts.views
    }
    return section("cutoff", "How much to recommend", by_view(facts, said), json_script("cutoffs", told))


def against(facts: Facts) -> Html:
    """The rivals."""
    untuned = (
        "The other methods have the settings they come with. They were not tuned to these data (bmcd.tune does that), and "
        "tuned ones can be better."
        if facts.default_rivals
        else "The other methods have the settings that were given; only tuned ones make a fair comparison (bmcd.tune)."
    )

    def said(view: View) -> list[Any]:
        found = view.comparison
        assert found is not None
        rows = []
        for name, entry in found.entries.items():
            own, gap = entry.intervals, found.differences.get(name, {}).get("accuracy")
            rows.append(
                (
                    name,
                    f"{percent(own['accuracy'].value)} ({percent(own['accuracy'].low)} to {percent(own['accuracy'].high)})",
                    f"{100 * gap.difference:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})" if gap else "–",
                    percent(entry.evaluation.coverage),
                    f"{percent(own['rare_share'].value)} ({percent(own['rare_share'].low)} to {percent(own['rare_share'].high)})",
                    f"{own['novelty'].value:.2f} ({own['novelty'].low:.2f} to {own['novelty'].high:.2f})",
                    f"{own['intra_list_similarity'].value:.2f} ({own['intra_list_similarity'].low:.2f} to "
                    f"{own['intra_list_similarity'].high:.2f})",
                )
            )
        heads = (
            "method",
            "hits",
            f"points more than {OWN}",
            "items shown",
            "rare items",
            "novelty",
            "similarity in a list",
        )
        figures = [
            shown(plots.comparison(found, [measure]), f"compare-{measure}-{view.k}".replace("_", "-"), caption)
            for measure, caption in zip(MEASURES, CAPTIONS, strict=True)
        ]
        return [
            paragraphs(words.rivals(view)) if facts.rivals else paragraphs("No other method was asked for."),
            paragraphs(words.diversity(facts, view), untuned if facts.rivals else ""),
            tag("div", figures, cls="cards figures"),
            table(heads, rows, caption=f"All with 95 % intervals over users, k = {view.k}. Items shown have none."),
        ]

    return section("comparison", "Compared with other methods", by_view(facts, said))


CAPTIONS = (
    "Accuracy: how many of the recommendations were hits. More is better.",
    "Coverage: how many of the items are shown to anybody. More is more diverse.",
    "Rare items: how many of the recommendations are not of the most clicked. More is more diverse.",
    "Novelty: how little clicked the recommended items are, in bits. More is more diverse.",
    "Similarity of the items in a list. Less is more diverse.",
)


def exposure(facts: Facts) -> Html:
    """Which items are shown how often, by popularity."""
    title = dict(zip(facts.clicks.items.tolist(), titles_of(facts), strict=True))

    def said(view: View) -> list[Any]:
        if view.comparison is None:
            items = {OWN: view.items}
        else:
            items = {name: entry.evaluation.items for name, entry in view.comparison.entries.items()}
        top = max(1, *(int(one.recommended.max()) for one in items.values()))
        figures: list[Html] = []
        for name, one in items.items():
            figure = plots.exposure({name: one}, titles=title, hits=facts.test is not None)
            figure.axes[0].set_ylim(0, 1.05 * top)  # all on one scale
            caption = f"{name}: how often each item is recommended (light)"
            caption += " and hit (dark)." if facts.test is not None else "."
            figures.append(shown(figure, f"exposure-{len(figures)}-{view.k}", caption))
        shares = [
            f"{name} {percent(float(one.recommended[-one.n_popular :].sum() / max(1, one.recommended.sum())))}"
            for name, one in items.items()
        ]
        most = view.items.n_popular
        told = (
            f"The {most:,} most clicked of {len(view.items.item):,} items get this share of all recommendations: "
            f"{', '.join(shares)}. They have {percent(_popular_clicks(view))} of the clicks."
        )
        return [paragraphs(told), tag("div", figures, cls="cards figures")]

    return section("exposure", "Which items are shown", by_view(facts, said))


def _popular_clicks(view: View) -> float:
    return float(view.items.clicks[-view.items.n_popular :].sum() / max(1, view.items.clicks.sum()))


def _accuracies(view: View) -> dict[str, float]:
    assert view.comparison is not None
    return {name: e.evaluation.accuracy for name, e in view.comparison.entries.items() if name != OWN}


def titles_of(facts: Facts) -> list[str]:
    """What each item is called: its title, or its id."""
    clicks = facts.clicks
    if clicks.titles is None or clicks.titled is None:
        return [f"item {own}" for own in clicks.items.tolist()]
    pairs = zip(clicks.titles.tolist(), clicks.titled.tolist(), strict=True)
    return [str(text) if has else f"item {text}" for text, has in pairs]
