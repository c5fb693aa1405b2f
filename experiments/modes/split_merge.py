"""A move within a chain: one cluster is split in two and two others are merged, so that their number stays.

Slots a, b, c; a is split into slots a and c, and what was in b and c is merged into b. The move back splits b and
merges a with c. Everything that is drawn has a density, so the move is Metropolis-Hastings on theta with labels and
latent rankings summed out:

* b and c are drawn with a probability that falls with the distance of their consensuses, a evenly;
* g_a is divided by an even u; alpha_a becomes alpha_a exp(RISE +- v), v normal; merging is the reverse;
* each of the three new consensuses is drawn from a Plackett-Luce law, whose scores are the logarithms of the clicks
  of its users, times SHARPNESS. Those of the halves are found by two-means among the users of a, started at two
  users who are taken at random; two others are taken for the move back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from bmcd.inference.priors import Priors
from bmcd.mallows import log_likelihood
from experiments.modes.clusters import Clusters, Floats

# Alphas of the halves are this much larger in the mean, and this far apart, in logarithms.
RISE, SPREAD = 0.15, 0.3
ROUNDS = 5  # of two-means


class Choice(NamedTuple):
    """What is drawn before the consensuses."""

    slots: tuple[int, int, int]  # a, b, c
    u: float
    v: float
    seeds: tuple[NDArray[np.int64], NDArray[np.int64]]  # two users to split by, now and on the way back

    def back(self, before: Clusters) -> Choice:
        """Return the choice of the move back."""
        a, b, c = self.slots
        u = before.weight[b] / (before.weight[b] + before.weight[c])
        v = float(np.log(before.alpha[b] / before.alpha[c]) / 2)
        return Choice((b, a, c), float(u), v, (self.seeds[1], self.seeds[0]))


@dataclass(frozen=True)
class SplitMerge:
    """The move for one click matrix."""

    matrix: Any  # sparse, users x items
    priors: Priors
    sharpness: float = 3.0
    nearness: float = 0.1
    """Pairs are merged with probability proportional to exp(-distance / (nearness x n^2 / 3))."""

    def propose(self, clusters: Clusters, rng: np.random.Generator) -> tuple[Clusters, float]:
        """Propose one move. Returns the clusters afterwards, the same object if rejected, and the log ratio."""
        n_users, n_clusters = clusters.log_p.shape
        law = self.pair_law(clusters.rho)
        b, c = divmod(int(rng.choice(law.size, p=law.ravel())), n_clusters)
        a = int(rng.choice([slot for slot in range(n_clusters) if slot not in (b, c)]))
        seeds = rng.integers(n_users, size=(2, 2))
        choice = Choice((a, b, c), rng.random(), rng.normal(0.0, SPREAD), (seeds[0], seeds[1]))
        scores = self.scores(clusters, choice)
        rho = np.stack([_drawn(row, rng) for row in scores])
        after = self.applied(clusters, choice, rho)
        ratio = self.log_ratio(clusters, after, choice)
        return (after if np.log(rng.random()) < ratio else clusters), ratio

    def applied(self, clusters: Clusters, choice: Choice, rho: NDArray[np.int64]) -> Clusters:
        """Return the clusters with the choice made and consensuses ``rho`` in slots a, b and c."""
        a, b, c = choice.slots
        (alpha_a, alpha_b, alpha_c), g = clusters.alpha[[a, b, c]], clusters.weight
        alpha = [
            alpha_a * np.exp(RISE + choice.v),
            np.sqrt(alpha_b * alpha_c) * np.exp(-RISE),
            alpha_a * np.exp(RISE - choice.v),
        ]
        weight = [g[a] * choice.u, g[b] + g[c], g[a] * (1.0 - choice.u)]
        log_p = log_likelihood(self.matrix, rho, np.array(alpha), n_threads=1)
        return clusters.with_clusters([a, b, c], rho, alpha, weight, log_p)

    def log_ratio(self, before: Clusters, after: Clusters, choice: Choice) -> float:
        """Return the log acceptance ratio: target, proposal and Jacobian."""
        a, b, _ = choice.slots
        jacobian = np.log(before.weight[a] / after.weight[b]) + np.log(before.alpha[a] / after.alpha[b])
        target = self.log_target(after) - self.log_target(before)
        forth = self.log_proposal(before, after, choice)
        return float(target + jacobian + self.log_proposal(after, before, choice.back(before)) - forth)

    def log_target(self, clusters: Clusters) -> float:
        """Return the log posterior of theta, up to a constant."""
        g, shape = clusters.weight, self.priors.concentration
        prior = ((shape - 1.0) * np.log(g) - g).sum() - self.priors.rate * clusters.alpha.sum()
        return clusters.shares()[0] + float(prior)

    def log_proposal(self, clusters: Clusters, after: Clusters, choice: Choice) -> float:
        """Return the log density of a choice and of the consensuses it led to; u, a and seeds are even."""
        a, b, c = choice.slots
        scores = self.scores(clusters, choice)
        consensuses = sum(plackett_luce(row, after.rho[slot]) for row, slot in zip(scores, (a, b, c), strict=True))
        pair = np.log(self.pair_law(clusters.rho)[b, c])
        return float(consensuses + pair + stats.norm.logpdf(choice.v, 0.0, SPREAD))

    def pair_law(self, rho: NDArray[np.int64]) -> Floats:
        """Return P(b, c are merged), [b, c]."""
        n = rho.shape[1]
        distance = np.abs(rho[:, None] - rho[None]).sum(axis=2)
        law = np.exp(-distance / (self.nearness * n * n / 3.0))
        np.fill_diagonal(law, 0.0)
        return np.asarray(law / law.sum())

    def scores(self, clusters: Clusters, choice: Choice) -> Floats:
        """Return the Plackett-Luce scores of the new consensuses of slots a, b and c, [slot, item]."""
        a, b, c = choice.slots
        _, share = clusters.shares()
        first = _two_means(self.matrix, share[:, a], choice.seeds[0])
        groups = np.stack([share[:, a] * first, share[:, b] + share[:, c], share[:, a] * ~first])
        return np.asarray(self.sharpness * np.log(groups @ self.matrix + 0.5))


def _two_means(matrix: Any, share: Floats, seeds: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which users are in the first of two groups, among those with a share; a user counts by the share."""
    centres = matrix[seeds].toarray().astype(np.float64)
    size = np.asarray(matrix.sum(axis=1), dtype=np.float64)
    first = np.zeros(len(share), np.bool_)
    for _ in range(ROUNDS):
        distance = size[:, None] - 2.0 * (matrix @ centres.T) + (centres**2).sum(axis=1)
        first = distance[:, 0] <= distance[:, 1]
        for i, group in enumerate((share * first, share * ~first)):
            centres[i] = (group @ matrix) / max(group.sum(), 1e-12)
    return first


def plackett_luce(scores: Floats, rho: NDArray[np.int64]) -> float:
    """Return the log probability of a ranking: rank by rank, items are drawn by exp(score) without replacement."""
    ordered = scores[np.argsort(rho)]
    return float((ordered - np.logaddexp.accumulate(ordered[::-1])[::-1]).sum())


def _drawn(scores: Floats, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a ranking from that law."""
    return np.argsort(np.argsort(-(scores + rng.gumbel(size=scores.size)))) + 1
