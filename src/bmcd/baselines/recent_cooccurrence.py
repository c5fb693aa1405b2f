"""RecentCooccurrence: recommend what lately occurred in the same sessions as the user's latest clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmcd.arrays import Floats
from bmcd.baselines.base import check_number, without_rare
from bmcd.baselines.counting import (
    Events,
    arrays_of,
    events_of,
    keep_largest,
    only_pairs,
    pairs_of_many,
    popularity_share,
    recent_pairs,
    row_sums,
)
from bmcd.baselines.ordered import OrderedBaseline, hours, mix_rows
from bmcd.checks import check_count
from bmcd.clicks.log import Clicks


class RecentCooccurrence(OrderedBaseline):
    """Recommend what lately occurred near the latest clicks of the running session, before or after them.

    Every item remembers its own latest occurrences instead of those of the latest hours: an occurrence counts half
    if ``memory`` later ones of the item are known. So popular items forget within minutes, and rare ones keep what
    they have. Otherwise like `Transitions`, with counts in both directions.

    Parameters
    ----------
    memory
        After how many later occurrences of the item itself an occurrence counts half.
    gaps
        Up to how many clicks apart two items occur together.
    decay, smoothing, window, share_half_life
        As in `Transitions`.
    partners
        How many partners of each item are kept, the most frequent.

    Attributes
    ----------
    pairs_, pairs_total_ : counts of what occurred near each item (CSR, items x items), and their sums, which
        include the partners that are not kept
    share_ : popularity

    Examples
    --------
    >>> import pandas as pd
    >>> from bmcd import Clicks
    >>> frame = pd.DataFrame({"user": [1, 1, 2, 2, 3, 4], "item": list("ababcc")})
    >>> model = RecentCooccurrence().fit(Clicks.from_frame(frame, order="rows"))
    >>> model.recommend_for([["c", "b"]], k=1)["item"].tolist()
    ['a']
    """

    pairs_: Any
    pairs_total_: Floats
    share_: Floats
    _learned = ("pairs_", "pairs_total_", "share_")

    def __init__(
        self,
        memory: float = 70,
        gaps: int = 5,
        decay: float = 0.7,
        smoothing: float = 10.0,
        window: str | None = "72h",
        partners: int = 100,
        *,
        share_half_life: str | None = "4h",
    ) -> None:
        self.memory = memory
        self.gaps = gaps
        self.decay = decay
        self.smoothing = smoothing
        self.window = window
        self.partners = partners
        self.share_half_life = share_half_life

    def _check_settings(self) -> None:
        check_number("memory", self.memory, above=0)
        check_count(self.gaps, "gaps")
        check_number("decay", self.decay, high=1)
        check_number("smoothing", self.smoothing, above=0)
        check_count(self.partners, "partners")
        for name in ("window", "share_half_life"):
            hours(getattr(self, name), name)

    def count(self, events: Events) -> Self:
        """Set everything that is learned from events alone, and return self."""
        self._check_settings()
        self.share_ = popularity_share(events, hours(self.share_half_life, "share_half_life"))
        pairs = recent_pairs(events.within(hours(self.window, "window")), float(self.memory), self.gaps)
        self.pairs_, self.pairs_total_ = keep_largest(pairs, self.partners), row_sums(pairs)
        return self

    def _without_few(self, rare: NDArray[np.bool_], fewest: int) -> dict[str, Any]:
        events = events_of(self.clicks_).within(hours(self.window, "window"))
        pairs = only_pairs(self.pairs_, pairs_of_many(events, fewest, self.gaps, both=True))
        return {"share_": without_rare(self.share_, rare), "pairs_": pairs, "pairs_total_": row_sums(pairs)}

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(("pairs_total_", "share_"), (clicks.n_items,))

    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        scores = np.empty((len(starts) - 1, len(self.share_)))
        counts = (*arrays_of(self.pairs_), self.pairs_total_)
        mix_rows(starts, items, float(self.decay), float(self.smoothing), *counts, self.share_, scores)
        return scores
