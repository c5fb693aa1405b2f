"""The section "Which items are shown": how often each item is recommended, from the least to the most popular."""

from __future__ import annotations

from typing import Any

from bmcd import plots
from bmcd.evaluation import ItemCounts
from bmcd.markup import Html, paragraphs, short_title, tag
from bmcd.reporting.page import Section, captioned, for_each_k
from bmcd.reporting.results import Results, ResultsForK
from bmcd.reporting.sentences import percent


def section(results: Results) -> Section:
    """Return the share of the popular items in words, and a figure for each method."""
    titles = dict(zip(results.clicks.items.tolist(), map(short_title, results.titles), strict=True))
    is_tested = results.test is not None

    def view(for_k: ResultsForK) -> list[Any]:
        by_method = for_k.items_by_method
        most = max(1, *(int(counts.recommended.max()) for counts in by_method.values()))
        figures: list[Html] = []
        shares = []
        for name, counts in by_method.items():
            figure = plots.exposure({name: counts}, titles=titles, hits=is_tested)
            figure.axes[0].set_ylim(0, 1.05 * most)  # all methods on one scale
            caption = f"{name}: how often each item is recommended (light){' and hit (dark)' if is_tested else ''}."
            figures.append(captioned(figure, f"exposure-{len(figures)}-{for_k.k}", caption))
            shares.append(f"{name} {percent(_popular_share(counts, counts.recommended))}")
        text = (
            f"The {results.n_popular:,} most clicked of {results.clicks.n_items:,} items get this share of all "
            f"recommendations: {', '.join(shares)}. They have "
            f"{percent(_popular_share(for_k.items, for_k.items.clicks))} of the clicks."
        )
        return [*paragraphs(text), tag("div", figures, cls="cards figures")]

    return Section("exposure", "Which items are shown", for_each_k(results, view))


def _popular_share(counts: ItemCounts, numbers: Any) -> float:
    total = int(numbers.sum())
    return int(numbers[-counts.n_popular :].sum()) / max(1, total)
