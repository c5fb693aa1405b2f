"""Clusters on their own: the paper's speed-up for the time after labels have settled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.sampling.state import ChainState, Data


class ClusterPart(NamedTuple):
    """One cluster as a problem of its own: what `split_by_cluster` returns."""

    data: Data
    state: ChainState
    user_numbers: NDArray[np.int64]  # the users of the cluster, as numbered in the whole
    cluster_numbers: NDArray[np.int64]  # the one cluster, as numbered in the whole


def split_by_cluster(data: Data, state: ChainState) -> list[ClusterPart]:
    """One (data, state, ...) for each cluster: with fixed labels the clusters are independent.

    The paper's section "Further discussions": once labels have settled, run each cluster by itself, in parallel,
    with a sampler that has ``fixed_labels=True`` and the part's ``user_numbers`` and ``cluster_numbers``. Users
    and clusters keep their random streams, so the parts end where the whole would have, bit for bit.
    `join_clusters` puts them back. Nothing is shared: the parts hold copies.
    """
    return [_part(data, state, c) for c in range(state.alpha.size)]


def _part(data: Data, state: ChainState, c: int) -> ClusterPart:
    users = np.flatnonzero(state.labels == c).astype(np.int64)
    n_clicked = np.diff(data.user_start)[users]
    items = [data.user_items[data.user_start[j] : data.user_start[j + 1]] for j in users]
    user_items = np.concatenate([np.zeros(0, np.int64), *items])
    by_item = np.argsort(user_items, kind="stable")
    part = Data(
        user_start=np.append(0, np.cumsum(n_clicked)).astype(np.int64),
        user_items=user_items,
        item_start=np.append(0, np.cumsum(np.bincount(user_items, minlength=data.scale.size))).astype(np.int64),
        item_users=np.repeat(np.arange(users.size, dtype=np.int64), n_clicked)[by_item],
        scale=data.scale,
    )
    own = slice(c, c + 1)
    return ClusterPart(
        part,
        ChainState(
            alpha=state.alpha[own].copy(),
            tau=np.ones(1),
            rho=state.rho[own].copy(),
            labels=np.zeros(users.size, np.int64),
            ranks=state.ranks[users],
            alpha_step=state.alpha_step[own].copy(),
        ),
        users,
        np.array([c], np.int64),
    )


def join_clusters(state: ChainState, parts: Sequence[ClusterPart]) -> ChainState:
    """The whole again: a copy of ``state`` (which gives labels and tau) with what the parts have become."""
    whole = ChainState(
        alpha=state.alpha.copy(),
        tau=state.tau.copy(),
        rho=state.rho.copy(),
        labels=state.labels.copy(),
        ranks=state.ranks.copy(),
        alpha_step=state.alpha_step.copy(),
    )
    for part in parts:
        whole.ranks[part.user_numbers] = part.state.ranks
        for name in ("alpha", "rho", "alpha_step"):
            getattr(whole, name)[part.cluster_numbers] = getattr(part.state, name)
    return whole
