"""How far Pseudo-Mallows is from posteriors so small that they can be enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from math import exp, log

import numpy as np
from scipy import sparse

from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.mixture import Priors, make_data
from bmcd.mallows.latent.exact import log_likelihood
from experiments.pseudo_mallows.sampler import PseudoSampler
from experiments.pseudo_mallows.slow import Cost, Ranking, sequential_law, v_orders
from experiments.tasks import Result

NOTHING = 1e-100
ORDERS = ("V", "V from outside", "any")


def given_rankings(alpha: float, n_users: int, n_items: int, n_sets: int, seed: int) -> Result:
    """Measure KL divergence and total variation from the posterior of rho, given full rankings.

    The mean over ``n_sets`` sets of ``n_users`` rankings from the Mallows model; those of one ranking are alike.
    """
    rng = np.random.default_rng(seed)
    everything = np.array(list(permutations(range(1, n_items + 1))))
    weight = np.exp(-alpha / n_items * np.abs(everything - np.arange(1, n_items + 1)).sum(axis=1))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ORDERS}
    for _ in range(n_sets):
        rankings = everything[rng.choice(len(everything), n_users, p=weight / weight.sum())]
        for name, distances in distances_given(rankings.tolist(), alpha, rng).items():
            found[name].append(distances)
    return {
        name: dict(zip(("kl", "tv"), np.mean(pairs, axis=0).tolist(), strict=True)) for name, pairs in found.items()
    }


def distances_given(
    rankings: Sequence[Sequence[int]], alpha: float, rng: np.random.Generator
) -> dict[str, tuple[float, float]]:
    """Return KL(posterior || Pseudo-Mallows) and total variation, by kind of order.

    "any" is the mean over 40 orders at random, or all that there are.
    """
    n, beta = len(rankings[0]), alpha / len(rankings[0])
    cost = _cost(rankings)
    total_cost = {
        rho: sum(cost(item, rank) for item, rank in enumerate(rho)) for rho in permutations(range(1, n + 1))
    }
    least = min(total_cost.values())
    posterior = {rho: exp(-beta * (value - least)) for rho, value in total_cost.items()}
    total = sum(posterior.values())
    by_mean_rank = sorted(range(n), key=lambda item: sum(ranking[item] for ranking in rankings))
    v_shaped = v_orders(by_mean_rank)
    orders = {
        "V": v_shaped,
        "V from outside": [order[::-1] for order in v_shaped],
        "any": [tuple(rng.permutation(n).tolist()) for _ in range(40)],
    }
    distances = {}
    for name, some in orders.items():
        law = dict.fromkeys(posterior, 0.0)
        for order in some:
            for pairs, probability in sequential_law(order, range(1, n + 1), cost, beta).items():
                law[tuple(rank for _, rank in pairs)] += probability / len(some)
        gaps = [(weight / total, law[rho]) for rho, weight in posterior.items()]
        # Terms of the first sum with so small a p are as good as 0.
        distances[name] = (
            sum(p * log(p / q) for p, q in gaps if p > NOTHING),
            sum(abs(p - q) for p, q in gaps) / 2,
        )
    return distances


def _cost(rankings: Sequence[Sequence[int]]) -> Cost:
    n = len(rankings[0])
    table = [[float(sum(abs(ranking[i] - r) for ranking in rankings)) for r in range(1, n + 1)] for i in range(n)]
    return lambda item, rank: table[item][rank - 1]


def given_clicks(alpha: float, n_users: int, n_items: int, n_sweeps: int, seed: int, rankings_order: str) -> Result:
    """Measure how far the chain is from the posterior of rho given clicks, with alpha known and one cluster.

    Beside the total variation stands that between the halves of the chain, which sampling alone would give.
    """
    rng = np.random.default_rng(seed)
    everything = list(permutations(range(1, n_items + 1)))
    weight = np.exp(-alpha / n_items * np.abs(np.array(everything) - np.arange(1, n_items + 1)).sum(axis=1))
    drawn = np.array(everything)[rng.choice(len(everything), n_users, p=weight / weight.sum())]
    n_clicked = rng.integers(1, n_items, n_users)
    clicks = sparse.csr_array((drawn <= n_clicked[:, None]).astype(float))
    log_p = log_likelihood(clicks, np.array(everything), np.full(len(everything), alpha)).sum(axis=0)
    posterior = np.exp(log_p - log_p.max())
    posterior /= posterior.sum()
    state = initial_state(clicks, 1, "random", seed=seed)
    state.alpha[:] = alpha
    sampler = PseudoSampler(make_data(clicks), Priors(), v_shaped=rankings_order == "V", seed=seed)
    places: dict[Ranking, int] = {rho: place for place, rho in enumerate(everything)}
    halves = np.zeros((2, len(everything)))
    for sweep in range(n_sweeps):
        sampler.sweep(state, 0, sweep, False)
        halves[2 * sweep // n_sweeps, places[tuple(state.rho[0].tolist())]] += 2 / n_sweeps
    return {
        "tv": float(np.abs(halves.mean(axis=0) - posterior).sum() / 2),
        "tv_between_halves": float(np.abs(halves[0] - halves[1]).sum() / 2),
    }
