"""The number of clusters, what they are like, and whether the chains agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bmcd.errors import InputError
from bmcd.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    PALE,
    VERMILLION,
    Figure,
    label_axes,
    looks,
    new_figure,
    panels,
    round_ticks,
    styled,
    table_of,
)

if TYPE_CHECKING:
    import pandas as pd

BOX = ("whislo", "q1", "med", "q3", "whishi")


@styled
def accuracy_by_clusters(table: Any, title: str | None = None) -> Figure:
    """Accuracy against the number of clusters: each run as a thin line, their mean with one standard error.

    ``table`` has the columns n_clusters and accuracy and, where there are several, run and series, such as
    "1 chain" and "4 chains".

    >>> rows = {"n_clusters": [2, 3, 2, 3], "accuracy": [0.2, 0.3, 0.4, 0.3], "run": [0, 0, 1, 1]}
    >>> figure = accuracy_by_clusters(rows)
    >>> [round(float(y), 3) for y in figure.axes[0].containers[0][0].get_ydata()]
    [0.3, 0.3]
    """
    frame = table_of(table, ("n_clusters", "accuracy"))
    if "series" not in frame.columns:
        frame = frame.assign(series="")
    names = list(dict.fromkeys(frame["series"].astype(str)))
    styles = looks([name or "BMCD" for name in names])
    figure = new_figure(height=3.6, title=title)
    ax = figure.subplots()
    for name in names:
        own, look = frame[frame["series"].astype(str) == name], styles[name or "BMCD"]
        if "run" in own.columns:
            for _, run in own.groupby("run", sort=True):
                ordered = run.sort_values("n_clusters")
                ax.plot(
                    *(ordered["n_clusters"], ordered["accuracy"]),
                    color=look.color,
                    linewidth=0.6,
                    alpha=0.4,
                    marker=".",
                    markersize=3,
                    label="_run",
                )
        by = own.groupby("n_clusters")["accuracy"]
        mean, error = by.mean(), (by.std(ddof=1) / np.sqrt(by.size())).fillna(0.0)
        ax.errorbar(
            *(mean.index, mean),
            yerr=error if (by.size() > 1).any() else None,
            color=look.color,
            marker=look.marker,
            linestyle=look.line,
            capsize=2.5,
            label=name or "mean",
        )
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
    """Boxplots of the within-cluster distance for each number of clusters, a panel for each entry.

    The frames are those of `ClusterChoice.boxplot` and `bmcd.clusters.curves.boxplot_rows`: by n_clusters (index or
    column), with whislo, q1, med, q3, whishi.

    >>> from bmcd.clusters.curves import boxplot_rows
    >>> figure = within_distance(boxplot_rows({2: np.arange(5.0), 3: np.arange(3.0)}))
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['2', '3']
    """
    given: dict[str, Any] = {str(n): b for n, b in boxes.items()} if isinstance(boxes, Mapping) else {"": boxes}
    figure, axes = panels(len(given), title, across=across, height=2.9)
    for ax, (name, rows) in zip(axes, given.items(), strict=True):
        frame = rows.reset_index() if "n_clusters" not in rows.columns else rows
        frame = table_of(frame, ("n_clusters", *BOX))
        numbers = [int(c) for c in frame["n_clusters"]]
        records = [{str(key): value for key, value in row.items()} for row in frame[list(BOX)].to_dict("records")]
        ax.bxp(
            records,
            positions=range(len(numbers)),
            widths=0.6,
            showfliers=False,
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": PALE, "edgecolor": BLUE},
            medianprops={"color": VERMILLION, "linewidth": 1.6},
            whiskerprops={"color": BLUE},
            capprops={"color": BLUE},
        )
        ax.set_xticks(range(len(numbers)), [str(c) for c in numbers])
        ax.set_title(name) if name else None
        round_ticks(ax.yaxis, integer=True)
        for at, (c, record) in enumerate(zip(numbers, records, strict=True)):
            said = f"{c} clusters: median {record['med']:,.0f}, half within {record['q1']:,.0f} to "
            figure.tip(ax, said + f"{record['q3']:,.0f}", at, float(record["med"]))
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
    """The scale alpha, draw by draw, a panel for each cluster and a line for each chain.

    ``alpha`` is [chain, draw, cluster] (or [draw, cluster]); ``clusters`` names them; ``truth`` has their true
    values, drawn as dashed lines. Cluster names switch between chains unless they are sorted out first
    (`bmcd.clusters.matching`).

    >>> figure = alpha_traces(np.ones((2, 5, 3)), truth=[1, 2, 3])
    >>> len(figure.axes), len(figure.axes[0].get_lines())
    (3, 3)
    """
    values = np.asarray(alpha, dtype=np.float64)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or not values.size:
        raise InputError(f"alpha must be [chain, draw, cluster] and not empty, but its shape is {values.shape}.")
    n_chains, n_draws, n_clusters = values.shape
    called = [f"cluster {c + 1}" for c in range(n_clusters)] if clusters is None else [str(c) for c in clusters]
    true = None if truth is None else np.asarray(truth, dtype=np.float64)
    for what, has in (("clusters", len(called)), ("truth", n_clusters if true is None else len(true))):
        if has != n_clusters:
            raise InputError(f"{what} has {has} entries, but alpha has {n_clusters} clusters.")
    styles = list(looks([f"chain {c + 1}" for c in range(n_chains)]).values())
    figure, axes = panels(n_clusters, title, across=across, height=2.3, sharex=True)
    for c, ax in enumerate(axes):
        for chain in range(n_chains):
            look = styles[chain]
            ax.plot(
                np.arange(1, n_draws + 1),
                values[chain, :, c],
                color=look.color,
                linewidth=0.8,
                alpha=0.85,
                linestyle=look.line,
                label=f"chain {chain + 1}",
            )
        if true is not None:
            ax.axhline(true[c], color="black", linestyle=(0, (4, 3)), linewidth=1.2, label="truth")
        ax.set_title(called[c], fontsize=10)
        round_ticks(ax.xaxis, integer=True)
        round_ticks(ax.yaxis, 4)
    label_axes(figure, axes, "draw", "alpha")
    if n_chains > 1 or true is not None:
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)))
    return figure


@styled
def kmeans_curve(
    inertia: Mapping[int, float], *, chosen: Mapping[str, int] | None = None, title: str | None = None
) -> Figure:
    """The within-cluster sum of squares of k-means against the number of clusters, with choices marked.

    >>> figure = kmeans_curve({2: 100.0, 3: 40.0, 4: 35.0}, chosen={"elbow": 3})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['elbow: 3']
    """
    if not inertia:
        raise InputError("there is nothing to draw: inertia is empty.")
    curve = {int(c): float(value) for c, value in sorted(inertia.items(), key=lambda pair: int(pair[0]))}
    figure = new_figure(height=3.1, title=title)
    ax = figure.subplots()
    ax.plot(list(curve), list(curve.values()), color=BLUE, marker="o", markersize=4)
    marks = (("s", VERMILLION), ("D", GREEN), ("^", ORANGE), ("v", "black"))
    for at, (name, c) in enumerate((chosen or {}).items()):
        if int(c) not in curve:
            raise InputError(f"{name} is {c} clusters, but the curve has {', '.join(map(str, curve))}.")
        marker, color = marks[at % len(marks)]
        # Several may choose the same number: rings of growing size keep all in sight.
        ax.plot(
            [int(c)],
            [curve[int(c)]],
            marker,
            color=color,
            markersize=9 + 5 * at,
            fillstyle="none",
            markeredgewidth=1.8,
            linestyle="none",
            label=f"{name}: {c}",
        )
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
    """How many users each cluster has, the first on top, with intervals where they are known.

    >>> figure = cluster_sizes([30, 20], [(25, 35), (15, 25)])
    >>> [float(bar.get_width()) for bar in figure.axes[0].patches]
    [30.0, 20.0]
    """
    values = [float(size) for size in sizes]
    called = [f"cluster {c + 1}" for c in range(len(values))] if names is None else list(names)
    figure = new_figure(height=0.9 + 0.3 * len(values), title=title)
    ax = figure.subplots()
    ax.barh(range(len(values)), values, color=BLUE, height=0.7)
    for at, value in enumerate(values):
        said = f"{called[at]}: {value:,.0f} users"
        if intervals is not None:
            low, high = intervals[at]
            ax.errorbar(
                [value],
                [at],
                xerr=[[max(value - low, 0.0)], [max(high - value, 0.0)]],
                color="black",
                capsize=3,
                elinewidth=1.2,
                fmt="none",
            )
            said += f" (from {low:,.0f} to {high:,.0f})"
        figure.tip(ax, said, (0.0, value), (at - 0.4, at + 0.4))
    ax.set_yticks(range(len(values)), called)
    ax.invert_yaxis()
    ax.set_xlabel("users")
    ax.grid(axis="y", visible=False)
    round_ticks(ax.xaxis, integer=True)
    return figure
