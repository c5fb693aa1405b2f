"""Figures about clusters: how many to take, how large they are, and whether the chains agree on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PALE,
    VERMILLION,
    Figure,
    box_options,
    error_bars,
    label_axes,
    looks,
    new_figure,
    panels,
    round_ticks,
    styled,
    to_pandas,
)

if TYPE_CHECKING:
    import pandas as pd

# The columns of a boxplot, as matplotlib's `Axes.bxp` calls them.
BOX_COLUMNS = ("whislo", "q1", "med", "q3", "whishi")


@styled
def accuracy_by_clusters(table: Any, title: str | None = None) -> Figure:
    """Draw accuracy against the number of clusters: each run as a thin line, their mean with one standard error.

    ``table`` has the columns n_clusters and accuracy and, where there are several, run and series, such as
    "1 chain" and "4 chains".

    >>> rows = {"n_clusters": [2, 3, 2, 3], "accuracy": [0.2, 0.3, 0.4, 0.3], "run": [0, 0, 1, 1]}
    >>> figure = accuracy_by_clusters(rows)
    >>> [round(float(y), 3) for y in figure.axes[0].containers[0][0].get_ydata()]
    [0.3, 0.3]
    """
    frame = to_pandas(table, ("n_clusters", "accuracy"))
    if "series" not in frame.columns:
        frame = frame.assign(series="")
    names = list(dict.fromkeys(frame["series"].astype(str)))
    styles = looks([name or "BMCD" for name in names])
    figure = new_figure(height=3.6, title=title)
    ax = figure.subplots()
    for name in names:
        rows, look = frame[frame["series"].astype(str) == name], styles[name or "BMCD"]
        if "run" in rows.columns:
            for _, run in rows.sort_values("n_clusters").groupby("run", sort=True):
                x, y = run["n_clusters"], run["accuracy"]
                ax.plot(x, y, color=look.color, linewidth=0.6, alpha=0.4, marker=".", markersize=3, label="_run")
        by_number = rows.groupby("n_clusters")["accuracy"]
        mean, n_runs = by_number.mean(), by_number.size()
        error = (by_number.std(ddof=1) / np.sqrt(n_runs)).fillna(0.0) if (n_runs > 1).any() else None
        style = {"color": look.color, "marker": look.marker, "linestyle": look.line, "capsize": 2.5}
        ax.errorbar(mean.index, mean, yerr=error, label=name or "mean", **style)
    ax.set(xlabel="number of clusters", ylabel="accuracy")
    round_ticks(ax.xaxis, 10, integer=True)
    round_ticks(ax.yaxis, share=True)
    if names != [""]:
        ax.legend(loc="best")
    return figure


@styled
def within_distance(
    boxes: pd.DataFrame | Mapping[str, pd.DataFrame], title: str | None = None, *, across: int = 2
) -> Figure:
    """Draw boxplots of the within-cluster distance for each number of clusters, a panel for each frame.

    The frames are those of `ClusterChoice.boxplot` and `cluster_curves.boxplot_rows`: by n_clusters (index or
    column), with whislo, q1, med, q3, whishi.

    >>> from bmcd.models.cluster_curves import boxplot_rows
    >>> figure = within_distance(boxplot_rows({2: np.arange(5.0), 3: np.arange(3.0)}))
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['2', '3']
    """
    frames: Mapping[str, Any] = boxes if isinstance(boxes, Mapping) else {"": boxes}
    figure, axes = panels(len(frames), title, across=across, height=2.9)
    for ax, (name, rows) in zip(axes, frames.items(), strict=True):
        with_numbers = rows if "n_clusters" in rows.columns else rows.reset_index()
        frame = to_pandas(with_numbers, ("n_clusters", *BOX_COLUMNS))
        numbers = [int(c) for c in frame["n_clusters"]]
        records = frame[list(BOX_COLUMNS)].to_dict("records")
        ax.bxp(records, positions=range(len(numbers)), widths=0.6, **box_options(BLUE, VERMILLION, facecolor=PALE))
        ax.set_xticks(range(len(numbers)), [str(c) for c in numbers])
        ax.set_title(str(name))
        round_ticks(ax.yaxis, integer=True)
        for place, (c, box) in enumerate(zip(numbers, records, strict=True)):
            half = f"half within {box['q1']:,.0f} to {box['q3']:,.0f}"
            figure.tip(ax, f"{c} clusters: median {box['med']:,.0f}, {half}", place, float(box["med"]))
    label_axes(figure, axes, "number of clusters", "within-cluster distance")
    return figure


@styled
def alpha_traces(
    alpha: ArrayLike,
    *,
    clusters: Sequence[str] | None = None,
    truth: ArrayLike | None = None,
    title: str | None = None,
    across: int = 2,
) -> Figure:
    """Draw the scale alpha, draw by draw: a panel for each cluster, a line for each chain.

    ``alpha`` is [chain, draw, cluster] (or [draw, cluster]); ``clusters`` names them; ``truth`` has their true
    values, drawn as dashed lines. Clusters may change their names between draws and chains, so match them first
    (`bmcd.models.cluster_matching`).

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
    styles = looks([f"chain {chain + 1}" for chain in range(n_chains)])
    figure, axes = panels(n_clusters, title, across=across, height=2.3, sharex=True)
    for c, ax in enumerate(axes):
        for chain, (label, look) in zip(values, styles.items(), strict=True):
            line = {"color": look.color, "linestyle": look.line, "linewidth": 0.8, "alpha": 0.85}
            ax.plot(np.arange(1, n_draws + 1), chain[:, c], label=label, **line)
        if true_values is not None:
            ax.axhline(true_values[c], color=BLACK, linestyle=(0, (4, 3)), linewidth=1.2, label="truth")
        ax.set_title(names[c])
        round_ticks(ax.xaxis, integer=True)
        round_ticks(ax.yaxis, 4)
    label_axes(figure, axes, "draw", "alpha")
    if n_chains > 1 or true_values is not None:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)))
    return figure


@styled
def kmeans_curve(
    inertia: Mapping[int, float], *, chosen: Mapping[str, int] | None = None, title: str | None = None
) -> Figure:
    """Draw the within-cluster sum of squares of k-means against the number of clusters, and mark choices on it.

    >>> figure = kmeans_curve({2: 100.0, 3: 40.0, 4: 35.0}, chosen={"elbow": 3})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['elbow: 3']
    """
    if not inertia:
        raise InputError("there is nothing to draw: inertia is empty.")
    curve = dict(sorted((int(c), float(value)) for c, value in inertia.items()))
    figure = new_figure(height=3.1, title=title)
    ax = figure.subplots()
    ax.plot(list(curve), list(curve.values()), color=BLUE, marker="o", markersize=4)
    markers = (("s", VERMILLION), ("D", GREEN), ("^", ORANGE), ("v", BLACK))
    ring: dict[str, Any] = {"fillstyle": "none", "markeredgewidth": 1.8, "linestyle": "none"}
    for place, (name, number) in enumerate((chosen or {}).items()):
        c = int(number)
        if c not in curve:
            raise InputError(f"{name} is {c} clusters, but the curve has {', '.join(map(str, curve))}.")
        marker, color = markers[place % len(markers)]
        # Several may choose the same number: rings of growing size keep all of them in sight.
        ax.plot([c], [curve[c]], marker, color=color, markersize=9 + 5 * place, label=f"{name}: {c}", **ring)
    ax.set(xlabel="number of clusters", ylabel="within-cluster sum of squares")
    round_ticks(ax.xaxis, 10, integer=True)
    round_ticks(ax.yaxis, integer=True)
    if chosen:
        ax.legend(loc="upper right")
    return figure


@styled
def cluster_sizes(
    sizes: Sequence[float],
    intervals: Sequence[tuple[float, float]] | None = None,
    title: str | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw how many users each cluster has, the first on top, with intervals where they are known.

    >>> figure = cluster_sizes([30, 20], [(25, 35), (15, 25)])
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
    [30.0, 20.0]
    """
    values = [float(size) for size in sizes]
    labels = [f"cluster {c + 1}" for c in range(len(values))] if names is None else list(names)
    figure = new_figure(height=0.9 + 0.3 * len(values), title=title)
    ax = figure.subplots()
    ax.barh(range(len(values)), values, color=BLUE, height=0.7)
    for row, value in enumerate(values):
        text = f"{labels[row]}: {value:,.0f} users"
        if intervals is not None:
            low, high = intervals[row]
            bars = error_bars(value, low, high)
            ax.errorbar([value], [row], xerr=bars, color=BLACK, capsize=3, elinewidth=1.2, fmt="none")
            text += f" (from {low:,.0f} to {high:,.0f})"
        figure.tip(ax, text, (0.0, value), (row - 0.4, row + 0.4))
    ax.set_yticks(range(len(values)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("users")
    ax.grid(axis="y", visible=False)
    round_ticks(ax.xaxis, integer=True)
    return figure
