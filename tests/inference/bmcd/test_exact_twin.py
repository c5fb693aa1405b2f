"""A sweep of the exact sampler against a slow twin that takes the same random numbers.

As in test_paper_twin.py: the twin computes click probabilities and distances by definition, in full, and accepts
by the rule of Metropolis and Hastings; every decision of a sweep must be the twin's. Latent rankings are redrawn by
the sampler's own kernels, whose laws are tested by themselves (here, and in test_exact_moves.py).
"""

import math
from functools import cache

import numba
import numpy as np
import pytest
from scipy import sparse
from tests.reference.mallows import (
    enumerate_rankings,
    log_partition_enumerated,
    probabilities_enumerated,
    slow_distance,
)

from bmcd.inference.bmcd.consensus import draw_rank_pair, shuffle
from bmcd.inference.bmcd.labels import label_scores, scores_to_log_q
from bmcd.inference.bmcd.latent_rankings import hit_and_run
from bmcd.inference.bmcd.sampler import Effort, ExactSampler
from bmcd.inference.mixture import ChainState, Priors, make_data
from bmcd.inference.rng_streams import ALPHA, LABELS, REDRAW, RELABEL, RHO_PRIOR, RHO_SWAPS, ROUND_STRIDE, TAU
from bmcd.inference.variates import draw_dirichlet, exponential, normal
from bmcd.mallows.latent.scan import cluster_tables, shared_tables
from bmcd.mallows.latent.users import redraw
from bmcd.rng import STREAM_SIZE, open_stream, stream_key, uniform

# Unequal clusters, several clicked items to permute, a user who clicked nothing and one who clicked everything.
CLICKS = np.array(
    [[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], bool
)
N_USERS, N_ITEMS = CLICKS.shape
SCALE = (1.0, 1.75, 3.25, 4.0)  # uneven, in quarters: sums of distances have no rounding
DATA = make_data(sparse.csr_array(CLICKS), SCALE)
SHARED = shared_tables(np.diff(DATA.scale))
PRIORS = Priors(rate=0.25, concentration=0.8)
EFFORT = Effort(rounds=2, swaps=1, relabels=1, alpha_proposals=2)
CHAIN = 3


@cache
def compatible(user):
    """Rankings that put the clicked items of the user first."""
    clicked = CLICKS[user]
    return [r for r in enumerate_rankings(N_ITEMS) if ((np.array(r) <= clicked.sum()) == clicked).all()]


@cache
def law_of(rho, alpha):
    return probabilities_enumerated(rho, alpha, "footrule", SCALE)


def log_p(user, rho, alpha):
    """log P(clicks of the user | rho, alpha)."""
    law = law_of(tuple(rho.tolist()), float(alpha))
    return math.log(math.fsum(law[r] for r in compatible(user)))


def total_distance(ranks, rho):
    return sum(slow_distance(row, rho.tolist(), "footrule", SCALE) for row in ranks.tolist())


def accepted(u, log_ratio):
    return u < math.exp(min(log_ratio, 0.0))


@numba.njit
def scores_of(data, rho, alpha, shared, out):
    label_scores(data, rho, shared, [cluster_tables(shared, a) for a in alpha], out)


class Twin:
    """One sweep, move by move."""

    def __init__(self, state, seed, sweep):
        self.state = ChainState(*(array.copy() for array in state))
        self.key, self.sweep = stream_key(seed), sweep

    def stream(self, number, purpose):
        stream = np.empty(STREAM_SIZE, np.uint64)
        open_stream(stream, self.key, CHAIN, self.sweep, number, purpose)
        return stream

    def run(self):
        state = self.state
        self.move_labels()
        counts = np.bincount(state.labels, minlength=state.alpha.size)
        draw_dirichlet(self.stream(0, TAU), PRIORS.concentration + counts, state.tau)
        for c in range(state.alpha.size):
            members = np.flatnonzero(state.labels == c)
            if members.size == 0:
                stream = self.stream(c, RHO_PRIOR)
                state.alpha[c] = exponential(stream) / PRIORS.rate
                shuffle(stream, state.rho[c])
                continue
            self.move_alpha(c, members)
            table, where = cluster_tables(SHARED, state.alpha[c]), (self.key, CHAIN, self.sweep)
            redraw(members, DATA, state.rho[c], SHARED, table, *where, REDRAW, state.ranks)
            for round_ in range(EFFORT.rounds):
                number = ROUND_STRIDE * round_
                self.exchange(c, members, self.stream(c, RELABEL + number), EFFORT.relabels, True)
                self.exchange(c, members, self.stream(c, RHO_SWAPS + number), EFFORT.swaps, False)
                beta, upwards = state.alpha[c] / N_ITEMS, round_ % 2 == 0
                if round_ + 1 < EFFORT.rounds:
                    hit_and_run(members, DATA, state.rho[c], beta, upwards, *where, round_, state.ranks)
        return state

    def move_labels(self):
        """The proposal's law may be anything; the target is tau_c P(clicks | rho_c, alpha_c)."""
        state = self.state
        n_clusters = state.alpha.size
        if n_clusters == 1:
            return
        scores, log_q = np.empty((n_clusters, N_USERS)), np.empty(n_clusters)
        scores_of(DATA, state.rho, state.alpha, SHARED, scores)
        for user in range(N_USERS):
            stream = self.stream(user, LABELS)
            scores_to_log_q(np.log(state.tau), scores[:, user].copy(), log_q)
            q = np.exp(log_q)
            old, new = state.labels[user], int((np.cumsum(q)[:-1] <= uniform(stream) * q.sum()).sum())
            log_target = [
                math.log(t) + log_p(user, r, a) for t, r, a in zip(state.tau, state.rho, state.alpha, strict=True)
            ]
            if accepted(uniform(stream), log_target[new] - log_target[old] + math.log(q[old] / q[new])):
                state.labels[user] = new

    def move_alpha(self, c, members):
        """q(a -> b) of the log-normal walk is symmetric in log a and log b: its density in b has a factor 1 / b."""
        state, stream = self.state, self.stream(c, ALPHA)

        def log_target(alpha):
            return -PRIORS.rate * alpha + sum(log_p(user, state.rho[c], alpha) for user in members)

        for _ in range(EFFORT.alpha_proposals):
            old = state.alpha[c]
            new = old * math.exp(state.alpha_step[c] * normal(stream))
            if accepted(uniform(stream), log_target(new) - log_target(old) + math.log(new / old)):
                state.alpha[c] = new

    def exchange(self, c, members, stream, per_item, with_ranks):
        """Exchange two items in rho; ``with_ranks``: also in R_j of members who clicked both or neither."""
        state = self.state
        for _ in range(per_item * N_ITEMS):
            a, b = np.argsort(state.rho[c])[list(draw_rank_pair(stream, N_ITEMS))]
            rho, ranks = state.rho[c].copy(), state.ranks.copy()
            rho[[a, b]] = rho[[b, a]]
            alike = members[CLICKS[members, a] == CLICKS[members, b]] if with_ranks else members[:0]
            ranks[alike, a], ranks[alike, b] = ranks[alike, b], ranks[alike, a]
            change = total_distance(ranks[members], rho) - total_distance(state.ranks[members], state.rho[c])
            if change <= 0 or accepted(uniform(stream), -state.alpha[c] / N_ITEMS * change):
                state.rho[c], state.ranks[:] = rho, ranks

    def log_joint(self):
        state = self.state
        total = -PRIORS.rate * state.alpha.sum() + (PRIORS.concentration - 1) * np.log(state.tau).sum()
        for row, z in zip(state.ranks, state.labels, strict=True):
            total += math.log(state.tau[z]) - log_partition_enumerated(N_ITEMS, state.alpha[z], "footrule", SCALE)
            total -= state.alpha[z] / N_ITEMS * total_distance(row[None], state.rho[z])
        return total


def first_state(n_clusters, seed):
    rng = np.random.default_rng(seed)
    return ChainState(
        alpha=rng.uniform(1.0, 6.0, n_clusters),
        tau=rng.dirichlet(np.ones(n_clusters)),
        rho=np.array([rng.permutation(N_ITEMS) + 1 for _ in range(n_clusters)]),
        labels=rng.integers(0, n_clusters, N_USERS),
        ranks=np.array([compatible(user)[0] for user in range(N_USERS)]),
        alpha_step=np.full(n_clusters, 0.7),
    )


@pytest.mark.chance(1e-6)
@pytest.mark.parametrize("n_clusters", [1, 2, 3])
def test_every_decision_is_the_twins(n_clusters, rotating_seed, deep):
    """Decisions agree but for rounding, 1e-14 a decision: no false alarm to speak of."""
    sampler = ExactSampler(DATA, n_clusters, PRIORS, seed=rotating_seed, effort=EFFORT)
    state = first_state(n_clusters, rotating_seed)
    for sweep in range(2000 if deep else 40):
        twin = Twin(state, rotating_seed, sweep)
        wanted = twin.run()
        info = sampler.sweep(state, CHAIN, sweep, False)
        for name, array, expected in zip(ChainState._fields, state, wanted, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-12, err_msg=f"{name} after sweep {sweep}")
        assert info.log_joint == pytest.approx(twin.log_joint(), rel=1e-10)
        assert info.within_distance == sum(
            total_distance(row[None], state.rho[z]) for row, z in zip(state.ranks, state.labels, strict=True)
        )


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("user", range(N_USERS))
def test_redrawn_rankings_have_their_law(user, rotating_seed, p_value, times):
    """Whatever the ranking was before: here the same one each time."""
    rho, alpha = np.array([2, 4, 1, 3]), 3.0
    law = {r: law_of(tuple(rho.tolist()), alpha)[r] for r in compatible(user)}
    law = {r: p / math.fsum(law.values()) for r, p in law.items()}
    table, members, key = cluster_tables(SHARED, alpha), np.array([user]), stream_key(rotating_seed)
    draws = np.empty((600 * times, N_ITEMS), np.int64)
    for sweep in range(len(draws)):
        ranks = np.tile(compatible(user)[0], (N_USERS, 1))
        redraw(members, DATA, rho, SHARED, table, key, 0, sweep, REDRAW, ranks)
        draws[sweep] = ranks[user]
    if len(law) == 1:
        assert (draws == draws[0]).all()
    else:
        assert p_value(draws, law) > 1e-6
