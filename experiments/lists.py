"""Recommendations from probabilities that no model holds: averages over chains, or those of the true parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd import Clicks
from bmcd.clicks.ids import id_ranks
from bmcd.models.top_k import Lists, best_items, clicked_mask, recommendation_frame


def recommend(clicks: Clicks, probability: NDArray[np.float64], mean_rank: NDArray[np.float64], k: int) -> Any:
    """Return the frame that `BMCD.recommend` would give; equal probabilities go to the better mean rank."""
    available = ~clicked_mask(clicks.matrix, np.arange(clicks.n_users))
    best = best_items(probability, available, k, id_ranks(clicks.items), mean_rank)
    # Rounding may have left a hair above 1.
    shown = np.clip(np.take_along_axis(probability, best, axis=1), 0.0, 1.0)
    return recommendation_frame(clicks.users, Lists(best, {"probability": shown}), clicks)
