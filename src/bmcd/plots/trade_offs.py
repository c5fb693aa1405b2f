"""The figure of a trade-off: the hits that are given up for coverage, or for more even exposure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bmcd.errors import InputError
from bmcd.plots.style import BLUE, VERMILLION, Figure, new_figure, round_ticks, styled

if TYPE_CHECKING:
    from bmcd.evaluation.trade_off import TradeOff

# What the horizontal axis can show: a column of `TradeOff.rows`, and its label.
X_LABELS = {
    "coverage": "coverage: share of items shown to anybody",
    "items_shown": "items shown to anybody",
    "gini": "Gini of exposure (0: all items shown equally often)",
    "least_shown": "users to whom the least shown item is shown",
    "most_shown": "users to whom the most shown item is shown",
}
DEFAULT_X = {"min_coverage": "coverage", "min_exposure": "least_shown", "max_exposure": "most_shown"}


@styled
def trade_off(trade_off: TradeOff, x: str | None = None, *, title: str | None = None) -> Figure:
    """Draw the hits against what they are given up for, and below them how many are given up.

    The hits are expected ones and, with test clicks, also real ones. Without probabilities there are no expected
    hits: only real ones are drawn or, without test clicks, the sum of the scores. The axes on the right have
    shares: of the recommendations, which is the accuracy, and of the hits of the plain lists. ``x`` is "coverage",
    "items_shown", "gini", "least_shown" or "most_shown"; by default it is what the ladder of limits changes.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> ladder = bmcd.trade_off(sim.true_probabilities(3), 3, min_exposure=[0, 1, 2], clicks=sim.clicks)
    >>> trade_off(ladder).savefig("trade_off.png")
    """
    x = x or DEFAULT_X[trade_off.ladder]
    if x not in X_LABELS:
        raise InputError(f"x must be one of {', '.join(X_LABELS)}, but it is {x!r}.")
    rows, first = trade_off.rows(), trade_off.rerankings[0]
    column, label = (
        ("expected_hits", "expected hits") if first.value == "probability" else ("score", "sum of scores")
    )
    lines = {column: (label, "o-", BLUE)} if column == "expected_hits" or trade_off.evaluations is None else {}
    if trade_off.evaluations is not None:
        lines["hits"] = ("real hits (test)", "s--", VERMILLION)
    sizes = f"{first.clicks.n_users:,} users, {first.clicks.n_items:,} items, k = {first.k}"
    figure = new_figure(height=4.6, title=title or sizes)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    steps = [row[x] for row in rows]
    for name, (line_label, style, color) in lines.items():
        above.plot(steps, [row[name] for row in rows], style, color=color, label=line_label)
    below.plot(steps, [row["given_up"] for row in rows], "o-", color=BLUE)
    hits_drawn = "score" not in lines
    if hits_drawn:
        _add_percent_axis(above, first.after.n_recommendations, "of recommendations")
    if first.before.total > 0:
        _add_percent_axis(below, first.before.total, "of plain lists")
    above.set_ylabel("hits" if hits_drawn else label)
    below.set(xlabel=X_LABELS[x], ylabel=f"{label}\ngiven up")
    round_ticks(below.xaxis, share=x == "coverage", integer=x.endswith("shown"))
    for ax in (above, below):
        round_ticks(ax.yaxis)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower left", ncols=2)
    figure.align_ylabels()
    if x == "gini":
        below.invert_xaxis()  # to the right is more even, as it is with coverage; the axis is shared
    return figure


def _add_percent_axis(ax: Any, total: float, label: str) -> None:
    """Write the numbers on the left also as shares of a total, on the right."""
    axis = ax.secondary_yaxis("right", functions=(lambda y: y / total, lambda share: share * total))
    axis.set_ylabel(label)
    round_ticks(axis.yaxis, share=True)
