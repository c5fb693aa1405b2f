"""The paper's curves against the number of clusters: boxplots of the within-cluster distance, and the elbow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["boxplot_rows", "find_elbow"]

# A boxplot's whiskers reach to the last draw within this many interquartile ranges of the box.
WHISKERS = 1.5


def find_elbow(curve: Mapping[int, float]) -> int | None:
    """The point of a falling curve that lies farthest below the chord from its first to its last point.

    Both axes are scaled to 0..1 first. The ends are on the chord, so an end is never the elbow; None if no point
    is below the chord, or there are fewer than three.

    >>> find_elbow({2: 100.0, 3: 40.0, 4: 35.0, 5: 30.0})
    3
    >>> find_elbow({2: 100.0, 3: 40.0}) is None
    True
    """
    x = np.array(sorted(curve), dtype=np.float64)
    y = np.array([curve[int(c)] for c in x])
    if len(x) < 3 or not y[0] > y[-1]:
        return None
    # The distance from the chord x + y = 1 is this over sqrt(2).
    below = 1.0 - (x - x[0]) / (x[-1] - x[0]) - (y - y[-1]) / (y[0] - y[-1])
    best = int(below.argmax())
    return int(x[best]) if below[best] > 1e-9 else None


def boxplot_rows(within: Mapping[int, NDArray[np.float64]]) -> pd.DataFrame:
    """One box for each number of clusters, with the names of matplotlib's `Axes.bxp`."""
    import pandas as pd

    rows = []
    for values in within.values():
        q1, med, q3 = np.percentile(values, [25, 50, 75])
        reach = WHISKERS * (q3 - q1)
        # With few draws the quartiles lie between draws, and no draw may lie between box and fence.
        low = min(values[values >= q1 - reach].min(), q1)
        high = max(values[values <= q3 + reach].max(), q3)
        rows.append({"whislo": low, "q1": q1, "med": med, "q3": q3, "whishi": high, "mean": values.mean()})
    return pd.DataFrame(rows, index=pd.Index(list(within), name="n_clusters")).astype(np.float64)
