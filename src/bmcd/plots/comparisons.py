"""Methods beside each other: every measure with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bmcd.errors import InputError
from bmcd.evaluation.compare import Comparison
from bmcd.plots.style import Figure, looks, new_figure, round_ticks, styled

# What stands above a panel, and whether it is a share.
MEASURES = {
    "accuracy": ("accuracy: recommendations that were hits", True),
    "coverage": ("coverage: items shown to anybody", True),
    "correct_coverage": ("items that were a hit for anybody", True),
    "novelty": ("novelty: how little clicked (bits)", False),
    "intra_list_similarity": ("similarity within a list (less is more diverse)", False),
    "rare_share": ("recommendations that are rare items", True),
    "users_with_rare_share": ("users who get a rare item", True),
    "precision": ("precision", True),
    "recall": ("recall: test clicks that were found", True),
    "ndcg": ("NDCG", False),
    "mrr": ("MRR: 1 over the rank of the first hit", False),
    "brier": ("Brier score (less is better)", False),
    "log_score": ("log score (less is better)", False),
    "expected_calibration_error": ("calibration error (less is better)", True),
}
DEFAULT = ("accuracy", "coverage", "novelty", "intra_list_similarity", "rare_share")


@styled
def comparison(
    comparison: Comparison, measures: Sequence[str] = DEFAULT, *, title: str | None = None, across: int = 1
) -> Figure:
    """Every method as a dot with its interval, a panel for each measure; coverage has no interval.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> found = bmcd.compare(rivals, sim.clicks, sim, k=5)
    >>> figure = comparison(found, ["accuracy"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['Popularity', 'EASE']
    """
    names = list(comparison.entries)
    known = comparison.measures
    if not measures:
        raise InputError("there is nothing to draw: give at least one measure.")
    for measure in measures:
        if measure not in known:
            raise InputError(f"{measure!r} is no measure; there are {', '.join(known)}.")
    styles = looks(names)
    across = min(across, len(measures))
    down = -(-len(measures) // across)
    figure = new_figure(4.8 if across == 1 else 3.6 * across, down * (0.75 + 0.21 * len(names)), title)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for spare in grid[len(measures) :]:
        spare.remove()
    for ax, measure in zip(grid, measures, strict=False):
        heading, share = MEASURES[measure]
        for row, name in enumerate(names):
            value, look = comparison.value(name, measure), styles[name]
            if value != value:  # NaN: this method has no probabilities
                continue
            own = comparison.entries[name].intervals.get(measure)
            bars = [[max(value - own.low, 0.0)], [max(own.high - value, 0.0)]] if own else None
            ax.errorbar(
                *([value], [row]),
                xerr=bars,
                fmt=look.marker,
                color=look.color,
                markersize=6,
                elinewidth=1.6,
                capsize=3,
                markeredgecolor="black" if look.marker == "*" else look.color,
                label=name,
            )
            figure.tip(ax, _said(name, measure, value, own, share), value, row)
        ax.set_title(heading, fontsize=10)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.margins(x=0.12)
        round_ticks(ax.xaxis, share=share)
    return figure


def _said(name: str, measure: str, value: float, own: Any, share: bool) -> str:
    def number(x: float) -> str:
        return f"{x:.1%}".replace("%", " %") if share else f"{x:.3f}"

    said = f"{name}, {measure.replace('_', ' ')}: {number(value)}"
    return said + (f" ({own.level:.0%} interval {number(own.low)} to {number(own.high)})" if own else "")
