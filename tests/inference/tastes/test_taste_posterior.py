"""The sampler of the tastes against posteriors summed up in full, and those sums against what must hold of them."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats
from tests.reference.tastes import _set_probability, set_log_probability, tiny_posterior

from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.sampler import TasteEffort, TasteSampler
from bmcd.inference.tastes.start import make_taste_data

FIXED = TastePriors(scale_rate=0.4, a=0.6, b=0.5)
LEARNT = TastePriors(scale_rate=0.5, a=GammaPrior(3.0, 4.0), b=GammaPrior(4.0, 5.0))
PROBLEMS = {
    "two tastes": ([[1, 1, 0], [1, 0, 0], [0, 0, 1]], 2, FIXED, "footrule", "linear"),
    "nothing and everything clicked": ([[0, 0, 0], [1, 1, 1], [0, 1, 0]], 2, FIXED, "footrule", "sqrt"),
    "one taste, a and b learnt": ([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]], 1, LEARNT, "footrule", "log"),
    "another distance": ([[1, 1, 0], [0, 1, 0]], 2, FIXED, "kendall", "linear"),
    "b learnt": ([[1, 1, 0], [0, 1, 0]], 1, TastePriors(a=0.5, b=GammaPrior(4.0, 5.0)), "hamming", "linear"),
    "one item": ([[1], [0], [1]], 2, FIXED, "footrule", "linear"),
}
WARMUP, BATCHES = 500, 400


def run(clicks, n_tastes, priors, distance, scale, seed, sweeps):
    """Means over batches of quantities that do not depend on the names of the tastes: [batch, quantity]."""
    sampler = TasteSampler(
        make_taste_data(clicks), n_tastes, priors, seed=seed, distance=distance, rank_scale=scale,
        effort=TasteEffort(passes=1, swaps=1, window=100, a_proposals=2),
    )  # fmt: skip
    sampler.laws.make(np.arange(sampler.laws.alphas.size))
    log_alphas, laws = np.log(sampler.laws.alphas), np.exp(sampler.laws.log_law)
    state = sampler.start(0, rounds=2)
    out = np.empty((sweeps - WARMUP, 2 * clicks.shape[1] + len(clicks) + 4))
    q = np.empty((n_tastes, clicks.shape[1]))
    for sweep in range(sweeps):
        sampler.sweep(state, 0, sweep, warmup=sweep < WARMUP)
        if sweep >= WARMUP:
            np.put_along_axis(q, state.item_at, laws[state.scale_index], axis=1)
            best = state.item_at[:, 0]
            out[sweep - WARMUP] = np.concatenate([
                q.sum(axis=0), (q**2).sum(axis=0), state.rates.sum(axis=1),
                [log_alphas[state.scale_index].sum(), best[0] == best[-1], state.a[0], state.b[0]],
            ])  # fmt: skip
    return out.reshape(BATCHES, -1, out.shape[1]).mean(axis=1)


@pytest.mark.chance(1e-3)
@pytest.mark.parametrize("name", PROBLEMS)
def test_every_quantity(name, rotating_seed, deep, times):
    """Within 4.5 Monte Carlo standard errors from 400 batches.

    70 comparisons, false alarm 5e-4 in all if they were normal and independent; they are neither quite.
    """
    given, n_tastes, priors, distance, scale = PROBLEMS[name]
    clicks = np.array(given, bool)
    exact = tiny_posterior(clicks, n_tastes, priors, distance, scale)
    expected = np.concatenate([
        exact.first, exact.square, exact.total_rate, [exact.log_alpha, exact.same_best, exact.a, exact.b],
    ])  # fmt: skip
    sweeps = WARMUP + BATCHES * times * (2_000 if deep else 100)
    batches = run(clicks, n_tastes, priors, distance, scale, rotating_seed, sweeps)
    mean, error = batches.mean(axis=0), batches.std(axis=0, ddof=1) / math.sqrt(BATCHES)
    # 1e-6 for what is certain, which has no error of its own, and for the quadrature.
    assert (np.abs(mean - expected) < 4.5 * error + 1e-6).all(), np.c_[mean, expected, error]


def test_probabilities_of_all_sets_sum_to_1():
    rates, q = np.array([0.7, 2.0]), np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]])
    sets = [np.array(clicked, bool) for clicked in itertools.product([0, 1], repeat=3)]
    assert math.fsum(math.exp(set_log_probability(clicked, rates, q)) for clicked in sets) == pytest.approx(1.0)
    all_q = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    total = sum(_set_probability(clicked, all_q, 2, 0.6, 0.5)[0] for clicked in sets)
    np.testing.assert_allclose(total, 1.0)


@pytest.mark.chance(1e-5)
def test_the_law_of_a_set_is_that_of_simulated_visits(rotating_seed, times):
    """Visits as the model tells them: Poisson many to each taste, an item each. 8 sets, chi-square p > 1e-6."""
    rng = np.random.default_rng(rotating_seed)
    rates, q, size = np.array([0.7, 2.0]), np.array([[0.5, 0.1], [0.3, 0.2], [0.2, 0.7]]), 40_000 * times
    seen = np.zeros(8, int)
    for _ in range(size):
        clicked = set()
        for c, number in enumerate(rng.poisson(rates)):
            clicked.update(rng.choice(3, number, p=q[:, c]).tolist())
        seen[sum(2**item for item in clicked)] += 1
    law = [
        math.exp(set_log_probability(np.array([code >> item & 1 for item in range(3)], bool), rates, q))
        for code in range(8)
    ]
    assert stats.chisquare(seen, np.array(law) * size).pvalue > 1e-6


def test_rates_integrate_out_as_by_quadrature():
    clicked, q, a, b = np.array([True, False, True]), np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]), 0.6, 0.5
    points, weights = special.roots_genlaguerre(40, a - 1)
    points, weights = points / b, weights / weights.sum()
    by_quadrature = np.zeros(2)
    for (x, weight_x), (y, weight_y) in itertools.product(zip(points, weights, strict=True), repeat=2):
        p = weight_x * weight_y * math.exp(set_log_probability(clicked, np.array([x, y]), q.T))
        by_quadrature += [p, p * (x + y)]
    probability, rate = _set_probability(clicked, q, 2, a, b)
    np.testing.assert_allclose([probability[0, 1], rate[0, 1]], by_quadrature, rtol=1e-8)


def test_with_no_users_the_posterior_is_the_prior():
    exact = tiny_posterior(np.zeros((0, 3), bool), 2, LEARNT, nodes=4)
    np.testing.assert_allclose(exact.first, 2 / 3)
    assert exact.same_best == pytest.approx(1 / 3)
    assert exact.a == pytest.approx(3 / 4)
    assert exact.b == pytest.approx(4 / 5)


def test_three_tastes_are_refused():
    with pytest.raises(ValueError, match="one or two tastes, but there are 3"):
        tiny_posterior(np.zeros((1, 2), bool), 3, FIXED)
