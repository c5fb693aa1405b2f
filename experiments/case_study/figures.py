"""The figures of the case study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

import bmcd
from bmcd.evaluation import Calibration
from bmcd.plots.style import looks, new_figure, round_ticks, styled
from experiments import figures
from experiments.case_study.plan import BLEND, MAIN, TASTES, blend_name
from experiments.case_study.results import CF, DataSetResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Bins of the calibration figure: wider than those of the ECE, as several methods stand in each.
FIGURE_BINS = 0.05
# The accuracy of a smaller share of the recommendations is not drawn: it may be anything.
LEAST_KEPT = 0.05
# So many clusters' scales are drawn: the paper shows three of each data set.
TRACED = 4


def by_data_set(results: DataSetResults) -> dict[str, Figure]:
    """Draw the figures that every data set has, and return them by name."""
    best = results.best_baseline
    # Collaborative filtering, and the most accurate baseline if that is another.
    baselines = {name: results.measure(name, "accuracy") for name in dict.fromkeys([CF, best])}
    counts = {name: results.item_counts(name) for name in (MAIN, TASTES, BLEND, CF)}
    # The full names of blends are too long for a legend.
    shown = {MAIN: MAIN, TASTES: TASTES, "Blend": BLEND, best: blend_name(best)}
    calibrations = {label: results.calibration(name, FIGURE_BINS) for label, name in shown.items()}
    return {
        "kmeans": kmeans_curve(results),
        "accuracy_by_clusters": accuracy_by_clusters(results),
        "calibration": bmcd.plots.calibration(calibrations, title=results.name),
        "cutoff": bmcd.plots.cutoff_curve(results.calibration(), rivals=baselines, title=results.name),
        "kept": kept_curve({label: results.calibration(name) for label, name in shown.items()}, results.name),
        "exposure": bmcd.plots.exposure(counts, title=results.name),
        "alpha": alpha_traces(results),
    }


@styled
def kept_curve(calibrations: Mapping[str, Calibration], title: str) -> Figure:
    """Draw the accuracy of the most probable recommendations against how many of them are kept."""
    figure = new_figure(title=title)
    ax = figure.subplots()
    for name, look in looks(calibrations).items():
        # Only whole groups of equally probable recommendations are kept.
        value, group, n = np.unique(-calibrations[name].probability, return_inverse=True, return_counts=True)
        hits = np.bincount(group, weights=calibrations[name].hit, minlength=value.size)
        share, accuracy = np.cumsum(n) / n.sum(), np.cumsum(hits) / np.cumsum(n)
        drawn = share >= LEAST_KEPT
        ax.plot(share[drawn], accuracy[drawn], color=look.color, linestyle=look.line, label=name)
    ax.set(xlabel="share of its recommendations that is kept", ylabel="share that were hits")
    for axis in (ax.xaxis, ax.yaxis):
        round_ticks(axis, share=True)
    figure.legend(loc="outside lower left", ncols=2)
    return figure


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
    return figures.kmeans_curve(choice.inertia, chosen=marked, title=results.name)


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
    figure = figures.accuracy_by_clusters(pd.DataFrame(rows), title=results.name)
    # Room for the legend, which would else lie over the lines.
    low, high = figure.axes[0].get_ylim()
    figure.axes[0].set_ylim(low, high + 0.3 * (high - low))
    return figure
