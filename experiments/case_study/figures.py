"""The figures of the case study, from `bmcd.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import bmcd
from experiments.case_study.plan import MAIN
from experiments.case_study.results import CF, DataSetResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# So many clusters' scales are drawn: the paper shows three of each data set.
TRACED = 4


def by_data_set(results: DataSetResults) -> dict[str, Figure]:
    """Draw the figures that every data set has, and return them by name."""
    # Collaborative filtering, and the most accurate rival if that is another.
    rivals = {name: results.measure(name, "accuracy") for name in dict.fromkeys([CF, results.best_rival])}
    lines: dict[str, Any] = {"rivals": rivals, "title": results.name}
    counts = {name: results.item_counts(name) for name in (MAIN, CF)}
    return {
        "kmeans": kmeans_curve(results),
        "accuracy_by_clusters": accuracy_by_clusters(results),
        "calibration": bmcd.plots.calibration(results.calibration, **lines),
        "cutoff": bmcd.plots.cutoff_curve(results.calibration, **lines),
        "exposure": bmcd.plots.exposure(counts, title=results.name),
        "alpha": alpha_traces(results),
    }


def item_popularity(data_sets: Sequence[DataSetResults]) -> Figure:
    """Draw the training clicks of each item."""
    n_popular = int(data_sets[0].main["measures"]["n_popular"])
    clicks = {results.name: results["describe"]["item_clicks"] for results in data_sets}
    return bmcd.plots.item_popularity(clicks, n_popular)


def alpha_traces(results: DataSetResults) -> Figure:
    """Draw the scales of some clusters: the largest, the smallest, and some between."""
    sizes = results.main["cluster_sizes"]
    shown = traced_clusters(len(sizes))
    names = [f"cluster {c + 1}: {sizes[c]:,.0f} users" for c in shown]
    alpha = np.array(results.main["alpha"])[:, :, shown]
    title = f"{results.name}, C = {results.variants[MAIN].n_clusters}"
    return bmcd.plots.alpha_traces(alpha, clusters=names, title=title)


def traced_clusters(n_clusters: int) -> list[int]:
    """Return which clusters are drawn, evenly spaced by size.

    >>> traced_clusters(17), traced_clusters(2)
    ([0, 5, 11, 16], [0, 1])
    """
    return sorted({round(c) for c in np.linspace(0, n_clusters - 1, min(TRACED, n_clusters))})


def kmeans_curve(results: DataSetResults) -> Figure:
    """Draw the within-cluster sum of squares against the number of clusters."""
    choice = results.choice
    chosen = {"elbow": choice.elbow, "taken for it": choice.larger, "held-out likelihood": choice.recommended}
    marked = {name: c for name, c in chosen.items() if c is not None and c in choice.inertia}
    return bmcd.plots.kmeans_curve(choice.inertia, chosen=marked, title=results.name)


def accuracy_by_clusters(results: DataSetResults) -> Figure:
    """Draw accuracy against the number of clusters, for single chains and averages."""
    rows = []
    for fit in results.fits_over_clusters:
        for averaged in results[fit.name]["averaged"]:
            chains = "1 chain" if averaged["chains"] == 1 else f"{averaged['chains']} chains averaged"
            rows += [
                {"n_clusters": fit.n_clusters, "accuracy": group["accuracy"], "series": chains, "run": run}
                for run, group in enumerate(averaged["groups"])
            ]
    figure = bmcd.plots.accuracy_by_clusters(pd.DataFrame(rows), title=results.name)
    # Room for the legend, which would else lie over the lines.
    low, high = figure.axes[0].get_ylim()
    figure.axes[0].set_ylim(low, high + 0.3 * (high - low))
    return figure
