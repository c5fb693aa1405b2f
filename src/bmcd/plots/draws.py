"""The draws of a fitted model: traces, cluster sizes, predicted clicks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.plots import style
from bmcd.plots.style import Figure, styled


@styled
def alpha_traces(
    alpha: ArrayLike,
    *,
    clusters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    title: str | None = None,
    across: int = 2,
) -> Figure:
    """Draw the scale alpha, draw by draw: one panel per cluster, one line per chain. Chains that agree overlap.

    ``alpha`` is [chain, draw, cluster] (or [draw, cluster]); ``clusters`` names them; ``truth`` has their true
    values, drawn as dashed lines. Cluster numbers may differ between draws and chains: use matched ones, such as
    ``model.to_arviz().posterior["alpha"]``.

    >>> figure = alpha_traces(np.ones((2, 5, 3)), truth=[1, 2, 3])
    >>> len(figure.axes), len(figure.axes[0].get_lines())
    (3, 3)
    """
    values = np.asarray(alpha, dtype=np.float64)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or not values.size:
        raise InputError(f"alpha must be [chain, draw, cluster] and not empty, but its shape is {values.shape}.")
    n_chains, n_draws, n_clusters = values.shape
    names = [f"cluster {c + 1}" for c in range(n_clusters)] if clusters is None else [str(c) for c in clusters]
    true_values = None if truth is None else np.asarray(truth, dtype=np.float64)
    for argument, entries in (("clusters", names), ("truth", true_values)):
        if entries is not None and len(entries) != n_clusters:
            raise InputError(f"{argument} has {len(entries)} entries, but alpha has {n_clusters} clusters.")
    styles = style.looks([f"chain {chain + 1}" for chain in range(n_chains)])
    figure, axes = style.panels(n_clusters, title, across=across, height=2.3, sharex=True)
    for c, ax in enumerate(axes):
        for chain, (label, look) in zip(values, styles.items(), strict=True):
            line = {"color": look.color, "linestyle": look.line, "linewidth": 0.8, "alpha": 0.85}
            ax.plot(np.arange(1, n_draws + 1), chain[:, c], label=label, **line)
        if true_values is not None:
            ax.axhline(true_values[c], color=style.BLACK, linestyle=(0, (4, 3)), linewidth=1.2, label="truth")
        ax.set_title(names[c])
        style.round_ticks(ax.xaxis, integer=True)
        style.round_ticks(ax.yaxis, 4)
    style.label_axes(figure, axes, "draw", "alpha")
    if n_chains > 1 or true_values is not None:
        style.legend_below(figure, axes[0], columns=5)
    return figure


@styled
def cluster_sizes(
    sizes: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None = None,
    title: str | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw the number of users of each cluster, the first on top, with intervals if given.

    >>> figure = cluster_sizes([30, 20], [(25, 35), (15, 25)])
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
    [30.0, 20.0]
    """
    values = [float(size) for size in sizes]
    labels = [f"cluster {c + 1}" for c in range(len(values))] if names is None else list(names)
    figure = style.new_figure(height=0.9 + 0.3 * len(values), title=title)
    ax = figure.subplots()
    ax.barh(range(len(values)), values, color=style.BLUE, height=0.7)
    for row, value in enumerate(values):
        text = f"{labels[row]}: {value:,.0f} users"
        if intervals is not None:
            low, high = intervals[row]
            bars = style.error_bars(value, low, high)
            ax.errorbar([value], [row], xerr=bars, color=style.BLACK, capsize=3, elinewidth=1.2, fmt="none")
            text += f" (from {low:,.0f} to {high:,.0f})"
        figure.tip(ax, text, (0.0, value), (row - 0.4, row + 0.4))
    ax.set_yticks(range(len(values)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("users")
    ax.grid(axis="y", visible=False)
    style.round_ticks(ax.xaxis, integer=True)
    return figure


@styled
def predicted_counts(
    observed: ArrayLike,
    replicated: ArrayLike,
    *,
    names: Sequence[str] | None = None,
    most: int = 25,
    title: str | None = None,
) -> Figure:
    """Draw how often items were clicked, and the range that contains 90 % of the replicated counts.

    ``observed`` is [item]; ``replicated`` is [..., item], such as clicks_per_item of ``observed_data`` and of
    ``posterior_predictive`` of `to_arviz`. The ``most`` clicked items are shown, the first on top.

    >>> figure = predicted_counts([30, 20, 5], [[28, 22, 4], [33, 19, 6]], names=["a", "b", "c"])
    >>> [text.get_text() for text in figure.axes[0].get_yticklabels()]
    ['a', 'b', 'c']
    """
    seen = np.asarray(observed, dtype=np.float64)
    drawn = np.asarray(replicated, dtype=np.float64)
    if seen.ndim != 1 or not seen.size or drawn.ndim < 2 or drawn.shape[-1] != seen.size:
        raise InputError(f"observed must be [item] and replicated [..., item]: {seen.shape} and {drawn.shape}.")
    labels = [f"item {i}" for i in range(seen.size)] if names is None else [str(name) for name in names]
    order = np.argsort(-seen, kind="stable")[: max(most, 1)]
    low, middle, high = np.percentile(drawn.reshape(-1, seen.size), (5, 50, 95), axis=0)[:, order]
    rows = np.arange(order.size)
    figure = style.new_figure(height=1.1 + 0.22 * order.size, title=title)
    ax = figure.subplots()
    bars = style.error_bars(middle, low, high)
    ax.errorbar(
        middle, rows, xerr=bars, fmt="|", color=style.BLUE, capsize=2.5, label="predicted, 90 % of the draws"
    )
    ax.plot(seen[order], rows, "o", color=style.BLACK, markersize=4, label="clicked")
    for row, i in enumerate(order):
        figure.tip(ax, f"{labels[i]}: {seen[i]:,.0f} clicks", float(seen[i]), row)
    ax.set_yticks(rows, [labels[i] for i in order])
    ax.invert_yaxis()
    ax.set_xlabel("users who clicked the item")
    style.round_ticks(ax.xaxis, integer=True)
    style.legend_below(figure, ax)
    return figure
