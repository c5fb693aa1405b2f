"""The likelihood of held-out clicks against its definition, and the weights it leads to."""

import numpy as np
import pytest
from scipy.optimize import brentq

from bmcd.blending.learning import LAST_RANKS, LEAST_GAIN, learn_map, learn_weights, rank_features
from bmcd.blending.likelihood import HeldOut, brier_scores, log_likelihood
from bmcd.prediction.race import race_integral


def arrivals(rates, g):
    """Return 1 - exp(-r t) with t such that they sum to g."""
    t = np.exp(brentq(lambda log_t: -np.expm1(-rates * np.exp(log_t)).sum() - g, -30, 60, xtol=1e-13))
    return -np.expm1(-rates * t)


def slow_log_likelihood(held, k, weights):
    total = 0.0
    for row in range(len(held.x)):
        items = held.items[held.starts[row] : held.starts[row + 1]]
        free = np.flatnonzero(held.free[row])
        g = len(items) + k
        if len(free) <= g:
            continue
        pi = np.zeros(held.x.shape[1])
        pi[free] = arrivals(np.exp(held.x[row, free].astype(float) @ weights), g)
        total += held.weight[row] * np.log(pi[items] / g).sum()
    return total


def some_clicks(rng, n_rows=12, n_items=9, n_features=3):
    free = rng.random((n_rows, n_items)) < 0.8
    items = [rng.choice(np.flatnonzero(of), min(rng.integers(1, 4), of.sum()), replace=False) for of in free]
    starts = np.concatenate(([0], np.cumsum([len(of) for of in items])))
    x = rng.normal(size=(n_rows, n_items, n_features)).astype(np.float32)
    return HeldOut(x, free, starts, np.concatenate(items), np.arange(n_rows), rng.random(n_rows) + 0.5)


def fast(held, k, weights):
    gradient, times = np.zeros((len(held.x), len(weights))), np.ones(len(held.x))
    value = log_likelihood(
        0, len(held.x), held.x, held.free, held.starts, held.items, held.weight, k, weights, times, gradient
    )
    return value, gradient.sum(axis=0)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_likelihood_is_that_of_the_definition_and_so_is_its_gradient(rotating_seed, k):
    rng = np.random.default_rng(rotating_seed)
    held, weights = some_clicks(rng), rng.normal(size=3)
    value, gradient = fast(held, k, weights)
    assert value == pytest.approx(slow_log_likelihood(held, k, weights), abs=1e-5)
    for f, step in enumerate(np.eye(3) * 1e-4):
        slope = (slow_log_likelihood(held, k, weights + step) - slow_log_likelihood(held, k, weights - step)) / 2e-4
        assert gradient[f] == pytest.approx(slope, abs=1e-3)


def test_rows_alone_are_what_they_are_together(rotating_seed):
    held = some_clicks(np.random.default_rng(rotating_seed))
    parts = [fast(held.of_rows(np.array([row])), 2, np.ones(3))[0] for row in range(len(held.x))]
    assert sum(parts) == pytest.approx(fast(held, 2, np.ones(3))[0])


def races(rng, gamma, n_users=1500, n_items=40, m=4):
    """Return races in which log p is one feature, noise another, and the next m items are held out."""
    log_p = rng.normal(size=(n_users, n_items)) * 1.5
    noise = rng.normal(size=(n_users, n_items))
    arrived = rng.exponential(size=(n_users, n_items)) / np.exp(gamma * log_p)
    items = np.argsort(arrived, axis=1)[:, :m]
    x = np.stack([log_p, noise], axis=-1).astype(np.float32)
    free = np.ones((n_users, n_items), bool)
    users = np.arange(n_users)
    return HeldOut(x, free, np.arange(n_users + 1) * m, items.ravel(), users, np.ones(n_users))


@pytest.mark.parametrize("gamma", [0.6, 1.0])
def test_judged_on_the_next_items_the_power_is_the_true_one_and_noise_weighs_nothing(rotating_seed, gamma):
    """Nothing else is to come (k = 0): the held-out clicks are the next ones. False alarms: 1 in 8,000 a weight.

    The shortcut of the race is off by a little: 0.02 at these sizes, which is allowed for.
    """
    learnt = learn_weights(races(np.random.default_rng(rotating_seed), gamma), 0, np.array([1.0, 0.0]))
    assert abs(learnt.weights[0] - gamma) < 4 * learnt.standard_errors[0] + 0.02
    assert abs(learnt.weights[1]) < 4 * learnt.standard_errors[1]
    assert 0.005 < learnt.standard_errors[0] < 0.1


def random_part(rng, m, n_users=1500):
    """Return races of which m of the next 8 items are held out, at random."""
    held = races(rng, 1.0, n_users, m=8)
    chosen = np.concatenate([row[rng.permutation(8)[:m]] for row in held.items.reshape(-1, 8)])
    return held._replace(items=chosen, starts=np.arange(len(held.x) + 1) * m)


def test_a_random_part_of_what_comes_next_gives_the_same_power_if_the_rest_is_allowed_for(rotating_seed):
    """Of the next 8 items 2 are held out at random, 6 are yet to come: k = 6 finds the power, k = 0 too little."""
    held = random_part(np.random.default_rng(rotating_seed), 2)
    right, flat = (learn_weights(held, k, np.array([1.0, 0.0])) for k in (6, 0))
    assert abs(right.weights[0] - 1.0) < 4 * right.standard_errors[0] + 0.02
    assert flat.weights[0] < right.weights[0] - 0.1


def test_the_shortcut_is_near_the_exact_race():
    rates = np.exp(np.random.default_rng(5).normal(size=40) * 1.5)
    exact = np.empty(40)
    race_integral(rates / rates.sum(), 5, exact)
    assert np.abs(arrivals(rates, 5) - exact).max() < 0.03


def test_rank_features_add_up_to_the_score_and_keep_the_order(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    score, free = rng.normal(size=(20, 60)), rng.random((20, 60)) < 0.7
    parts = rank_features(score, free)
    assert parts.shape[2] == len(LAST_RANKS) + 1
    for row, of, which in zip(score, parts, free, strict=True):
        total = of.sum(axis=1)[which]
        assert np.allclose(total - total.min(), row[which] - row[which].min())
        mapped = of @ rng.gamma(1.0, size=parts.shape[2])
        order = np.argsort(-row[which])
        assert (np.diff(mapped[which][order]) <= 1e-9).all()


def test_the_map_is_kept_where_it_helps_and_not_where_it_does_not(rotating_seed):
    held = random_part(np.random.default_rng(rotating_seed), 4, n_users=800)
    bent = held.x[:, :, 0].astype(float)
    bent = np.sign(bent) * np.abs(bent) ** 3  # far too sure of the best
    helped = learn_map(held._replace(x=bent[:, :, None].astype(np.float32)), 4, np.ones(1))
    assert helped.brier_with < helped.brier_without
    assert helped.weights[2] < 1
    plain = learn_map(held._replace(x=held.x[:, :, :1]), 4, np.ones(1))
    assert plain.brier_with > (1 - LEAST_GAIN) * plain.brier_without
    assert (plain.weights == 1).all()


def test_the_brier_score_is_that_of_the_definition(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    held, weights, k = some_clicks(rng, n_items=12), rng.normal(size=3), 2
    out = np.empty(len(held.x))
    brier_scores(held.x, held.free, held.starts, held.items, k, weights, out)
    for row, value in enumerate(out):
        items, free = held.items[held.starts[row] : held.starts[row + 1]], np.flatnonzero(held.free[row])
        m = len(items)
        if len(free) <= m + k:
            assert np.isnan(value)
            continue
        pi = arrivals(np.exp(held.x[row, free].astype(float) @ weights), m + k)
        best = np.argsort(-pi)[:k]
        slow = np.mean([(pi[j] * m / (m + k) - (free[j] in items)) ** 2 for j in best])
        assert value == pytest.approx(slow, abs=1e-6)


def test_threads_change_no_digit(rotating_seed):
    held = races(np.random.default_rng(rotating_seed), 1.0, n_users=1200)
    one, two = (learn_weights(held, 3, np.array([1.0, 0.0]), n_threads=n) for n in (1, 3))
    assert (one.weights == two.weights).all()
    assert (one.standard_errors == two.standard_errors).all()
