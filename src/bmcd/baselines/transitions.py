"""Transitions and RecentCooccurrence: recommend what followed, or occurred near, the latest clicks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bmcd.baselines.base import without_rare
from bmcd.baselines.counting import (
    Events,
    arrays_of,
    decay_weights,
    directed_pairs,
    events_of,
    keep_largest,
    only_pairs,
    pairs_of_many,
    popularity_share,
    recent_pairs,
    row_sums,
    two_steps,
)
from bmcd.baselines.ordered import OrderedBaseline, hours, mix_rows
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.utils import Floats, check_count, check_number

# Followers of an item over which a walk of two steps goes.
STEP_FOLLOWERS = 50


class PairBaseline(OrderedBaseline):
    """A method that averages a next-click distribution after each click of the running session."""

    share_: Floats
    decay: float
    gaps: int
    smoothing: float
    window: str | None
    share_half_life: str | None

    def _check_settings(self) -> None:
        check_number("decay", self.decay, high=1)
        check_count("gaps", self.gaps)
        check_number("smoothing", self.smoothing, above=0)
        for name in ("half_life", "window", "share_half_life"):
            hours(getattr(self, name, None), name)

    def _recent(self, events: Events) -> Events:
        """Return the clicks that pairs are counted in; set `share_` from all clicks."""
        self.share_ = popularity_share(events, hours(self.share_half_life, "share_half_life"))
        return events.within(hours(self.window, "window"))

    def _mixed(self, starts: NDArray[np.int64], items: NDArray[np.int32], pairs: Any, totals: Floats) -> Floats:
        scores = np.empty((len(starts) - 1, len(self.share_)))
        counts = (*arrays_of(pairs), totals)
        mix_rows(starts, items, float(self.decay), float(self.smoothing), *counts, self.share_, scores)
        return scores

    def _shapes(self, clicks: Clicks, arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[int, ...]]:
        dense = [name for name in self._learned if name == "share_" or name.endswith("total_")]
        return dict.fromkeys(dense, (clicks.n_items,))


class Transitions(PairBaseline):
    """Recommend what followed the latest clicks of the running session, in the sessions of the log.

    After a click on item a, the next is item j with the probability (c[a, j] + smoothing p[j]) / (c[a] +
    smoothing): c[a, j] counts clicks on j that came 1 to ``gaps`` clicks after a in a session, weighted 1/gap, and
    p is popularity. The score is the average of that over the clicks of the running session, where the last one has
    the weight 1, the one before it ``decay``, and so on. Clicks at the same time do not follow each other.

    Parameters
    ----------
    decay
        The weight of each click of the running session relative to the next one; 0 uses only the last click.
    gaps
        Up to how many clicks later an item counts as following.
    smoothing
        mu: the number of transitions that popularity counts for. Larger for small catalogues with steady habits
        (40).
    half_life
        Age at which a transition counts half; None for no decay. Ignored without a clock, like the other times.
    window
        Older clicks are ignored; None for no limit.
    followers
        Number of followers kept of each item, the most frequent.
    steps
        2 adds the items two steps after the last click.
    share_half_life
        The half-life of p.

    Attributes
    ----------
    next_, next_total_ : counts of what came right after each item (CSR, items x items), and their sums
    after_, after_total_ : the same at gaps 1 to ``gaps``, weighted 1/gap
    walk_, walk_total_ : probabilities of two steps, and their sums
    share_ : p

    Sums include the followers that are not kept.

    Examples
    --------
    >>> import pandas as pd
    >>> from bmcd import Clicks
    >>> frame = pd.DataFrame({"user": [1, 1, 2, 2, 3, 4, 4], "item": list("abababc"[:6]) + ["c"]})
    >>> model = Transitions().fit(Clicks.from_frame(frame, order="rows"))
    >>> model.recommend_for([["c", "a"]], k=1)["item"].tolist()
    ['b']
    """

    next_: Any
    next_total_: Floats
    after_: Any
    after_total_: Floats
    walk_: Any
    walk_total_: Floats
    _learned = ("next_", "next_total_", "after_", "after_total_", "walk_", "walk_total_", "share_")

    def __init__(
        self,
        decay: float = 0.7,
        gaps: int = 5,
        smoothing: float = 10.0,
        half_life: str | None = "12h",
        window: str | None = "72h",
        followers: int = 100,
        steps: int = 1,
        *,
        share_half_life: str | None = "4h",
    ) -> None:
        self.decay = decay
        self.gaps = gaps
        self.smoothing = smoothing
        self.half_life = half_life
        self.window = window
        self.followers = followers
        self.steps = steps
        self.share_half_life = share_half_life

    def _check_settings(self) -> None:
        super()._check_settings()
        check_count("followers", self.followers)
        if self.steps not in (1, 2):
            raise InputError(f"steps must be 1 or 2, but it is {self.steps!r}.")

    def count(self, events: Events) -> Self:
        """Learn from events alone, without keeping the clicks, and return self."""
        self._check_settings()
        events = self._recent(events)
        weights = decay_weights(events, hours(self.half_life, "half_life"))
        following, after = directed_pairs(events, weights, 1), directed_pairs(events, weights, self.gaps)
        self.next_total_, self.after_total_ = row_sums(following), row_sums(after)
        self.next_, self.after_ = keep_largest(following, self.followers), keep_largest(after, self.followers)
        self.walk_, self.walk_total_ = self._walk(following, self.next_total_)
        return self

    def _without_few(self, rare: NDArray[np.bool_], fewest: int) -> dict[str, Any]:
        events = events_of(self.clicks_).within(hours(self.window, "window"))
        kept: dict[str, Any] = {"share_": without_rare(self.share_, rare)}
        for name, gaps in (("next", 1), ("after", self.gaps)):
            enough = pairs_of_many(events, fewest, gaps, both=False)
            kept[f"{name}_"] = following = only_pairs(getattr(self, f"{name}_"), enough)
            kept[f"{name}_total_"] = row_sums(following)
        kept["walk_"], kept["walk_total_"] = self._walk(kept["next_"], kept["next_total_"])
        return kept

    def _walk(self, following: Any, total: Floats) -> tuple[Any, Floats]:
        return two_steps(keep_largest(following, STEP_FOLLOWERS), total, self.smoothing, self.followers)

    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        scores = self._mixed(starts, items, self.after_, self.after_total_)
        if self.steps == 2:
            begun = np.flatnonzero(np.diff(starts))
            scores[begun] += self.walk_[items[starts[begun + 1] - 1]].toarray()
        return scores


class RecentCooccurrence(PairBaseline):
    """Recommend what recently occurred near the latest clicks of the running session, before or after them.

    Each item has a memory of its latest occurrences instead of a window of time: an occurrence counts half
    after ``memory`` later ones of the same item. So the counts of popular items follow the last minutes, and rare
    items keep all they have. Otherwise like `Transitions`, with counts in both directions.

    Parameters
    ----------
    memory
        The number of later occurrences of the item after which an occurrence counts half.
    gaps
        Up to how many clicks apart two items occur together.
    decay, smoothing, window, share_half_life
        As in `Transitions`.
    partners
        Number of partners kept of each item, the most frequent.

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
        super()._check_settings()
        check_number("memory", self.memory, above=0)
        check_count("partners", self.partners)

    def count(self, events: Events) -> Self:
        """Learn from events alone, without keeping the clicks, and return self."""
        self._check_settings()
        pairs = recent_pairs(self._recent(events), float(self.memory), self.gaps)
        self.pairs_, self.pairs_total_ = keep_largest(pairs, self.partners), row_sums(pairs)
        return self

    def _without_few(self, rare: NDArray[np.bool_], fewest: int) -> dict[str, Any]:
        events = events_of(self.clicks_).within(hours(self.window, "window"))
        pairs = only_pairs(self.pairs_, pairs_of_many(events, fewest, self.gaps, both=True))
        return {"share_": without_rare(self.share_, rare), "pairs_": pairs, "pairs_total_": row_sums(pairs)}

    def _scores_of_sessions(self, starts: NDArray[np.int64], items: NDArray[np.int32]) -> Floats:
        return self._mixed(starts, items, self.pairs_, self.pairs_total_)
