"""A sweep of the tastes against a slow twin that takes the same random numbers.

The twin keeps a list of visits and works everything out by definition, in full: laws of first items by sums over
all rankings, every number of visits and every taste by inversion of its law, every swap by the whole log
posterior, the prior of alpha by the masses of its cells. Every decision of a sweep must be the twin's. Gamma
variates, shuffles and proposed swaps come from the sampler's own kernels, whose laws are tested by themselves
(test_taste_moves.py).
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats
from tests.reference.tastes import log_joint_of_visits, slow_first_item_law, slow_prior

from bmcd.inference.rng_streams import (
    PASS_STRIDE,
    TASTE_COLLAPSED,
    TASTE_CONSENSUS,
    TASTE_RATE_OF_RATES,
    TASTE_RATES,
    TASTE_SCALE,
    TASTE_SHAPE,
    TASTE_VISITS,
)
from bmcd.inference.tastes.consensus import draw_swap, list_of_gaps, shuffle_unvisited
from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.rates import draw_gammas, gamma_table
from bmcd.inference.tastes.sampler import TasteEffort, TasteSampler
from bmcd.inference.tastes.start import TasteState, make_taste_data
from bmcd.inference.tastes.visits import LARGE_MEAN
from bmcd.inference.variates import log_gamma_variate, normal
from bmcd.rng import STREAM_SIZE, open_stream, uniform

# A user who clicked nothing and one who clicked everything; enough clicks for items to be visited more than once.
CLICKS = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
N_USERS, N_ITEMS = CLICKS.shape
RANK_SCALE = (1.0, 1.75, 3.25, 4.0)
N_TASTES, CHAIN, SEED = 3, 2, 5
RATE = 0.3
PRIORS = TastePriors(scale_rate=RATE, a=GammaPrior(2.0, 3.0), b=GammaPrior(3.0, 8.0))
EFFORT = TasteEffort(passes=2, swaps=2, window=60, a_proposals=2)


@pytest.fixture(scope="module")
def sampler():
    return TasteSampler(make_taste_data(CLICKS), N_TASTES, PRIORS, seed=SEED, rank_scale=RANK_SCALE, effort=EFFORT)


@cache
def law(alpha):
    return slow_first_item_law(N_ITEMS, alpha, "footrule", RANK_SCALE)


@cache
def log_prior(alphas):
    return np.log(slow_prior(np.array(alphas), RATE)).tolist()


def inverse(u, weights):
    """The first index at which the running sum of the weights, scaled to 1, exceeds u."""
    running, total = 0.0, math.fsum(weights)
    for i, weight in enumerate(weights):
        running += weight / total
        if u < running:
            return i
    raise AssertionError("the weights do not sum to 1")


def truncated_poisson(u, mu):
    assert mu < LARGE_MEAN, "the sampler draws large means otherwise; choose clicks with smaller ones"
    terms = [math.exp(-mu) * mu**n / math.factorial(n) for n in range(1, 60)]
    return 1 + inverse(u, terms)


class Twin:
    """One sweep, move by move."""

    def __init__(self, state, sampler, sweep):
        self.state = TasteState(*(part.copy() for part in state))
        self.sampler, self.sweep = sampler, sweep
        self.alphas = tuple(sampler.laws.alphas.tolist())
        self.visits = []  # [user, item, taste]

    def stream(self, number, purpose):
        stream = np.empty(STREAM_SIZE, np.uint64)
        open_stream(stream, self.sampler.key, CHAIN, self.sweep, number, purpose)
        return stream

    def q(self, item, c):
        rank = self.state.item_at[c].tolist().index(item)
        return law(self.alphas[self.state.scale_index[c]])[rank]

    def run(self):
        for user in range(N_USERS):
            self.draw_visits(user)
            for pass_ in range(EFFORT.passes):
                self.collapsed_pass(user, self.stream(user, TASTE_COLLAPSED + PASS_STRIDE * pass_))
        for c in range(N_TASTES):
            self.move_consensus(c)
            self.move_scale(c)
        self.move_a()
        self.draw_rates()
        self.draw_b()
        return self

    def draw_visits(self, user):
        stream, items = self.stream(user, TASTE_VISITS), np.flatnonzero(CLICKS[user]).tolist()
        own = [(uniform(stream), uniform(stream)) for _ in items]  # each click has two numbers of its own
        while stream[10] < 4:  # the rest of a block is dropped
            uniform(stream)
        for item, (for_number, for_first) in zip(items, own, strict=True):
            weights = [self.state.rates[user, c] * self.q(item, c) for c in range(N_TASTES)]
            for visit in range(truncated_poisson(for_number, math.fsum(weights))):
                u = uniform(stream) if visit else for_first
                self.visits.append([user, item, inverse(u, weights)])

    def collapsed_pass(self, user, stream):
        for visit in self.visits:
            if visit[0] == user:
                others = [other[2] for other in self.visits if other[0] == user and other is not visit]
                weights = [(others.count(c) + self.state.a[0]) * self.q(visit[1], c) for c in range(N_TASTES)]
                visit[2] = inverse(uniform(stream), weights)

    def count(self, *, user=None, item=None, taste=None):
        wanted = (user, item, taste)
        return sum(all(w is None or w == v for w, v in zip(wanted, visit, strict=True)) for visit in self.visits)

    def log_p_of_taste(self, c, item_at, alpha):
        terms = [self.count(item=item, taste=c) * math.log(law(alpha)[r]) for r, item in enumerate(item_at)]
        return math.fsum(terms)

    def move_consensus(self, c):
        stream, item_at = self.stream(c, TASTE_CONSENSUS), self.state.item_at[c]
        alpha = self.alphas[self.state.scale_index[c]]
        counts = np.array([self.count(item=item, taste=c) for item in range(N_ITEMS)], float)
        shuffle_unvisited(stream, counts, item_at, np.empty(N_ITEMS, np.int64))
        visited = np.flatnonzero(counts)
        for _ in range(EFFORT.swaps * visited.size):
            which, shift = draw_swap(stream, list_of_gaps(N_ITEMS), visited.size)
            r = item_at.tolist().index(visited[which])
            if not 0 <= r + shift < N_ITEMS:
                continue
            swapped = item_at.copy()
            swapped[[r, r + shift]] = swapped[[r + shift, r]]
            change = self.log_p_of_taste(c, swapped, alpha) - self.log_p_of_taste(c, item_at, alpha)
            # Equal counts change nothing, and then no number is drawn; differences in full leave rounding there.
            if change > -1e-9 or uniform(stream) < math.exp(change):
                item_at[:] = swapped

    def move_scale(self, c):
        stream, prior = self.stream(c, TASTE_SCALE), log_prior(self.alphas)
        first, end = 0, len(self.alphas)
        if self.count(taste=c):
            first = self.state.scale_index[c] - int(uniform(stream) * EFFORT.window)
            first, end = max(first, 0), min(first + EFFORT.window, end)
        log_p = [
            self.log_p_of_taste(c, self.state.item_at[c], self.alphas[g]) + prior[g] for g in range(first, end)
        ]
        weights = [math.exp(value - max(log_p)) for value in log_p]
        self.state.scale_index[c] = first + inverse(uniform(stream), weights)

    def counts_by_user(self):
        return np.array(
            [[self.count(user=user, taste=c) for c in range(N_TASTES)] for user in range(N_USERS)], float
        )

    def move_a(self):
        stream, b, counts = self.stream(0, TASTE_SHAPE), self.state.b[0], self.counts_by_user()

        def log_p(a):  # in log a: the density carries a
            return (
                stats.nbinom(a, b / (b + 1)).logpmf(counts).sum()
                + stats.gamma(PRIORS.a.shape, scale=1 / PRIORS.a.rate).logpdf(a)
                + math.log(a)
            )

        for _ in range(EFFORT.a_proposals):
            proposal = self.state.a[0] * math.exp(self.state.a_step[0] * normal(stream))
            if uniform(stream) < math.exp(min(log_p(proposal) - log_p(self.state.a[0]), 0.0)):
                self.state.a[0] = proposal

    def draw_rates(self):
        counts, (a, b) = self.counts_by_user(), (self.state.a[0], self.state.b[0])
        table = gamma_table(a if a < 1 else 0.5, N_USERS * N_TASTES)
        for user in range(N_USERS):
            gammas = np.empty(N_TASTES)
            draw_gammas(self.stream(user, TASTE_RATES), a, counts[user], table, gammas, np.empty(4, np.uint64))
            # The likelihood of the visits has exp(-lambda), since the probabilities of first items sum to 1.
            self.state.rates[user] = np.maximum(gammas / (b + 1), 1e-150)

    def draw_b(self):
        shape = PRIORS.b.shape + self.state.a[0] * N_USERS * N_TASTES
        rate = PRIORS.b.rate + math.fsum(self.state.rates.ravel())
        self.state.b[0] = math.exp(log_gamma_variate(self.stream(0, TASTE_RATE_OF_RATES), shape)) / rate

    def log_joint(self):
        table = np.zeros((N_USERS, N_ITEMS, N_TASTES), np.int64)
        for visit in self.visits:
            table[tuple(visit)] += 1
        log_q = np.log([[self.q(item, c) for c in range(N_TASTES)] for item in range(N_ITEMS)])
        prior = np.array([log_prior(self.alphas)[g] for g in self.state.scale_index])
        return log_joint_of_visits(table, log_q, prior, self.state.a[0], self.state.b[0], PRIORS)


def test_every_decision_of_a_sweep_is_the_twins(sampler):
    """40 sweeps. They must have something to decide: repeated visits, swaps refused, empty tastes."""
    state = sampler.start(CHAIN, rounds=5)
    state.rates[:] *= 2.0
    repeated = empty = 0
    for sweep in range(40):
        twin = Twin(state, sampler, sweep).run()
        info = sampler.sweep(state, CHAIN, sweep, warmup=False)
        np.testing.assert_array_equal(info.visits, twin.counts_by_user())
        np.testing.assert_array_equal(state.item_at, twin.state.item_at)
        np.testing.assert_array_equal(state.scale_index, twin.state.scale_index)
        for mine, his in zip(state, twin.state, strict=True):
            np.testing.assert_allclose(mine, his, rtol=1e-9)
        assert info.n_visits == len(twin.visits)
        assert info.visits_per_taste.tolist() == [twin.count(taste=c) for c in range(N_TASTES)]
        assert info.log_joint == pytest.approx(twin.log_joint(), abs=1e-7)
        repeated += info.n_visits - CLICKS.sum()
        empty += (info.visits_per_taste == 0).sum()
    assert repeated > 20
    assert empty > 0


def test_only_warm_up_tunes(sampler):
    state = sampler.start(CHAIN, rounds=1)
    sampler.sweep(state, CHAIN, 0, warmup=True)
    tuned = state.a_step.copy()
    assert tuned != 0.2
    sampler.sweep(state, CHAIN, 1, warmup=False)
    assert state.a_step == tuned
