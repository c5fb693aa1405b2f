"""The paper's sampler against a slow twin that takes the same random numbers.

The twin has no ratios of its own. It knows the joint density of everything, evaluated in full, and the law of a
proposal by listing every choice; then it accepts by the rule of Metropolis and Hastings. Every decision of the
sampler must be the twin's. So a term that is wrong or missing shows wherever it stands: in a ratio, in the sweep
that should have used the ratio, or in a distance that was not kept up to date. No sampling test is that sharp.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from scipy import sparse
from tests.reference.mallows import log_partition_enumerated, slow_distance

from bmcd.inference.mixture import ChainState, Priors, make_data
from bmcd.inference.paper.sampler import PaperSampler
from bmcd.inference.rng_streams import PAPER_ALPHA, PAPER_CONSENSUS, PAPER_TAU, PAPER_USER
from bmcd.inference.variates import draw_dirichlet, normal
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import STREAM_SIZE, open_stream, stream_key, uniform, uniform_below

# Unequal clusters, several clicked items to permute, a user who clicked nothing and one who clicked everything.
CLICKS = np.array(
    [[1, 1, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], bool
)
N_USERS, N_ITEMS = CLICKS.shape
PRIORS = Priors(rate=0.25, concentration=0.8)
ALPHA_UPDATE, CHAIN = 2, 3


class Model(NamedTuple):
    distance: str
    scale: tuple[float, ...] | None
    ranks_move: str
    leap_size: int
    seed: int

    def stream(self, sweep, number, purpose):
        stream = np.empty(STREAM_SIZE, np.uint64)
        open_stream(stream, stream_key(self.seed), CHAIN, sweep, number, purpose)
        return stream


@cache
def log_z(alpha, distance, scale):
    return log_partition_enumerated(N_ITEMS, alpha, distance, scale)


def log_joint(state, model):
    """log p(alpha, tau, rho, labels, ranks), up to a constant."""
    total = -PRIORS.rate * state.alpha.sum() + (PRIORS.concentration - 1) * np.log(state.tau).sum()
    for row, z in zip(state.ranks.tolist(), state.labels, strict=True):
        d = slow_distance(row, state.rho[z].tolist(), model.distance, model.scale)
        total += math.log(state.tau[z]) - log_z(float(state.alpha[z]), model.distance, model.scale)
        total -= state.alpha[z] / N_ITEMS * d
    return float(total)


def copy_of(state):
    return ChainState(*(array.copy() for array in state))


def judged(state, proposal, log_q_ratio, u, model):
    """Metropolis and Hastings: the proposal, or the state."""
    log_ratio = log_joint(proposal, model) - log_joint(state, model) + log_q_ratio
    return proposal if u < math.exp(min(log_ratio, 0.0)) else state


# ----------------------------------------------------------------------------------- the law of the proposals


def order_of(ranks):
    return np.argsort(ranks).tolist()


def ranks_of(order):
    return np.argsort(order) + 1


def after_leap(order, origin, target):
    moved = list(order)
    moved.insert(target, moved.pop(origin))
    return moved


def targets_of(origin, low, high, leap):
    return [t for t in range(low, high + 1) if 0 < abs(t - origin) <= leap]


def leap_law(order, new, low, high, leap):
    """Probability that a leap-and-shift within low..high turns ``order`` into ``new``."""
    total = 0.0
    for origin in range(low, high + 1):
        targets = targets_of(origin, low, high, leap)
        ways = sum(after_leap(order, origin, target) == new for target in targets)
        total += ways / len(targets) / (high - low + 1)
    return total


def draw_leap(stream, ranks, low, high, leap):
    """New ranks, and log q(back) / q(forth)."""
    order = order_of(ranks)
    origin = low + uniform_below(stream, high - low + 1)
    targets = targets_of(origin, low, high, leap)
    new = after_leap(order, origin, targets[uniform_below(stream, len(targets))])
    ratio = leap_law(new, order, low, high, leap) / leap_law(order, new, low, high, leap)
    return ranks_of(new), math.log(ratio)


# -------------------------------------------------------------------------------------------- one iteration


def twin_iteration(state, model, sweep):
    """Algorithm 2, once. The state after it."""
    state = copy_of(state)
    n_clusters = state.alpha.size
    stream = model.stream(sweep, 0, PAPER_TAU)
    draw_dirichlet(stream, PRIORS.concentration + np.bincount(state.labels, minlength=n_clusters), state.tau)
    for c in range(n_clusters):
        state = move_consensus(state, model, c, model.stream(sweep, c, PAPER_CONSENSUS))
        if sweep % ALPHA_UPDATE == 0:
            state = move_alpha(state, model, c, model.stream(sweep, c, PAPER_ALPHA))
    for j in range(N_USERS):
        stream = model.stream(sweep, j, PAPER_USER)
        state = draw_label(state, model, j, stream)
        state = (swap_ranks if model.ranks_move == "swap" else leap_ranks)(state, model, j, stream)
    return state


def move_consensus(state, model, c, stream):
    proposal = copy_of(state)
    proposal.rho[c], log_q_ratio = draw_leap(stream, state.rho[c], 0, N_ITEMS - 1, model.leap_size)
    return judged(state, proposal, log_q_ratio, uniform(stream), model)


def move_alpha(state, model, c, stream):
    """q(a -> b) of the log-normal walk is symmetric in log a and log b, so its density in b has a factor 1 / b."""
    proposal = copy_of(state)
    proposal.alpha[c] *= math.exp(state.alpha_step[c] * normal(stream))
    return judged(state, proposal, math.log(proposal.alpha[c] / state.alpha[c]), uniform(stream), model)


def draw_label(state, model, j, stream):
    """Gibbs."""
    choices = [copy_of(state) for _ in state.alpha]
    for c, choice in enumerate(choices):
        choice.labels[j] = c
    log_weights = np.array([log_joint(choice, model) for choice in choices])
    up_to = np.cumsum(np.exp(log_weights - log_weights.max()))
    return choices[int((up_to[:-1] <= uniform(stream) * up_to[-1]).sum())]


def swap_ranks(state, model, j, stream):
    """Two items that are both clicked or both not. Symmetric; with nobody to swap with, nothing happens."""
    origin = uniform_below(stream, N_ITEMS)
    order = order_of(state.ranks[j])
    clicked = CLICKS[j, order[origin]]
    partners = [t for t in range(N_ITEMS) if t != origin and CLICKS[j, order[t]] == clicked]
    if not partners:
        return state
    partner = partners[uniform_below(stream, len(partners))]
    order[origin], order[partner] = order[partner], order[origin]
    proposal = copy_of(state)
    proposal.ranks[j] = ranks_of(order)
    return judged(state, proposal, 0.0, uniform(stream), model)


def leap_ranks(state, model, j, stream):
    """A leap within the clicked items, then one within the others."""
    n_clicked = int(CLICKS[j].sum())
    for low, high in ((0, n_clicked - 1), (n_clicked, N_ITEMS - 1)):
        if high > low:
            proposal = copy_of(state)
            proposal.ranks[j], log_q_ratio = draw_leap(stream, state.ranks[j], low, high, model.leap_size)
            state = judged(state, proposal, log_q_ratio, uniform(stream), model)
    return state


# --------------------------------------------------------------------------------------------------- the test


def first_state(n_clusters, seed):
    rng = np.random.default_rng(seed)
    shuffled = np.argsort(~CLICKS + rng.random(CLICKS.shape), axis=1)  # clicked items first, else at random
    return ChainState(
        alpha=rng.uniform(1.0, 6.0, n_clusters),
        tau=rng.dirichlet(np.ones(n_clusters)),
        rho=np.array([rng.permutation(N_ITEMS) + 1 for _ in range(n_clusters)]),
        labels=rng.integers(0, n_clusters, N_USERS),
        ranks=np.argsort(shuffled, axis=1) + 1,
        alpha_step=np.full(n_clusters, 0.7),
    )


@pytest.mark.chance(1e-4)
@pytest.mark.parametrize(
    ("distance", "ranks_move", "leap_size", "rank_scale", "n_clusters"),
    [
        ("footrule", "swap", 2, "linear", 2),
        ("footrule", "leap_and_shift", 3, "linear", 2),
        ("footrule", "leap_and_shift", 2, "sqrt", 3),
        ("kendall", "swap", 4, "linear", 3),
        ("kendall", "leap_and_shift", 2, "linear", 2),
        ("ulam", "swap", 1, "linear", 1),
    ],
)
def test_every_decision_is_the_twins(distance, ranks_move, leap_size, rank_scale, n_clusters, rotating_seed, deep):
    """Decisions agree but for rounding, 1e-10 a decision on a stretched scale: no false alarm to speak of."""
    scale = None if rank_scale == "linear" else tuple(scale_values(N_ITEMS, rank_scale).tolist())
    model = Model(distance, scale, ranks_move, leap_size, rotating_seed)
    data = make_data(sparse.csr_array(CLICKS), rank_scale)
    options = {"distance": distance, "ranks_move": ranks_move, "leap_size": leap_size}
    sampler = PaperSampler(data, n_clusters, PRIORS, seed=rotating_seed, alpha_update=ALPHA_UPDATE, **options)
    state = first_state(n_clusters, rotating_seed)
    for sweep in range(5000 if deep else 100):
        wanted = twin_iteration(state, model, sweep)
        sampler.sweep(state, CHAIN, sweep, False)
        for name, array, expected in zip(ChainState._fields, state, wanted, strict=True):
            np.testing.assert_allclose(array, expected, rtol=1e-12, err_msg=f"{name} after iteration {sweep}")
