"""A move between two chains: they exchange a cluster.

A chain in another mode has other clusters, which its own sweeps have made fit the clicks. The target is the product
of the posteriors of both chains; clusters are alike under the prior, so an exchange changes it by the likelihood
alone.
"""

from __future__ import annotations

import numpy as np

from experiments.modes.clusters import Clusters, Floats

Pair = tuple[Clusters, Clusters]


def exchanged(chains: Pair, places: tuple[int, int]) -> Pair:
    """Return both chains after cluster c of the first and cluster d of the second have changed places."""
    (first, second), (c, d) = chains, places
    return (
        first.with_clusters([c], second.rho[d], second.alpha[d], second.weight[d], second.log_p[:, [d]]),
        second.with_clusters([d], first.rho[c], first.alpha[c], first.weight[c], first.log_p[:, [c]]),
    )


def proposal(chains: Pair) -> Floats:
    """Return P(c, d are proposed), [c, d]: the clusters of a user taken at random, drawn in either chain."""
    first, second = (chain.shares()[1] for chain in chains)
    law: Floats = first.T @ second / len(first)
    return law


def log_ratio(before: Pair, after: Pair, places: tuple[int, int]) -> float:
    """Return the log acceptance ratio: target and proposal, after against before."""
    new, old = (sum(chain.shares()[0] for chain in chains) for chains in (after, before))
    back, forth = (proposal(chains)[places] for chains in (after, before))
    return float(new - old + np.log(back / forth))


def exchange(chains: Pair, rng: np.random.Generator) -> tuple[Pair, float]:
    """Propose one exchange. Returns the chains afterwards, the same object if rejected, and the log ratio."""
    law = proposal(chains)
    chosen = int(rng.choice(law.size, p=law.ravel() / law.sum()))
    places = (chosen // law.shape[1], chosen % law.shape[1])
    after = exchanged(chains, places)
    ratio = log_ratio(chains, after, places)
    return (after if np.log(rng.random()) < ratio else chains), ratio
