"""The section "Compared with other methods": accuracy and diversity of the model and its rivals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bmcd import plots
from bmcd.evaluation import Interval
from bmcd.evaluation.diversify import Gap, diversity_price
from bmcd.markup import paragraphs, table, tag
from bmcd.reporting import sentences
from bmcd.reporting.page import Section, captioned, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import hundredths, percent

# The measures that get a figure, and its caption.
CAPTIONS = {
    "accuracy": "Accuracy: how many of the recommendations were hits. More is better.",
    "coverage": "Coverage: how many of the items are shown to anybody. More is more diverse.",
    "rare_share": "Rare items: how many of the recommendations are not of the most clicked. More is more diverse.",
    "novelty": "Novelty: how little clicked the recommended items are, in bits. More is more diverse.",
    "intra_list_similarity": "Similarity of the items in a list. Less is more diverse.",
}
HEADS = (
    "method",
    "hits",
    "points more than the model",
    "items shown",
    "rare items",
    "novelty",
    "similarity in a list",
)
UNTUNED = (
    "The other methods have the settings they come with. They were not tuned to these data (bmcd.tune does that), "
    "and tuned ones can be better."
)
GIVEN = "The other methods have the settings that were given; only tuned ones compare fairly (bmcd.tune)."


def section(results: Results) -> Section | None:
    """Return who hits more often and who is more diverse, in words, as figures and as a table."""
    if results.test is None:
        return None

    def view(for_k: ResultsForK) -> list[Any]:
        texts = [sentences.rivals(for_k) if results.others else "No other method was asked for."]
        texts.append(sentences.diversity(results, for_k))
        if results.rivals:
            texts.append(UNTUNED if results.rivals_are_default else GIVEN)
        texts += [f"{name} was not run: {why}." for name, why in results.not_run.items()]
        figures = []
        for measure, text in CAPTIONS.items():
            name = f"compare-{measure}-{for_k.k}".replace("_", "-")
            figures.append(captioned(plots.comparison(for_k.tested, [measure]), name, text))
        caption = (
            f"All with 95 % intervals over users, k = {for_k.k}. Items shown have none. {sentences.split(for_k)}"
        )
        numbers = table(HEADS, _rows(for_k), cls="numbers", caption=caption)
        return [*paragraphs(*texts), tag("div", figures, cls="cards figures"), numbers, *_price(results, for_k)]

    return Section("comparison", "Compared with other methods", for_each_k(results, view))


def _price(results: Results, for_k: ResultsForK) -> list[Any]:
    """Return what the model gives up or gains in diversity against each other method, beside its hits."""
    prices = diversity_price(for_k.tested)
    if not prices:
        return []
    rows = [
        (
            f"against {price.other}",
            _points(price.accuracy),
            f"{round(price.coverage.difference * results.clicks.n_items):+,}",
            _points(price.rare_share),
            _gap(price.novelty, 1.0, ".2f"),
        )
        for price in prices
    ]
    caption = (
        f"{for_k.name} minus the other method, with 95 % intervals, k = {for_k.k}. Items shown have none. "
        f"{sentences.split(for_k)}"
    )
    return [
        tag("h3", "Diversity and its price"),
        *paragraphs(*sentences.prices(results, for_k, prices)),
        table(
            ("", "points of hits", "items shown", "points of rare items", "novelty"),
            rows,
            cls="numbers",
            caption=caption,
        ),
    ]


def _points(gap: Gap) -> str:
    return _gap(gap, 100.0, ".1f")


def _gap(gap: Gap, unit: float, digits: str) -> str:
    middle, *ends = (f"{unit * value:+z{digits}}" for value in gap if value is not None)
    return f"{middle} ({' to '.join(ends)})" if ends else middle


def _rows(for_k: ResultsForK) -> list[tuple[str, ...]]:
    rows = []
    for name, entry in for_k.tested.entries.items():
        intervals, points = entry.intervals, ""
        if gap := for_k.tested.differences.get(name, {}).get("accuracy"):
            points = f"{100 * gap.difference:+z.1f} ({100 * gap.low:+z.1f} to {100 * gap.high:+z.1f})"
        shares = [_with_interval(intervals[measure], hundredths, " %") for measure in ("accuracy", "rare_share")]
        others = [_with_interval(intervals[m], "{:.2f}".format) for m in ("novelty", "intra_list_similarity")]
        rows.append((name, shares[0], points, percent(entry.evaluation.coverage), shares[1], *others))
    return rows


def _with_interval(interval: Interval, write: Callable[[float], str], unit: str = "") -> str:
    ends = f"{write(interval.low)} to {write(interval.high)}{unit}"
    return f"{write(interval.value)}{unit} ({ends})"
