"""The figure of a trade-off: expected hits, and real ones where they are known, against coverage or evenness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.exposure.ladder import TradeOff

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


def plot_trade_off(trade_off: TradeOff, x: str | None = None, ax: Any = None) -> Figure:
    """Draw expected hits against what they are given up for; with test clicks also the real hits.

    The axis on the right has the same as a share of all recommendations, the accuracy. ``x`` is "coverage",
    "items_shown", "gini", "least_shown" or "most_shown"; by default what the ladder moves. Without probabilities
    the real hits are drawn alone, or the sum of the scores if there are no test clicks. ``ax``: axes to draw in.

    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> found = bmcd.trade_off(sim.true_probabilities(3), 3, min_exposure=[0, 1, 2], clicks=sim.clicks)
    >>> plot_trade_off(found).savefig("trade_off.png")
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("the plot needs Matplotlib: pip install 'bmcd[plots]'") from error
    x = x or DEFAULT[trade_off.ladder]
    if x not in BELOW:
        raise ValueError(f"x must be one of {', '.join(BELOW)}, but it is {x!r}.")
    rows = trade_off.rows()
    first = trade_off.rerankings[0]
    # No pyplot: a figure made here is the caller's alone, and needs no screen.
    figure = ax.figure if ax is not None else Figure(figsize=(7, 4.5), layout="constrained")
    ax = ax if ax is not None else figure.add_subplot()
    below = [row[x] for row in rows]
    has_probability, real = first.value == "probability", trade_off.evaluations is not None
    if has_probability:
        ax.plot(below, [row["expected_hits"] for row in rows], "o-", color=EXPECTED, label="expected hits")
    if real:
        ax.plot(below, [row["hits"] for row in rows], "s--", color=REAL, label="real hits (test)")
    if not has_probability and not real:
        ax.plot(below, [row["score"] for row in rows], "o-", color=EXPECTED, label="sum of scores")
    ax.set_xlabel(BELOW[x])
    ax.set_title(f"{first.clicks.n_users:,} users, {first.clicks.n_items:,} items, k = {first.k}")
    ax.grid(alpha=0.3)
    ax.spines["top"].set_visible(False)
    if has_probability or real:
        ax.set_ylabel("hits")
        total = first.after.n_recommendations
        share = ax.secondary_yaxis("right", functions=(lambda hits: 100 * hits / total, lambda s: s * total / 100))
        share.set_ylabel("% of recommendations")
    else:
        ax.set_ylabel("sum of scores")
    if x == "gini":
        ax.invert_xaxis()  # to the right is more even, as it is with coverage
    ax.legend(frameon=False, loc="best")
    for i, row in enumerate(rows):
        if (
            i
            and (has_probability or not real)
            and row["given_up"] > 0
            and (i == len(rows) - 1 or i == len(rows) // 2)
        ):
            name = "expected_hits" if has_probability else "score"
            ax.annotate(
                f"-{row['given_up_share']:.1%}",
                (row[x], row[name]),
                xytext=(0, 8),
                textcoords="offset points",
                ha="right",
                color=EXPECTED,
                fontsize=9,
            )
    return figure
