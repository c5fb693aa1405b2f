"""Which cluster is which: the same names in every draw and chain.

A chain may renumber its clusters at any time, and every chain has numbers of its own. Probabilities do not depend
on them, since they are sums over clusters; but to say what a cluster is like, it must be the same one in all draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from bmcd.inference.draws import Draws
from bmcd.utils import Floats

# How often the draws of a chain are matched to their mean ranks, which then change.
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class ClusterNames:
    """Names 0, 1, ... by falling size, the same in every draw."""

    name: NDArray[np.int64]
    """[chain, draw, cluster]: the name of what that draw calls ``cluster``."""
    agreement: Floats
    """[name]: how well the chains agree on the consensus; 1 is the same in all, 0 no more alike than by chance."""

    def sort(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return values, [chain, draw, cluster, ...], with their clusters in the order of the names."""
        order = np.argsort(self.name, axis=2)
        return np.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 3)), axis=2)


def name_clusters(draws: Draws) -> ClusterNames:
    """Match clusters by their consensus rankings, first the draws of each chain, then the chains.

    Each match has the smallest sum of footrule distances. The draws of a chain are matched to its mean ranks, which
    are then computed anew; the mean ranks of a chain are matched to those of the chain with the highest log joint.
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
    by_chain = ClusterNames(name, np.ones(n_clusters))
    size = by_chain.sort(draws.label_counts.astype(np.float64)).mean(axis=(0, 1))
    place = np.argsort(np.argsort(-size, kind="stable"))
    by_chance = max((n_items**2 - 1) / 3, 1.0)
    others = [chain for chain in range(n_chains) if chain != first] or [first]
    distance = np.abs(means[others] - means[first]).sum(axis=2).mean(axis=0)
    return ClusterNames(place[name], np.clip(1.0 - distance / by_chance, 0.0, 1.0)[np.argsort(place)])


def _match(these: Floats, those: Floats) -> NDArray[np.int64]:
    """Return, for each of these rankings, which of those it is matched with."""
    distance = np.abs(these[:, None, :] - those[None, :, :]).sum(axis=2)
    return np.asarray(linear_sum_assignment(distance)[1], np.int64)
