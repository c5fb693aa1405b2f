"""What both moves work on: the clusters of a chain, with labels and latent rankings summed out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.inference.state import ChainState
from bmcd.mallows import log_likelihood

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Clusters:
    """theta of one chain: for each cluster (rho_c, alpha_c, g_c), where tau_c = g_c / sum g.

    Under the prior g_c ~ Gamma(concentration), so that the clusters are independent and alike. The sum of g says
    nothing about tau, and nothing else depends on it.
    """

    rho: NDArray[np.int64]  # [cluster, item]
    alpha: Floats  # [cluster]
    weight: Floats  # [cluster], g
    log_p: Floats  # [user, cluster], log P(clicks of the user | rho_c, alpha_c)

    def with_clusters(self, places: list[int], rho: Any, alpha: Any, weight: Any, log_p: Floats) -> Clusters:
        """Return a copy with other clusters in these places."""
        arrays: list[Any] = [array.copy() for array in (self.rho, self.alpha, self.weight, self.log_p)]
        for array, new in zip(arrays[:3], (rho, alpha, weight), strict=True):
            array[places] = new
        arrays[3][:, places] = log_p
        return Clusters(*arrays)

    def shares(self) -> tuple[float, Floats]:
        """Return the log-likelihood of all clicks, and P(user belongs to cluster), [user, cluster]."""
        joint = self.log_p + np.log(self.weight / self.weight.sum())
        largest = joint.max(axis=1, keepdims=True)
        terms = np.exp(joint - largest)
        total = terms.sum(axis=1, keepdims=True)
        return float((largest + np.log(total)).sum()), terms / total


def open_clusters(state: ChainState, matrix: Any, concentration: float, rng: np.random.Generator) -> Clusters:
    """Return the clusters of a chain; the sum of g, which the chain does not know, is drawn."""
    log_p = log_likelihood(matrix, state.rho, state.alpha, n_threads=1)
    weight = state.tau * rng.gamma(concentration * state.tau.size)
    return Clusters(state.rho.copy(), state.alpha.copy(), weight, log_p)


def close_clusters(clusters: Clusters, state: ChainState, rng: np.random.Generator) -> None:
    """Put changed clusters back into a chain, and draw its labels, which the change has left stale.

    The next sweep draws the rankings afresh before it uses them.
    """
    state.rho[:], state.alpha[:] = clusters.rho, clusters.alpha
    state.tau[:] = clusters.weight / clusters.weight.sum()
    _, share = clusters.shares()
    drawn = (rng.random((len(share), 1)) > share.cumsum(axis=1)).sum(axis=1)
    state.labels[:] = drawn.clip(0, share.shape[1] - 1)
