"""All figures: plain data in, a matplotlib figure out, in one look that colour-blind people can read.

They use no pyplot and change no global settings. In a notebook the last value of a cell shows itself; elsewhere
`savefig` writes it.

>>> from bmcd import plots
>>> plots.kmeans_curve({2: 100.0, 3: 40.0, 4: 35.0}, chosen={"elbow": 3}).savefig("kmeans.svg")
"""

from bmcd.plots.clusters import (
    accuracy_by_clusters,
    alpha_traces,
    cluster_sizes,
    kmeans_curve,
    within_distance,
)
from bmcd.plots.comparisons import comparison
from bmcd.plots.items import exposure, item_popularity, rare_items
from bmcd.plots.probabilities import calibration, cutoff_curve
from bmcd.plots.style import Figure

__all__ = [
    "Figure",
    "accuracy_by_clusters",
    "alpha_traces",
    "calibration",
    "cluster_sizes",
    "comparison",
    "cutoff_curve",
    "exposure",
    "item_popularity",
    "kmeans_curve",
    "rare_items",
    "within_distance",
]
