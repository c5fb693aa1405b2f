"""The sections on exposure, and those that need clicks kept aside: is it right, how much, against whom."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bmcd import plots
from bmcd.evaluation.calibration import Calibration
from bmcd.evaluation.intervals import Interval
from bmcd.reporting import words
from bmcd.reporting.facts import OWN, Facts, View
from bmcd.reporting.markup import Html, json_script, short, table, tag
from bmcd.reporting.sections import by_view, paragraphs, section, shown, titles_of
from bmcd.reporting.words import percent

MEASURES = ("accuracy", "coverage", "rare_share", "novelty", "intra_list_similarity")
# Bins of the calibration: the narrowest of these that are at most so many.
BIN_WIDTHS, MOST_BINS = (0.01, 0.02, 0.05, 0.1), 20


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
            f"Each point: recommendations with about the same probability (k = {view.k}). On the dashed line, as "
            "many hit as promised; above it, more. Below: how many recommendations there were."
        )
        rows = [
            (f"{round(100 * low, 6):g} to {round(100 * high, 6):g} %", f"{n:,}", percent(p), percent(rate))
            for low, high, n, p, rate in zip(
                binned.lower, binned.upper, binned.bin_n, binned.bin_probability, binned.bin_hit_rate, strict=True
            )
        ]
        return [
            paragraphs(words.promise(view), words.mismatch(facts, view), words.why(view)),
            tag(
                "div",
                shown(figure, f"calibration-{view.k}", caption),
                table(("probability", "how many", "promised", "hits"), rows, cls="numbers"),
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
                f"{100 * step.cutoff:.2f} %",
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
        heads = ("right", "least prob.", "kept", "a user", "users", "hits")
        figure = plots.cutoff_curve(view.calibration, rivals=_accuracies(view))
        caption = (
            f"The higher the least probability that is still recommended, the more of it hits, and the less of it "
            f"is left (k = {view.k}; the band is the 95 % interval)."
        )
        return [
            slider,
            tag(
                "p", words.cut(facts, view, view.steps[first]), id=f"cut-{view.k}", cls="answer", aria_live="polite"
            ),
            tag(
                "div",
                shown(figure, f"cutoff-{view.k}", caption),
                tag("div", table(heads, rows, cls="steps numbers"), tag("p", words.reach(view), cls="note")),
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
        "The other methods have the settings they come with. They were not tuned to these data (bmcd.tune does "
        "that), and tuned ones can be better."
        if facts.default_rivals
        else "The other methods have the settings that were given; only tuned ones compare fairly (bmcd.tune)."
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
                    _ranged(own["accuracy"], percent),
                    f"{100 * gap.difference:+.1f} ({100 * gap.low:+.1f} to {100 * gap.high:+.1f})" if gap else "",
                    percent(entry.evaluation.coverage),
                    _ranged(own["rare_share"], percent),
                    _ranged(own["novelty"], "{:.2f}".format),
                    _ranged(own["intra_list_similarity"], "{:.2f}".format),
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
            table(
                heads,
                rows,
                cls="numbers",
                caption=f"All with 95 % intervals over users, k = {view.k}. Items shown have none.",
            ),
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
    title = dict(zip(facts.clicks.items.tolist(), map(short, titles_of(facts)), strict=True))

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


def _ranged(own: Interval, write: Callable[[float], str]) -> str:
    """A measure with its interval."""
    return f"{write(own.value)} ({write(own.low).removesuffix(' %')} to {write(own.high)})"


def _popular_clicks(view: View) -> float:
    return float(view.items.clicks[-view.items.n_popular :].sum() / max(1, view.items.clicks.sum()))


def _accuracies(view: View) -> dict[str, float]:
    assert view.comparison is not None
    return {name: e.evaluation.accuracy for name, e in view.comparison.entries.items() if name != OWN}
