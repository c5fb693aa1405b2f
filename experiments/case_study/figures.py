"""The figures of the case study, from `bmcd.plots`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from experiments.case_study.study import CF, MAIN, Study
from experiments.case_study.tables import over_clusters

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Clusters whose scale is drawn: the paper shows three of each data set.
TRACED = 4


def calibration(study: Study) -> Figure:
    """Hit rate against probability."""
    from bmcd import plots

    return plots.calibration(study.calibration, rivals=_lines(study), title=study.name)


def cutoff_curve(study: Study) -> Figure:
    """Accuracy and volume against the cut-off."""
    from bmcd import plots

    return plots.cutoff_curve(study.calibration, rivals=_lines(study), title=study.name)


def exposure(study: Study) -> Figure:
    """How often each item was recommended, and rightly so, by BMCD and by collaborative filtering."""
    from bmcd import plots

    return plots.exposure({name: study.item_counts(name) for name in (MAIN, CF)}, title=study.name)


def item_popularity(studies: Sequence[Study]) -> Figure:
    """Training clicks of each item."""
    from bmcd import plots

    n_popular = int(studies[0].main["measures"]["n_popular"])
    return plots.item_popularity({study.name: study.description["item_clicks"] for study in studies}, n_popular)


def alpha_traces(study: Study) -> Figure:
    """The scales of some clusters: the largest, the smallest, and some between."""
    from bmcd import plots

    sizes = study.main["cluster_sizes"]
    chosen = traced(len(sizes))
    names = [f"cluster {c + 1}: {sizes[c]:,.0f} users" for c in chosen]
    alpha = np.array(study.main["alpha"])[:, :, chosen]
    return plots.alpha_traces(alpha, clusters=names, title=f"{study.name}, C = {study.roles.main.n_clusters}")


def traced(n_clusters: int) -> list[int]:
    """Which clusters are drawn, evenly spaced by size.

    >>> traced(17), traced(2)
    ([0, 5, 11, 16], [0, 1])
    """
    return sorted({round(c) for c in np.linspace(0, n_clusters - 1, min(TRACED, n_clusters))})


def kmeans_curve(study: Study) -> Figure:
    """Within-cluster sum of squares against the number of clusters."""
    from bmcd import plots

    found = study.choice
    chosen = {"elbow": found.elbow, "taken for it": found.larger, "held-out likelihood": found.recommended}
    marked = {name: c for name, c in chosen.items() if c is not None and c in found.inertia}
    return plots.kmeans_curve(found.inertia, chosen=marked, title=study.name)


def accuracy_by_clusters(study: Study) -> Figure:
    """Accuracy against the number of clusters, for single chains and averages."""
    from bmcd import plots

    rows = []
    for fit in over_clusters(study):
        for averaged in study.fits[fit]["averaged"]:
            words = "1 chain" if averaged["chains"] == 1 else f"{averaged['chains']} chains averaged"
            rows += [
                {"n_clusters": fit.n_clusters, "accuracy": group["accuracy"], "series": words, "run": run}
                for run, group in enumerate(averaged["groups"])
            ]
    figure = plots.accuracy_by_clusters(pd.DataFrame(rows), title=study.name)
    # Room for the legend, which is else laid over the lines.
    low, high = figure.axes[0].get_ylim()
    figure.axes[0].set_ylim(low, high + 0.3 * (high - low))
    return figure


def _lines(study: Study) -> dict[str, float]:
    """Collaborative filtering, and the most accurate rival if that is another."""
    return {name: study.measure(name, "accuracy") for name in dict.fromkeys([CF, study.best_rival])}
