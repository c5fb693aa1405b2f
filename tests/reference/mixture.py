"""Slow, obvious reference of the samplers of BMCD: the posterior of a tiny problem, by summing over everything.

Given the labels, clusters are independent. So it is enough to know the evidence of every set of users that may
share a cluster: the sum over every consensus, and the integral over alpha, of the product of their click
probabilities, each of which is a sum over every ranking. Feasible up to 4 or 5 items and a handful of users.
"""

from __future__ import annotations

from itertools import product
from math import exp, lgamma
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tests.reference.mallows import enumerate_rankings, slow_distance

from bmcd.inference.mixture import Priors
from bmcd.mallows.rank_scale import scale_values

NODES = 80  # of the quadrature over alpha


class ExactPosterior(NamedTuple):
    """Posterior means of quantities that do not depend on the names of the clusters."""

    together: NDArray[np.float64]  # [user, user]: P(z_i = z_j)
    top: NDArray[np.float64]  # [user, item]: P(rank <= clicks + k), 1 for clicked items
    total_alpha: float  # E[sum of alpha_c]
    largest: NDArray[np.float64]  # [m]: P(the largest cluster has m users)


def exact_posterior(
    clicks: NDArray[np.bool_],
    n_clusters: int,
    priors: Priors,
    k: int,
    distance: str = "footrule",
    rank_scale: str | ArrayLike = "linear",
) -> ExactPosterior:
    """Return the posterior by summing over labels, consensuses and rankings and integrating over alpha and tau."""
    n_users, n = clicks.shape
    rankings = np.array(list(enumerate_rankings(n)))
    g = scale_values(n, rank_scale).tolist() if distance == "footrule" else None
    d = np.array([[slow_distance(r.tolist(), rho.tolist(), distance, g) for r in rankings] for rho in rankings])
    # u = 1 - exp(-rate alpha) is uniform under the prior: Gauss-Legendre on (0, 1).
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    alpha = -np.log1p(-(nodes + 1) / 2) / priors.rate
    law = np.exp(-alpha[:, None, None] / n * d)
    law /= law.sum(axis=2, keepdims=True)  # [alpha, rho, ranking]
    n_clicked = clicks.sum(axis=1)
    is_top_clicked = rankings[None, :, :] <= n_clicked[:, None, None]  # [user, ranking, item]
    compatible = (is_top_clicked == clicks[:, None, :]).all(axis=2)
    likelihood = np.einsum("apr,jr->jap", law, compatible.astype(float))
    is_top = rankings[None, :, :] <= (n_clicked + k)[:, None, None]  # [user, ranking, item]
    top_weight = np.einsum("apr,jri->jiap", law, (compatible[:, :, None] & is_top).astype(float))
    prior = weights[:, None] / 2 / len(rankings) * np.ones((1, len(rankings)))

    evidence: dict[tuple[int, ...], tuple[float, float, NDArray[np.float64]]] = {}

    def moments_of(members: tuple[int, ...]) -> tuple[float, float, NDArray[np.float64]]:
        """Return the evidence of a set of users, E[alpha] and the top probabilities of its members."""
        if members not in evidence:
            weight = prior * np.prod(likelihood[list(members)], axis=0)
            total = weight.sum()
            mean = float((weight * alpha[:, None]).sum() / total)
            tops = [(weight * top_weight[j] / likelihood[j]).sum(axis=(1, 2)) / total for j in members]
            evidence[members] = (float(total), mean, np.array(tops))
        return evidence[members]

    together, top, total_alpha = np.zeros((n_users, n_users)), np.zeros((n_users, n)), 0.0
    largest, norm = np.zeros(n_users + 1), 0.0
    for labels in product(range(n_clusters), repeat=n_users):
        sets = [tuple(j for j in range(n_users) if labels[j] == c) for c in range(n_clusters)]
        p = exp(sum(lgamma(priors.concentration + len(s)) - lgamma(priors.concentration) for s in sets))
        for members in sets:
            p *= moments_of(members)[0]
        norm += p
        together += p * (np.array(labels)[:, None] == np.array(labels))
        largest[max(map(len, sets))] += p
        for members in sets:
            total_alpha += p * moments_of(members)[1]
            if members:
                top[list(members)] += p * moments_of(members)[2]
    return ExactPosterior(together / norm, top / norm, total_alpha / norm, largest / norm)
