"""The numbers of clusters, from training clicks alone: by the paper's elbow, and by held-out likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bmcd.models.choose import criteria_table, find_elbow, within_one_standard_error
from experiments.tasks import Result

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Choice:
    """The numbers of clusters that were chosen, and what they were chosen by."""

    inertia: dict[int, float]
    """Within-cluster sum of squares of k-means, by number of clusters."""
    elbow: int | None
    """Where the inertia lies farthest below its chord."""
    larger: int | None
    """The next larger number that is fitted: the paper prefers one slightly larger than the elbow."""
    held_out: pd.DataFrame
    """By number of clusters, as in `ClusterChoice.table`."""
    best: int
    """The number with the highest held-out log-likelihood."""
    recommended: int
    """The smallest within one standard error of the best."""


def choose(curve: Result, scores: Mapping[int, Result]) -> Choice:
    """Choose from the results of `measures.kmeans_curve` and, by number of clusters, `measures.score_clusters`."""
    inertia = dict(zip(curve["n_clusters"], curve["inertia"], strict=True))
    elbow = find_elbow(inertia)
    # Chains are as long as each other, so the mean over draws is that over the means of chains.
    by_chain = {c: np.array(score["by_chain"])[:, :, None] for c, score in sorted(scores.items())}
    within = {c: np.array(scores[c]["within"]) for c in by_chain}
    table = criteria_table(by_chain, within, {c: inertia.get(c, float("nan")) for c in by_chain})
    return Choice(
        inertia=inertia,
        elbow=elbow,
        larger=None if elbow is None else min((c for c in by_chain if c > elbow), default=max(by_chain)),
        held_out=table,
        best=list(by_chain)[int(table["held_out"].argmax())],
        recommended=within_one_standard_error(table),
    )
