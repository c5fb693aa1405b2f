"""Geweke's joint distribution test of the tastes, with the click sets redrawn in every sweep, and calibration.

Alternate "clicks given state" and "sweep given clicks", and the prior must come back.
"""

import math

import numba
import numpy as np
import pytest
from scipy import integrate, special, stats
from tests.reference.tastes import set_log_probability, slow_prior

from bmcd.inference.tastes.priors import GammaPrior, Hyper, TastePriors
from bmcd.inference.tastes.rank_laws import rank_laws
from bmcd.inference.tastes.sampler import TasteEffort, TasteSampler, first_items_of, taste_sweep
from bmcd.inference.tastes.start import TasteData, TasteState, make_taste_data
from bmcd.inference.tastes.visits import first_item_probabilities
from bmcd.rng import STREAM_SIZE, open_stream, stream_key, uniform

N_USERS, N_ITEMS, N_TASTES = 3, 3, 2
A, B, RATE = GammaPrior(4.0, 4.0), GammaPrior(8.0, 6.0), 0.4
BATCHES = 1000
EFFORT = TasteEffort(passes=1, swaps=1, window=80, a_proposals=1)


@numba.njit
def click(state, q, stream):
    """Every user clicks item i with probability 1 - exp(-mu_i)."""
    n_users = state.rates.shape[0]
    start, items = np.zeros(n_users + 1, np.int64), np.empty(n_users * N_ITEMS, np.int64)
    size = 0
    for user in range(n_users):
        for item in range(N_ITEMS):
            mu = 0.0
            for c in range(N_TASTES):
                mu += state.rates[user, c] * q[item, c]
            if uniform(stream) < -math.expm1(-mu):
                items[size] = item
                size += 1
        start[user + 1] = size
    return TasteData(start, items[:size], N_ITEMS)


@numba.njit
def successive_conditional(state, log_alphas, log_law, log_prior, hyper, key, chain, sweep, warmup, per_batch, out):
    """``chain``, ``sweep`` and ``warmup`` are given: of constants numba would compile a sweep for each."""
    stream = np.empty(STREAM_SIZE, np.uint64)
    q = np.zeros((N_ITEMS, N_TASTES))
    for batch in range(out.shape[0]):
        for _ in range(per_batch):
            open_stream(stream, key, chain, sweep, 0, 1000)
            first_item_probabilities(state.item_at, state.scale_index, log_law, q)
            data = click(state, q, stream)
            taste_sweep(state, data, log_law, log_prior, hyper, EFFORT, key, chain, sweep, warmup)
            sweep += 1
            first_item_probabilities(state.item_at, state.scale_index, log_law, q)
            row = out[batch]
            row[0] += log_alphas[state.scale_index[0]]
            row[1] += log_alphas[state.scale_index[1]] ** 2
            row[2] += math.exp(log_alphas[state.scale_index[0]])
            row[3] += state.item_at[0, 0] == 0
            row[4] += q[0, 0] ** 2
            row[5] += state.rates[0, 0]
            row[6] += state.rates[1, 0] * state.rates[1, 1]
            row[7] += math.log(state.rates[2, 1])
            row[8] += state.rates[0, 1] * q[1, 1]
            row[9] += state.a[0]
            row[10] += math.log(state.a[0])
            row[11] += state.b[0]
            row[12] += math.log(state.b[0])
            row[13] += state.a[0] / state.b[0]
            row[14] += state.rates[0, 0] * q[2, 0] ** 2
    out /= per_batch


def prior_moments(laws):
    prior, log_alphas = slow_prior(laws.alphas, RATE), np.log(laws.alphas)
    square = float(prior @ (np.exp(laws.log_law) ** 2).mean(axis=1))
    inverse_b, inverse_b2 = B.rate / (B.shape - 1), B.rate**2 / ((B.shape - 1) * (B.shape - 2))
    law_a = stats.gamma(A.shape, scale=1 / A.rate)
    digamma = integrate.quad(lambda a: law_a.pdf(a) * special.digamma(a), 0, np.inf)[0]
    log_b = special.digamma(B.shape) - math.log(B.rate)
    mean = A.mean * inverse_b
    return np.array(
        [
            prior @ log_alphas,
            prior @ log_alphas**2,
            prior @ laws.alphas,
            1 / N_ITEMS,
            square,
            mean,
            (A.mean**2 + A.shape / A.rate**2) * inverse_b2,
            digamma - log_b,
            mean / N_ITEMS,
            A.mean,
            special.digamma(A.shape) - math.log(A.rate),
            B.mean,
            log_b,
            mean,
            mean * square,
        ]
    )


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_the_prior_comes_back(scale, rotating_seed, deep, times):
    """15 prior moments, |z| < 5 (false alarm 9e-6 for each of two); 3e5 sweeps quick, 1e7 deep."""
    laws = rank_laws(N_ITEMS, "footrule", scale)
    laws.make(np.arange(laws.alphas.size))
    log_prior = laws.log_prior(RATE)
    state = TasteState(
        rates=np.ones((N_USERS, N_TASTES)),
        item_at=np.tile(np.arange(N_ITEMS), (N_TASTES, 1)),
        scale_index=np.full(N_TASTES, 100),
        a=np.array([1.0]),
        b=np.array([1.0]),
        a_step=np.array([0.8]),
    )
    out = np.zeros((BATCHES, 15))
    successive_conditional(
        state,
        np.log(laws.alphas),
        laws.log_law,
        log_prior,
        Hyper(A.shape, A.rate, B.shape, B.rate),
        stream_key(rotating_seed),
        *{"chain": 0, "sweep": 0, "warmup": False}.values(),
        times * (10_000 if deep else 300),
        out,
    )
    error = out.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    z = (out.mean(axis=0) - prior_moments(laws)) / error
    assert (np.abs(z) < 5).all(), z


# -------------------------------------------------------------------------- calibration (Talts et al. 2018)

USERS, ITEMS, TASTES = 6, 4, 2
PRIORS = TastePriors(scale_rate=0.3, a=GammaPrior(3.0, 3.0), b=GammaPrior(4.0, 4.0))
DRAWS, THIN, WARMUP, BINS = 31, 6, 100, 8


def prior_state(rng, laws, prior):
    a, b = rng.gamma(PRIORS.a.shape) / PRIORS.a.rate, rng.gamma(PRIORS.b.shape) / PRIORS.b.rate
    return TasteState(
        rates=np.maximum(rng.gamma(a, 1 / b, (USERS, TASTES)), 1e-150),
        item_at=np.array([rng.permutation(ITEMS) for _ in range(TASTES)]),
        scale_index=rng.choice(prior.size, TASTES, p=prior / prior.sum()),
        a=np.array([a]),
        b=np.array([b]),
        a_step=np.array([0.5]),
    )


def quantities(state, sampler, clicks):
    """Quantities of a state that do not depend on the names of the tastes."""
    q, log_alpha = first_items_of(state, sampler.laws), np.log(sampler.laws.alphas[state.scale_index])
    mu = state.rates @ q.T
    log_p = sum(set_log_probability(row, rates, q) for row, rates in zip(clicks, state.rates, strict=True))
    log_joint = log_p + stats.gamma(state.a[0], scale=1 / state.b[0]).logpdf(state.rates).sum()
    return np.array(
        [
            log_p,
            log_joint,
            log_alpha.sum(),
            log_alpha.max(),
            state.item_at[0, 0] == state.item_at[1, 0],
            q[0].sum(),
            q[3].max(),
            state.rates.sum(),
            state.rates[0].sum(),
            state.rates[1].max(),
            mu[2, 1],
            state.a[0],
            state.b[0],
        ],
        dtype=float,
    )


def rank_of_the_truth(seed, sampler_of):
    rng = np.random.default_rng(seed)
    laws = rank_laws(ITEMS)
    laws.make(np.arange(laws.alphas.size))
    prior = slow_prior(laws.alphas, PRIORS.scale_rate)
    truth = prior_state(rng, laws, prior)
    q = first_items_of(truth, sampler_of(np.zeros((USERS, ITEMS), bool), seed).laws)
    clicks = rng.random((USERS, ITEMS)) < -np.expm1(-truth.rates @ q.T)
    sampler = sampler_of(clicks, seed)
    expected = quantities(truth, sampler, clicks)
    state, draws = sampler.start(0, rounds=2), []
    for sweep in range(WARMUP + DRAWS * THIN):
        sampler.sweep(state, 0, sweep, warmup=sweep < WARMUP)
        if sweep >= WARMUP and (sweep - WARMUP) % THIN == 0:
            draws.append(quantities(state, sampler, clicks))
    draws = np.array(draws)
    # Ties are broken at random, so that discrete quantities rank uniformly too; equal up to rounding is a tie.
    same = np.isclose(draws, expected, rtol=1e-9, atol=1e-9)
    below = ((draws < expected) & ~same).sum(axis=0)
    return below + rng.integers(0, same.sum(axis=0) + 1)


@pytest.mark.chance(2e-5)
def test_the_truth_ranks_uniformly(rotating_seed, deep, times):
    """13 quantities, chi-square over 8 bins, p > 1e-6 each: false alarm 1.3e-5."""

    def sampler_of(clicks, seed):
        return TasteSampler(make_taste_data(clicks), TASTES, PRIORS, seed=seed, effort=EFFORT)

    size = times * (1000 if deep else 200)
    ranks = np.array([rank_of_the_truth(rotating_seed + run, sampler_of) for run in range(size)])
    for number, quantity in enumerate(ranks.T):
        counts = np.bincount(quantity * BINS // (DRAWS + 1), minlength=BINS)
        assert stats.chisquare(counts).pvalue > 1e-6, (number, counts)
