"""Comparisons of methods: measures with intervals, one measure against another, hits against diversity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bmcd.errors import InputError
from bmcd.plots import style
from bmcd.plots.style import Figure, styled

if TYPE_CHECKING:
    from bmcd.evaluation import Comparison
    from bmcd.evaluation.rerank import TradeOff

MEASURES = {
    "accuracy": ("accuracy: recommendations that were hits", True),
    "coverage": ("coverage: items shown to anyone", True),
    "correct_coverage": ("items that were a hit for anyone", True),
    "intra_list_similarity": ("list similarity (low is diverse)", False),
    "novelty": ("novelty: how rarely clicked (bits)", False),
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
"""By measure: the heading of its panel, and whether it is a share and written in percent."""
DEFAULT = ("accuracy", "coverage", "novelty", "intra_list_similarity", "rare_share")

X_LABELS = {
    "coverage": "coverage: share of items shown to anyone",
    "items_shown": "items shown to anyone",
    "gini": "Gini of exposure (0: all items shown equally often)",
    "least_shown": "users to whom the least shown item is shown",
    "most_shown": "users to whom the most shown item is shown",
}
"""The columns of `TradeOff.rows` that can be the horizontal axis, with their labels."""
DEFAULT_X = {"min_coverage": "coverage", "min_exposure": "least_shown", "max_exposure": "most_shown"}


@styled
def comparison(
    comparison: Comparison, measures: Sequence[str] = DEFAULT, *, title: str | None = None, across: int = 1
) -> Figure:
    """Draw every method as a dot with its interval, one panel per measure; coverage has no interval.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> figure = comparison(bmcd.compare(rivals, sim.clicks, sim, k=5), ["accuracy"])
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['Popularity', 'EASE']
    """
    _check_measures(comparison, measures)
    names = list(comparison.entries)
    styles = style.looks(names)
    figure, axes = style.panels(len(measures), title, across=across, width=3.6, height=0.75 + 0.21 * len(names))
    for ax, measure in zip(axes, measures, strict=True):
        heading, is_share = _heading(measure)
        write = style.percent if is_share else "{:.3f}".format
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
        style.round_ticks(ax.xaxis, share=is_share)
    return figure


@styled
def measures(
    comparison: Comparison, x: str = "coverage", y: str = "accuracy", *, title: str | None = None
) -> Figure:
    """Draw one measure against another: one point per method, with intervals where the measures have them.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> rivals = {"Popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> figure = measures(bmcd.compare(rivals, sim.clicks, sim, k=5), "novelty", "accuracy")
    >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
    ('novelty', 'accuracy')
    """
    _check_measures(comparison, (x, y))
    bars = f"bars: {comparison.level:.0%} intervals over users"
    figure = style.new_figure(height=3.9, title=title or f"{comparison.k} recommendations; {bars}")
    ax = figure.subplots()
    for name, look in style.looks(comparison.entries).items():
        errors = {"xerr": _bars(comparison, name, x), "yerr": _bars(comparison, name, y)}
        _draw_point(ax, look, comparison.value(name, x), comparison.value(name, y), **errors, label=name)
    ax.set(xlabel=x.replace("_", " "), ylabel=y.replace("_", " "))
    for axis, measure in ((ax.xaxis, x), (ax.yaxis, y)):
        style.round_ticks(axis, share=_heading(measure)[1])
    # Names at the points would overlap, since good methods are close together.
    style.legend_below(figure, ax, columns=3)
    return figure


@styled
def trade_off(trade_off: TradeOff, x: str | None = None, *, title: str | None = None) -> Figure:
    """Draw hits against coverage or exposure, and below them the number of hits given up.

    Expected hits are drawn and, with test clicks, observed ones. Without probabilities there are no expected hits:
    then only observed ones are drawn or, without test clicks, the sum of the scores. The axes on the right show
    shares of the recommendations (the accuracy) and of the hits of the plain lists. ``x`` is "coverage",
    "items_shown", "gini", "least_shown" or "most_shown"; the default is what the ladder of limits changes.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> ladder = bmcd.trade_off(sim.true_probabilities(3), 3, min_exposure=[0, 1, 2], clicks=sim.clicks)
    >>> trade_off(ladder).savefig("trade_off.png")
    """
    x = x or DEFAULT_X[trade_off.ladder]
    if x not in X_LABELS:
        raise InputError(f"x must be one of {', '.join(X_LABELS)}, but it is {x!r}.")
    rows, first = trade_off.rows(), trade_off.rerankings[0]
    label = "expected hits" if first.value == "probability" else "sum of scores"
    lines = {}
    if first.value == "probability":
        lines["expected_hits"] = (label, "o-", style.BLUE)
    elif trade_off.evaluations is None:
        lines["score"] = (label, "o-", style.BLUE)
    if trade_off.evaluations is not None:
        lines["hits"] = ("observed hits (test)", "s--", style.VERMILLION)
    sizes = f"{first.clicks.n_users:,} users, {first.clicks.n_items:,} items, k = {first.k}"
    figure = style.new_figure(height=4.6, title=title or sizes)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    steps = [row[x] for row in rows]
    for name, (line_label, form, color) in lines.items():
        above.plot(steps, [row[name] for row in rows], form, color=color, label=line_label)
    below.plot(steps, [row["given_up"] for row in rows], "o-", color=style.BLUE)
    hits_drawn = "score" not in lines
    if hits_drawn:
        _add_percent_axis(above, first.after.n_recommendations, "of recommendations")
    if first.before.total > 0:
        _add_percent_axis(below, first.before.total, "of plain lists")
    above.set_ylabel("hits" if hits_drawn else label)
    below.set(xlabel=X_LABELS[x], ylabel=f"{label}\ngiven up")
    style.round_ticks(below.xaxis, share=x == "coverage", integer=x.endswith("shown"))
    for ax in (above, below):
        style.round_ticks(ax.yaxis)
    style.legend_below(figure, above)
    figure.align_ylabels()
    if x == "gini":
        below.invert_xaxis()  # to the right is more even, as it is with coverage; the axis is shared
    return figure


def _heading(measure: str) -> tuple[str, bool]:
    return MEASURES.get(measure, (measure.replace("_", " "), False))


def _draw_point(ax: Any, look: Any, x: float, y: float, **options: Any) -> None:
    ax.errorbar([x], [y], fmt=look.marker, color=look.color, markeredgecolor=look.edge, capsize=3, **options)


def _bars(comparison: Comparison, name: str, measure: str) -> Any:
    interval = comparison.entries[name].intervals.get(measure)
    return interval and style.error_bars(comparison.value(name, measure), interval.low, interval.high)


def _check_measures(comparison: Comparison, measures: Sequence[str]) -> None:
    """Refuse unknown measures, and measures of calibration if no method has probabilities."""
    if not measures:
        raise InputError("there is nothing to draw: give at least one measure.")
    for measure in measures:
        if measure not in comparison.measures:
            raise InputError(f"{measure!r} is not a measure; choose from {', '.join(comparison.measures)}.")


def _add_percent_axis(ax: Any, total: float, label: str) -> None:
    """Write the numbers on the left also as shares of a total, on the right."""
    axis = ax.secondary_yaxis("right", functions=(lambda y: y / total, lambda share: share * total))
    axis.set_ylabel(label)
    style.round_ticks(axis.yaxis, share=True)
