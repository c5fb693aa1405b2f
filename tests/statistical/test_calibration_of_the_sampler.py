"""Simulation-based calibration (Talts et al.): prior draws rank uniformly among their posterior draws."""

import numpy as np
import pytest
from scipy import sparse, stats

from bmcd.inference.bmcd.sampler import Effort, ExactSampler
from bmcd.inference.mixture import ChainState, Priors, make_data
from bmcd.mallows import distance, sample
from bmcd.mallows.latent.scan import cluster_tables, shared_tables
from bmcd.mallows.latent.users import log_likelihoods

N_USERS, N_ITEMS, N_CLUSTERS = 4, 4, 2
PRIORS = Priors(rate=0.4, concentration=1.5)
DRAWS, THIN, WARMUP = 31, 6, 150
BINS = 8
SHARED = shared_tables(np.ones(N_ITEMS - 1))


def prior_state(rng):
    tau = rng.dirichlet(np.full(N_CLUSTERS, PRIORS.concentration))
    alpha = rng.exponential(1 / PRIORS.rate, N_CLUSTERS)
    rho = np.array([rng.permutation(N_ITEMS) + 1 for _ in range(N_CLUSTERS)])
    labels = rng.choice(N_CLUSTERS, N_USERS, p=tau)
    ranks = np.concatenate([sample(rho[z], alpha[z], 1, seed=int(rng.integers(2**32))) for z in labels])
    return ChainState(alpha, tau, rho, labels, ranks, np.full(N_CLUSTERS, 1.0))


def quantities(state, data):
    """Label-free quantities of a state."""
    d = distance(state.ranks, state.rho[state.labels])
    tables = [cluster_tables(SHARED, a) for a in state.alpha]
    log_z = np.array([table.log_z for table in tables])
    log_p = np.empty((N_CLUSTERS, N_USERS))
    for c in range(N_CLUSTERS):
        log_likelihoods(np.arange(N_USERS), data, state.rho[c], SHARED, tables[c], log_p[c])
    log_joint = ((np.log(state.tau) - log_z)[state.labels] - state.alpha[state.labels] / N_ITEMS * d).sum() + (
        -PRIORS.rate * state.alpha + (PRIORS.concentration - 1) * np.log(state.tau)
    ).sum()
    mixture = np.log(state.tau @ np.exp(log_p)).sum()
    return np.array(
        [
            log_joint,
            mixture,
            d.sum(),
            state.alpha.max(),
            state.alpha.min(),
            state.tau.max(),
            state.ranks[0, 0],
            state.ranks[1, 3],
            state.rho[state.labels[0], 0],
            state.labels[0] == state.labels[1],
            np.bincount(state.labels).max(),
        ],
        dtype=float,
    )


def rank_of_the_truth(seed):
    rng = np.random.default_rng(seed)
    truth = prior_state(rng)
    clicks = truth.ranks <= rng.integers(0, N_ITEMS + 1, N_USERS)[:, None]
    data = make_data(sparse.csr_array(clicks))
    expected = quantities(truth, data)
    sampler = ExactSampler(data, N_CLUSTERS, PRIORS, seed=seed, effort=Effort(1, 1, 1, 1))
    state = prior_state(rng)
    state.ranks[:] = np.argsort(np.argsort(~clicks, axis=1, kind="stable"), axis=1) + 1
    draws = []
    for sweep in range(WARMUP + DRAWS * THIN):
        sampler.sweep(state, 0, sweep, warmup=sweep < WARMUP)
        if sweep >= WARMUP and (sweep - WARMUP) % THIN == 0:
            draws.append(quantities(state, data))
    draws = np.array(draws)
    # Ties are broken at random, so that discrete quantities rank uniformly too; equal up to rounding is a tie.
    same = np.isclose(draws, expected, rtol=1e-9, atol=1e-9)
    below = ((draws < expected) & ~same).sum(axis=0)
    return below + rng.integers(0, same.sum(axis=0) + 1)


@pytest.mark.chance(2e-5)
def test_the_truth_ranks_uniformly(rotating_seed, deep, times):
    """11 quantities, chi-square over 8 bins, p > 1e-6 each: false alarm 1.1e-5."""
    size = times * (1000 if deep else 200)
    ranks = np.array([rank_of_the_truth(rotating_seed + run) for run in range(size)])
    for quantity in ranks.T:
        counts = np.bincount(quantity * BINS // (DRAWS + 1), minlength=BINS)
        assert stats.chisquare(counts).pvalue > 1e-6, counts


@pytest.mark.parametrize("chain", [0, 3])
def test_a_chain_is_a_function_of_seed_and_chain(chain):
    """The same bytes again; another chain number, other bytes."""
    rng = np.random.default_rng(0)
    clicks = rng.random((20, 6)) < 0.3
    data = make_data(sparse.csr_array(clicks))

    def run(chain_number):
        state = ChainState(
            np.full(2, 2.0),
            np.full(2, 0.5),
            np.tile(np.arange(1, 7), (2, 1)),
            np.arange(20) % 2,
            np.argsort(np.argsort(~clicks, axis=1, kind="stable"), axis=1) + 1,
            np.full(2, 0.3),
        )
        sampler = ExactSampler(data, 2, PRIORS, seed=7)
        for sweep in range(20):
            sampler.sweep(state, chain_number, sweep, warmup=sweep < 10)
        return b"".join(part.tobytes() for part in state)

    assert run(chain) == run(chain)
    assert run(chain) != run(chain + 1)
