"""Trending: recommend the items that are clicked most at the moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.counting import Events, decayed_counts
from bmcd.baselines.ordered import OrderedBaseline, hours
from bmcd.clicks.log import Clicks
from bmcd.utils import Floats


class Trending(OrderedBaseline):
    """Recommend the items clicked most at the moment; the score is the number of clicks, decayed by age.

    All clicks count, including repeated ones of the same user. On a log without a clock all count the same.

    Parameters
    ----------
    half_life
        Age at which a click counts half, such as "15min", "4h" or "7d".

    Attributes
    ----------
    counts_ : the decayed number of clicks on each item

    Examples
    --------
    >>> import pandas as pd
    >>> from bmcd import Clicks
    >>> frame = pd.DataFrame({"user": [1, 2, 3, 4], "item": ["old", "old", "new", "other"]})
    >>> frame["time"] = ["2026-05-01 06:00", "2026-05-01 06:00", "2026-05-01 12:00", "2026-05-01 13:00"]
    >>> Trending("1h").fit(Clicks.from_frame(frame)).recommend(1, users=[4])[["item", "score"]].values.tolist()
    [['new', 0.5]]
    """

    counts_: Floats
    _learned = ("counts_",)
    _needs_order = False

    def __init__(self, half_life: str = "4h") -> None:
        self.half_life = half_life

    def _check_settings(self) -> None:
        hours(self.half_life, "half_life")

    def count(self, events: Events) -> Self:
        """Learn from events alone, without keeping the clicks, and return self."""
        self._check_settings()
        self.counts_ = decayed_counts(events, hours(self.half_life, "half_life"))
        return self

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("counts_",), (clicks.n_items,))

    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        return np.tile(self.counts_, (len(starts) - 1, 1))
