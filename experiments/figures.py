"""Figures that several studies draw: curves against the number of clusters, and rare items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from bmcd.plots.style import (
    BLACK,
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
)

BOX_COLUMNS = ("whislo", "q1", "med", "q3", "whishi")
"""The columns of a boxplot, as matplotlib's `Axes.bxp` calls them."""


@styled
def accuracy_by_clusters(frame: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw accuracy against the number of clusters: each run as a thin line, their mean with one standard error.

    ``frame`` has the columns n_clusters and accuracy and, where there are several, run and series, such as
    "1 chain" and "4 chains".

    >>> rows = {"n_clusters": [2, 3, 2, 3], "accuracy": [0.2, 0.3, 0.4, 0.3], "run": [0, 0, 1, 1]}
    >>> figure = accuracy_by_clusters(pd.DataFrame(rows))
    >>> [round(float(y), 3) for y in figure.axes[0].containers[0][0].get_ydata()]
    [0.3, 0.3]
    """
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
    """Draw boxplots of the within-cluster distance for each number of clusters, one panel per frame.

    The frames are those of `ClusterChoice.boxplot` and `cluster_curves.boxplot_rows`: by n_clusters (index or
    column), with whislo, q1, med, q3, whishi.

    >>> from bmcd.models.choose import boxplot_rows
    >>> figure = within_distance(boxplot_rows({2: np.arange(5.0), 3: np.arange(3.0)}))
    >>> [text.get_text() for text in figure.axes[0].get_xticklabels()]
    ['2', '3']
    """
    frames: Mapping[str, Any] = boxes if isinstance(boxes, Mapping) else {"": boxes}
    figure, axes = panels(len(frames), title, across=across, height=2.9)
    for ax, (name, rows) in zip(axes, frames.items(), strict=True):
        frame = rows if "n_clusters" in rows.columns else rows.reset_index()
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
def kmeans_curve(
    inertia: Mapping[int, float], *, chosen: Mapping[str, int] | None = None, title: str | None = None
) -> Figure:
    """Draw the within-cluster sum of squares of k-means against the number of clusters, and mark choices on it.

    >>> figure = kmeans_curve({2: 100.0, 3: 40.0, 4: 35.0}, chosen={"elbow": 3})
    >>> figure.axes[0].get_legend_handles_labels()[1]
    ['elbow: 3']
    """
    curve = dict(sorted((int(c), float(value)) for c, value in inertia.items()))
    figure = new_figure(height=3.1, title=title)
    ax = figure.subplots()
    ax.plot(list(curve), list(curve.values()), color=BLUE, marker="o", markersize=4)
    markers = (("s", VERMILLION), ("D", GREEN), ("^", ORANGE), ("v", BLACK))
    ring: dict[str, Any] = {"fillstyle": "none", "markeredgewidth": 1.8, "linestyle": "none"}
    for place, (name, number) in enumerate((chosen or {}).items()):
        c = int(number)
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
def rare_items(frame: pd.DataFrame, title: str | None = None) -> Figure:
    """Draw how many rare items are recommended (left), and to how many users (right): boxes and dots over runs.

    ``frame`` has one row per run: method, n_rare, n_users_with_rare.

    >>> rows = {"method": ["BMCD", "BMCD"], "n_rare": [3, 5], "n_users_with_rare": [2, 4]}
    >>> figure = rare_items(pd.DataFrame(rows))
    >>> [line.get_ydata().tolist() for line in figure.axes[0].get_lines() if line.get_label() == "runs"]
    [[3, 5]]
    """
    headings = {"n_rare": "recommendations of rare items", "n_users_with_rare": "users who get one"}
    by_method = frame.groupby(frame["method"].astype(str), sort=False)
    styles = looks(map(str, by_method.groups))
    figure, axes = panels(2, title, height=3.0)
    for ax, (column, heading) in zip(axes, headings.items(), strict=True):
        for place, (method, rows) in enumerate(by_method):
            values, look = rows[column].to_numpy(), styles[method]
            spread = np.zeros(1)
            if len(values) > 1:
                boxes = box_options(look.color, look.color, facecolor=look.color, alpha=0.3, hatch=look.hatch)
                ax.boxplot(values, positions=[place], widths=0.55, **boxes)
                spread = np.linspace(-0.15, 0.15, len(values))
            ax.plot(place + spread, values, look.marker, color=look.color, markersize=4, label="runs")
        ax.set_xticks(range(len(styles)), list(styles), rotation=30 if len(styles) > 3 else 0)
        ax.set_xlim(-0.6, len(styles) - 0.4)
        ax.set_title(heading)
        # From 0, and with room for the largest: limits that matplotlib chose before must not cut it off.
        ax.set_ylim(0, 1.06 * max(float(frame[column].max()), 1.0))
        ax.grid(axis="x", visible=False)
        round_ticks(ax.yaxis, integer=True)
    return figure


def box_options(edge: str, median: str, **face: Any) -> dict[str, Any]:
    """Return the options of `Axes.bxp` and `Axes.boxplot`: colours, no outliers, and ticks left alone."""
    lines = {part: {"color": edge} for part in ("whiskerprops", "capprops")}
    boxes = {"boxprops": {"edgecolor": edge, **face}, "medianprops": {"color": median, "linewidth": 1.6}}
    return {"showfliers": False, "patch_artist": True, "manage_ticks": False, **boxes, **lines}
