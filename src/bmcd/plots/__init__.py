"""The figures of bmcd, all in one style: plain data in, a matplotlib figure out.

Evaluations, comparisons and trade-offs are read through their public attributes; their classes are not imported.
The functions do not use pyplot and change no global setting. The colours are Okabe and Ito's, which are safe for
colour-blind readers. In a notebook a figure that is the last value of a cell is displayed; `savefig` writes it to
a file.

>>> from bmcd import plots
>>> plots.cluster_sizes([30, 20]).savefig("sizes.svg")
"""

from bmcd.plots.backtests import backtest, past_windows
from bmcd.plots.comparisons import comparison, measures, trade_off
from bmcd.plots.draws import alpha_traces, cluster_sizes, predicted_counts
from bmcd.plots.items import exposure, item_popularity
from bmcd.plots.probabilities import calibration, cutoff_curve
from bmcd.plots.style import Figure

__all__ = [
    "Figure",
    "alpha_traces",
    "backtest",
    "calibration",
    "cluster_sizes",
    "comparison",
    "cutoff_curve",
    "exposure",
    "item_popularity",
    "measures",
    "past_windows",
    "predicted_counts",
    "trade_off",
]
