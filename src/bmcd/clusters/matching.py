"""Which cluster is which: the same names in every draw and chain.

A chain may give its clusters other names at any time, and other chains have other names anyway. Probabilities do
not mind, since they are summed over clusters; a person who asks what a cluster is like does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bmcd.sampling.draws import Draws

ROUNDS = 3


@dataclass(frozen=True, eq=False)
class ClusterNames:
    """Names 0, 1, ... by falling size, the same in every draw."""

    name: NDArray[np.int64]  # [chain, draw, cluster]: the name of what that draw calls ``cluster``
    agreement: NDArray[
        np.float64
    ]  # [name]: do the chains have the same consensus? 1: yes; 0: no more than by chance

    def sort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Put [chain, draw, cluster, ...] in the order of the names."""
        order = np.argsort(self.name, axis=2)
        return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 3)), axis=2)


def name_clusters(draws: Draws) -> ClusterNames:
    """Match clusters by their consensus rankings, first the draws of each chain, then the chains.

    Always the assignment with the smallest sum of footrule distances: of draws to the mean ranks of their chain,
    which are then taken anew, and of the chains' mean ranks to those of the chain with the highest log joint.
    """
    rho = draws.rho.astype(np.float64)
    n_chains, n_draws, n_clusters, n_items = rho.shape
    name = np.empty((n_chains, n_draws, n_clusters), np.int64)
    means = np.empty((n_chains, n_clusters, n_items))
    for chain in range(n_chains):
        mean = rho[chain, -1]
        for _ in range(ROUNDS):
            for s in range(n_draws):
                name[chain, s] = _match(rho[chain, s], mean)
            mean = np.take_along_axis(rho[chain], np.argsort(name[chain], axis=1)[:, :, None], axis=1).mean(axis=0)
        means[chain] = mean
    first = int(draws.log_joint.mean(axis=1).argmax())
    for chain in range(n_chains):
        to_first = _match(means[chain], means[first])
        name[chain] = to_first[name[chain]]
        means[chain] = means[chain][np.argsort(to_first)]
    found = ClusterNames(name, np.ones(n_clusters))
    size = found.sort(draws.label_counts.astype(np.float64)).mean(axis=(0, 1))
    place = np.argsort(np.argsort(-size, kind="stable"))
    by_chance = max((n_items**2 - 1) / 3, 1.0)
    others = [chain for chain in range(n_chains) if chain != first] or [first]
    apart = np.abs(means[others] - means[first]).sum(axis=2).mean(axis=0)
    return ClusterNames(place[name], np.clip(1.0 - apart / by_chance, 0.0, 1.0)[np.argsort(place)])


def _match(these: NDArray[np.float64], those: NDArray[np.float64]) -> NDArray[np.int64]:
    """For each of these rankings the one of those it goes with."""
    distance = np.abs(these[:, None, :] - those[None, :, :]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distance)[1], np.int64)
