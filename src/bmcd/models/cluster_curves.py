"""The paper's curves over the number of clusters: boxplots of distances, and where a curve stops falling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

# A boxplot's whiskers reach to the last draw within this many interquartile ranges of the box.
WHISKERS = 1.5
# A curve has stopped falling where a doubling of the number of clusters would lower it by a share of less than
# SMALL_FALL, or of less than SMALL_PART of its largest fall so far. Measured on posterior mean distances: on the
# paper's simulation (3,000 users) they fall by 14 to 19 % a doubling up to the true number of clusters and by about
# 2 % after it; with 300 users and 12 items in two opposed clusters by 71 to 74 %, and then still by 3 to 16 %.
SMALL_FALL, SMALL_PART = 0.05, 0.25


def find_elbow(curve: Mapping[int, float]) -> int | None:
    """Return the point of a falling curve that lies farthest below the chord from its first to its last point.

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


def falls(curve: Mapping[int, float]) -> dict[int, float]:
    """Return the share by which a curve falls from the point before, for each doubling of the number of clusters.

    A curve that falls as a power of the number of clusters falls by this share from C to 2 C, so short and long
    steps can be compared. It is nan for the first point, negative where the curve rises, and 0 after a 0.

    >>> {c: round(fall, 3) for c, fall in falls({1: 100.0, 2: 80.0, 4: 72.0, 5: 72.0}).items()}
    {1: nan, 2: 0.2, 4: 0.1, 5: 0.0}
    """
    numbers = sorted(curve)
    shares = {numbers[0]: math.nan}
    for before, c in pairwise(numbers):
        ratio = curve[c] / curve[before] if curve[before] > 0 else 1.0
        shares[c] = 1.0 - ratio ** (1.0 / math.log2(c / before))
    return shares


def end_of_fall(curve: Mapping[int, float]) -> int:
    """Return the first number of clusters after which the curve hardly falls; the last number if it always falls.

    It hardly falls where the next of its `falls` is less than 5 %, or less than a quarter of the largest so far.
    Distances within clusters go on falling a little, so they have no minimum to look for. Unlike the elbow of a
    chord this may be the first number, or the last, and does not depend on the largest number tried.

    >>> end_of_fall({2: 560.0, 3: 509.0, 4: 506.0, 5: 501.0, 8: 492.0})
    3
    """
    by_step = falls(curve)
    largest = 0.0
    for c, following in pairwise(by_step):
        if by_step[following] < max(SMALL_FALL, SMALL_PART * largest):
            return c
        largest = max(largest, by_step[following])
    return list(by_step)[-1]


def boxplot_rows(within: Mapping[int, NDArray[np.float64]]) -> pd.DataFrame:
    """Return one box for each number of clusters, with the column names of matplotlib's `Axes.bxp`."""
    import pandas as pd

    rows = []
    for values in within.values():
        q1, med, q3 = np.percentile(values, [25, 50, 75])
        reach = WHISKERS * (q3 - q1)
        # With few draws a quartile may lie between two draws, beyond all draws within reach of the box.
        low = min(values[values >= q1 - reach].min(), q1)
        high = max(values[values <= q3 + reach].max(), q3)
        rows.append({"whislo": low, "q1": q1, "med": med, "q3": q3, "whishi": high, "mean": values.mean()})
    return pd.DataFrame(rows, index=pd.Index(list(within), name="n_clusters")).astype(np.float64)
