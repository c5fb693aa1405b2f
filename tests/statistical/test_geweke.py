"""Geweke's joint distribution test.

Alternate "data given state" and "sweep given data", and the prior must come back. The number of clicks is drawn
anew each time, or the chain could not leave its click sets.
"""

import math

import numba
import numpy as np
import pytest
from scipy import integrate, special

from bmcd.inference.bmcd.sampler import Effort, exact_sweep
from bmcd.inference.mixture import ChainState, Data
from bmcd.mallows import expected_distance
from bmcd.mallows.latent.scan import shared_tables
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import STREAM_SIZE, open_stream, stream_key, uniform_below

N_USERS, N_ITEMS, N_CLUSTERS = 3, 3, 2
RATE, PSI = 0.5, 1.5
BATCHES = 1000


@numba.njit
def click_the_best(state, scale, stream):
    """A number of clicks for each user, uniform on 0..n, on the best items of the latent ranking."""
    n_users, n_items = state.ranks.shape
    user_start, item_start = np.zeros(n_users + 1, np.int64), np.zeros(n_items + 1, np.int64)
    clicked = np.zeros((n_users, n_items), np.bool_)
    for user in range(n_users):
        count = uniform_below(stream, n_items + 1)
        user_start[user + 1] = user_start[user] + count
        for item in range(n_items):
            clicked[user, item] = state.ranks[user, item] <= count
    user_items, item_users = np.empty(user_start[-1], np.int64), np.empty(user_start[-1], np.int64)
    place = 0
    for user in range(n_users):
        for item in range(n_items):
            if clicked[user, item]:
                user_items[place] = item
                place += 1
    place = 0
    for item in range(n_items):
        for user in range(n_users):
            if clicked[user, item]:
                item_users[place] = user
                place += 1
        item_start[item + 1] = place
    return Data(user_start, user_items, item_start, item_users, scale)


@numba.njit
def successive_conditional(state, scale, shared, effort, key, chain, sweep, warmup, per_batch, out):
    """``chain``, ``sweep`` and ``warmup`` are given: of constants numba would compile a sweep for each."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    for batch in range(out.shape[0]):
        for _ in range(per_batch):
            open_stream(stream, key, chain, sweep, 0, 1000)
            data = click_the_best(state, scale, stream)
            exact_sweep(state, data, shared, RATE, PSI, effort, key, chain, sweep, warmup)
            sweep += 1
            z = state.labels[0]
            distance = 0.0
            for item in range(N_ITEMS):
                distance += abs(scale[state.ranks[0, item] - 1] - scale[state.rho[z, item] - 1])
            row = out[batch]
            row[0] += state.alpha[0]
            row[1] += state.alpha[1] ** 2
            row[2] += math.log(state.alpha[0])
            row[3] += state.tau[0]
            row[4] += state.tau[1] ** 2
            row[5] += state.rho[0, 0] == 1
            row[6] += state.labels[0] == state.labels[1]
            row[7] += distance
            row[8] += state.alpha[z] * distance
            row[9] += state.ranks[2, 1] == 2
            row[10] += state.tau[z]
            row[11] += (state.labels[0] == state.labels[1]) and (state.labels[1] == state.labels[2])
    out /= per_batch


def prior_moments(scale):
    def over_alpha(function):
        return integrate.quad(lambda a: RATE * math.exp(-RATE * a) * function(a), 0, np.inf, limit=200)[0]

    def mean_distance(alpha):
        return expected_distance(N_ITEMS, alpha, rank_scale=scale)

    square = (PSI + 1) / (2 * (2 * PSI + 1))
    return np.array(
        [
            1 / RATE,
            2 / RATE**2,
            special.digamma(1) - math.log(RATE),
            0.5,
            square,
            1 / 3,
            2 * square,
            over_alpha(mean_distance),
            over_alpha(lambda a: a * mean_distance(a)),
            1 / 3,
            2 * square,
            2 * square * (PSI + 2) / (2 * PSI + 2),
        ]
    )


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("scale", ["linear", "sqrt"])
def test_the_prior_comes_back(scale, rotating_seed, deep, times):
    """12 prior moments, |z| < 5 (false alarm 7e-6 for each of two); 2e5 sweeps quick, 1e7 deep."""
    g = scale_values(N_ITEMS, scale)
    state = ChainState(
        alpha=np.full(N_CLUSTERS, 2.0),
        tau=np.full(N_CLUSTERS, 0.5),
        rho=np.tile(np.arange(1, N_ITEMS + 1), (N_CLUSTERS, 1)),
        labels=np.arange(N_USERS) % N_CLUSTERS,
        ranks=np.tile(np.arange(1, N_ITEMS + 1), (N_USERS, 1)),
        alpha_step=np.full(N_CLUSTERS, 1.2),
    )
    out = np.zeros((BATCHES, 12))
    effort = Effort(rounds=2, swaps=1, relabels=1, alpha_proposals=1)
    start = {"chain": 0, "sweep": 0, "warmup": False}
    per_batch, key = times * (10_000 if deep else 200), stream_key(rotating_seed)
    successive_conditional(state, g, shared_tables(np.diff(g)), effort, key, *start.values(), per_batch, out)
    error = out.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    z = (out.mean(axis=0) - prior_moments(scale)) / error
    assert (np.abs(z) < 5).all(), z
