"""Every figure of bmcd, in one look: plain data in, a matplotlib figure out. Knows no evaluation and no report.

Evaluations, comparisons and trade-offs are read through their public attributes; their classes are not imported.
No pyplot is used and no global setting changed. The colours are Okabe and Ito's, which colour-blind people can tell
apart. A figure that is the last value of a notebook's cell shows itself; elsewhere `savefig` writes it.

>>> from bmcd import plots
>>> plots.kmeans_curve({2: 100.0, 3: 40.0, 4: 35.0}, chosen={"elbow": 3}).savefig("kmeans.svg")
"""

from bmcd.plots.backtests import backtest, past_windows
from bmcd.plots.chains import predicted_counts, rank_histograms, traces
from bmcd.plots.clusters import accuracy_by_clusters, alpha_traces, cluster_sizes, kmeans_curve, within_distance
from bmcd.plots.comparisons import comparison, measures
from bmcd.plots.items import exposure, item_popularity, rare_items
from bmcd.plots.probabilities import calibration, cutoff_curve
from bmcd.plots.style import Figure
from bmcd.plots.trade_offs import trade_off

__all__ = [
    "Figure",
    "accuracy_by_clusters",
    "alpha_traces",
    "backtest",
    "calibration",
    "cluster_sizes",
    "comparison",
    "cutoff_curve",
    "exposure",
    "item_popularity",
    "kmeans_curve",
    "measures",
    "past_windows",
    "predicted_counts",
    "rank_histograms",
    "rare_items",
    "traces",
    "trade_off",
    "within_distance",
]
