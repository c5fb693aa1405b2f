"""The section "Can the probabilities be trusted?": hit rate against probability."""

from __future__ import annotations

from typing import Any

from bmcd import plots
from bmcd.evaluation import Calibration
from bmcd.markup import paragraphs, table, tag
from bmcd.reporting import sentences
from bmcd.reporting.page import Section, captioned, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import percent

# The bins are as narrow as they can be with at most so many of them.
BIN_WIDTHS, MOST_BINS = (0.01, 0.02, 0.05, 0.1), 20


def section(results: Results) -> Section | None:
    """Return whether the probabilities are right, in words, as a figure and as a table."""
    if results.test is None:
        return None

    def view(for_k: ResultsForK) -> list[Any]:
        probability, hit = for_k.calibration.probability, for_k.calibration.hit
        by_width = (Calibration.of(probability, hit, width) for width in BIN_WIDTHS)
        bins = next(each for each in by_width if len(each.lower) <= MOST_BINS)
        columns = (bins.lower, bins.upper, bins.bin_n, bins.bin_probability, bins.bin_hit_rate)
        rows = [
            (f"{round(100 * low, 6):g} to {round(100 * high, 6):g} %", f"{n:,}", percent(given), percent(rate))
            for low, high, n, given, rate in zip(*columns, strict=True)
        ]
        caption = (
            f"Each point: recommendations with about the same probability (k = {for_k.k}). On the dashed line, as "
            "many hit as predicted; above it, more. Below: how many recommendations there were."
        )
        figure = plots.calibration({for_k.name: bins}, rivals=for_k.rival_accuracies)
        split = f"k = {for_k.k}. {sentences.split(for_k)}"
        numbers = table(("probability", "how many", "predicted", "observed"), rows, cls="numbers", caption=split)
        texts = (
            sentences.predicted(for_k),
            sentences.mismatch(results, for_k),
            sentences.why(results, for_k),
            sentences.own_ranking(results),
        )
        picture = captioned(figure, f"calibration-{for_k.k}", caption)
        return [*paragraphs(*texts), tag("div", picture, numbers, cls="beside")]

    return Section("calibration", "Can the probabilities be trusted?", for_each_k(results, view))
