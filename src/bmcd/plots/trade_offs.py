"""The figure of a trade-off: expected hits, and real ones where they are known, against coverage or evenness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bmcd.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.exposure.trade_off import TradeOff

# What can stand below: the name of the column, and what it says.
BELOW = {
    "coverage": "coverage: share of items shown to anybody",
    "items_shown": "items shown to anybody",
    "gini": "Gini of exposure (0: all items shown equally often)",
    "least_shown": "users to whom the least shown item is shown",
    "most_shown": "users to whom the most shown item is shown",
}
DEFAULT = {"min_coverage": "coverage", "min_exposure": "least_shown", "max_exposure": "most_shown"}
# Blue and orange of Okabe and Ito, which colour-blind people can tell apart.
EXPECTED, REAL = "#0072B2", "#D55E00"


def plot_trade_off(trade_off: TradeOff, x: str | None = None) -> Figure:
    """Draw expected hits, and below them what is given up, against what it is given up for.

    With test clicks the real hits are drawn too; without probabilities, instead of expected ones (or the sum of the
    scores, if there are no test clicks). Axes on the right have shares: of the recommendations, which is the
    accuracy, and of the plain lists' hits. ``x`` is "coverage", "items_shown", "gini", "least_shown" or
    "most_shown"; by default what the ladder moves.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> found = bmcd.trade_off(sim.true_probabilities(3), 3, min_exposure=[0, 1, 2], clicks=sim.clicks)
    >>> plot_trade_off(found).savefig("trade_off.png")
    """
    from matplotlib.figure import Figure  # here, because it takes time that most callers need not spend

    x = x or DEFAULT[trade_off.ladder]
    if x not in BELOW:
        raise InputError(f"x must be one of {', '.join(BELOW)}, but it is {x!r}.")
    rows, first = trade_off.rows(), trade_off.rerankings[0]
    along = [row[x] for row in rows]
    # No pyplot: a figure made here is the caller's alone, and needs no screen.
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    total, what = ("expected_hits", "expected hits") if first.value == "probability" else ("score", "sum of scores")
    hits = total == "expected_hits" or trade_off.evaluations is not None
    if total == "expected_hits" or trade_off.evaluations is None:
        above.plot(along, [row[total] for row in rows], "o-", color=EXPECTED, label=what)
    if trade_off.evaluations is not None:
        above.plot(along, [row["hits"] for row in rows], "s--", color=REAL, label="real hits (test)")
    below.plot(along, [row["given_up"] for row in rows], "o-", color=EXPECTED)
    if hits:
        _percent(above, first.after.n_recommendations, "% of recommendations")
    if first.before.total > 0:
        _percent(below, first.before.total, "% of plain lists")
    above.set_ylabel("hits" if hits else what)
    below.set_ylabel(f"{what}\ngiven up")
    below.set_xlabel(BELOW[x])
    above.set_title(f"{first.clicks.n_users:,} users, {first.clicks.n_items:,} items, k = {first.k}")
    above.legend(frameon=False, loc="best")
    for ax in (above, below):
        ax.grid(alpha=0.3)
        ax.spines["top"].set_visible(False)
    if x == "gini":
        below.invert_xaxis()  # to the right is more even, as it is with coverage; the axis is shared
    return figure


def _percent(ax: Any, whole: float, label: str) -> None:
    axis = ax.secondary_yaxis("right", functions=(lambda y: 100 * y / whole, lambda share: share * whole / 100))
    axis.set_ylabel(label)
