"""Figures that set methods beside each other: every measure with its interval, and one measure against another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmcd.errors import InputError
from bmcd.plots.style import Figure, error_bars, looks, new_figure, panels, percent, round_ticks, styled

if TYPE_CHECKING:
    from bmcd.evaluation import Comparison

# By measure: the heading of its panel, and whether it is a share, which is written in %.
MEASURES = {
    "accuracy": ("accuracy: recommendations that were hits", True),
    "coverage": ("coverage: items shown to anybody", True),
    "correct_coverage": ("items that were a hit for anybody", True),
    "intra_list_similarity": ("list similarity (low is diverse)", False),
    "novelty": ("novelty: how little clicked (bits)", False),
    "rare_share": ("recommendations that are rare items", True),
    "users_with_rare_share": ("users who get a rare item", True),
    "precision": ("precision", True),
    "recall": ("recall: test clicks that were found", True),
    "ndcg": ("NDCG", False),
    "mrr": ("MRR: 1 over the rank of the first hit", False),
    "brier": ("Brier score (less is better)", False),
    "log_score": ("log score (less is better)", False),
    "expected_calibration_error": ("calibration error (less is better)", True),
    "ece_at_k": ("calibration error in tenths of the recommendations (less is better)", True),
    "promise_gap": ("mean probability minus hit rate (0 is best)", True),
}
DEFAULT = ("accuracy", "coverage", "novelty", "intra_list_similarity", "rare_share")


@styled
def comparison(
    comparison: Comparison, measures: Sequence[str] = DEFAULT, *, title: str | None = None, across: int = 1
) -> Figure:
    """Draw every method as a dot with its interval, a panel for each measure; coverage has no interval.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> figure = comparison(bmcd.compare(rivals, sim.clicks, sim, k=5), ["accuracy"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['Popularity', 'EASE']
    """
    _check_measures(comparison, measures)
    names = list(comparison.entries)
    styles = looks(names)
    figure, axes = panels(len(measures), title, across=across, width=3.6, height=0.75 + 0.21 * len(names))
    for ax, measure in zip(axes, measures, strict=True):
        heading, is_share = MEASURES[measure]
        write = percent if is_share else "{:.3f}".format
        for row, name in enumerate(names):
            value = comparison.value(name, measure)
            if value != value:  # NaN: this method has no probabilities
                continue
            text = f"{name}, {measure.replace('_', ' ')}: {write(value)}"
            if interval := comparison.entries[name].intervals.get(measure):
                ends = f"{write(interval.low)} to {write(interval.high)}"
                text += f" ({interval.level:.0%} interval {ends})"
            bars = _bars(comparison, name, measure)
            _draw_point(ax, styles[name], value, row, xerr=bars, markersize=6, elinewidth=1.6, label=name)
            figure.tip(ax, text, value, row)
        ax.set_title(heading)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.margins(x=0.12)
        round_ticks(ax.xaxis, share=is_share)
    return figure


@styled
def measures(
    comparison: Comparison, x: str = "coverage", y: str = "accuracy", *, title: str | None = None
) -> Figure:
    """Draw one measure against another: a point for each method, with intervals where the measures have them.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> figure = measures(bmcd.compare(rivals, sim.clicks, sim, k=5), "novelty", "accuracy")
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('novelty', 'accuracy')
    """
    _check_measures(comparison, (x, y))
    bars = f"bars: {comparison.level:.0%} intervals over users"
    figure = new_figure(height=3.9, title=title or f"{comparison.k} recommendations; {bars}")
    ax = figure.subplots()
    for name, look in looks(comparison.entries).items():
        errors = {"xerr": _bars(comparison, name, x), "yerr": _bars(comparison, name, y)}
        _draw_point(ax, look, comparison.value(name, x), comparison.value(name, y), **errors, label=name)
    ax.set(xlabel=x.replace("_", " "), ylabel=y.replace("_", " "))
    for axis, measure in ((ax.xaxis, x), (ax.yaxis, y)):
        round_ticks(axis, share=MEASURES[measure][1])
    # Outside: names at the points would cover each other, since good methods are close together.
    figure.legend(loc="outside lower left", ncols=3)
    return figure


def _draw_point(ax: Any, look: Any, x: float, y: float, **options: Any) -> None:
    ax.errorbar([x], [y], fmt=look.marker, color=look.color, markeredgecolor=look.edge, capsize=3, **options)


def _bars(comparison: Comparison, name: str, measure: str) -> Any:
    interval = comparison.entries[name].intervals.get(measure)
    return interval and error_bars(comparison.value(name, measure), interval.low, interval.high)


def _check_measures(comparison: Comparison, measures: Sequence[str]) -> None:
    """Refuse what is no measure, and measures of calibration if no method gives probabilities."""
    if not measures:
        raise InputError("there is nothing to draw: give at least one measure.")
    for measure in measures:
        if measure not in comparison.measures:
            raise InputError(f"{measure!r} is no measure; there are {', '.join(comparison.measures)}.")
