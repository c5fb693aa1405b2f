"""Weights of a blend: derivatives against a slow dense loss, the minimum, threads, standard errors."""

import numpy as np
import pytest
from scipy import optimize
from tests.reference import blend as reference

from bmcd.blend.weights import OUTSIDE, Examples, _Loss, learn, losses, prior_of, reported, without

pytestmark = pytest.mark.chance(0)

N_FEATURES, N_DENSE, N_CELLS = 4, 2, 3


def some_examples(rng, n=7, *, outside=True, cells=True, ordered=True, length=True):
    """Random moments: two tables of cells, horizons 1 to 5, and clicks on candidates, in cells and outside."""
    lengths = rng.integers(1, 9, n)
    start = np.concatenate(([0], np.cumsum(lengths)))
    x = rng.normal(size=(start[-1], N_FEATURES)).astype(np.float32)
    n_cells = N_CELLS if cells else 0
    mult = rng.integers(0, 6, (n, n_cells)).astype(np.float32)
    targets, counts = [], []
    for e in range(n):
        places = [*range(lengths[e])]
        for c in range(n_cells):
            places += [-1 - c] * min(int(mult[e, c]), 2)
        places += [OUTSIDE] * 2 if outside else []
        chosen = rng.choice(places, min(int(rng.integers(1, 6)), len(places)), replace=False)
        targets += chosen.tolist()
        counts.append(len(chosen))
    held = np.array(counts, float)
    g = held if ordered else held + rng.integers(1, 4, n)
    z = np.stack([np.ones(n), rng.normal(size=n), rng.random(n) < 0.3], axis=1) if length else np.ones((n, 1))
    return Examples(
        x, start, rng.integers(0, 2, n),
        rng.normal(size=(2, n_cells, N_DENSE)).astype(np.float32), mult,
        rng.normal(size=n), np.array(targets, np.int64), np.concatenate(([0], np.cumsum(counts))), z.astype(float),
        g, held / g, rng.integers(0, 4, n), rng.integers(0, 3, n), outside,
    )  # fmt: skip


KINDS = {
    "everything": {},
    "no outside": {"outside": False},
    "no cells": {"cells": False},
    "random clicks": {"ordered": False},
    "random clicks, candidates only": {"ordered": False, "cells": False, "outside": False},
}


def differences(function, w, step):
    """Central differences of a function by every number of w."""
    found = []
    for place in np.ndindex(w.shape):
        up, down = w.copy(), w.copy()
        up[place] += step
        down[place] -= step
        found.append((function(up) - function(down)) / (2 * step))
    return np.array(found)


@pytest.mark.chance(1e-3)
@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_derivatives(kind, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    for _ in range(3):
        examples = some_examples(rng, **KINDS[kind])
        w = rng.normal(scale=0.5, size=(N_FEATURES + 2, 3))
        compiled = _Loss(examples, 1)
        value, gradient, hessian = compiled(w, True)
        hessian = hessian.copy()
        assert value == pytest.approx(reference.loss(w, examples), rel=1e-8, abs=1e-8)
        slow = differences(lambda other: reference.loss(other, examples), w, 1e-5)  # noqa: B023
        np.testing.assert_allclose(gradient, slow, rtol=2e-5, atol=2e-6)
        twice = differences(lambda other: compiled(other, False)[1], w, 1e-5)  # noqa: B023
        np.testing.assert_allclose(hessian, twice, rtol=2e-5, atol=1e-5)


def test_a_moment_after_which_everything_comes_teaches_nothing(rotating_seed):
    examples = some_examples(np.random.default_rng(rotating_seed), outside=False, cells=False)
    lengths = np.diff(examples.start).astype(float)
    w = np.ones((N_FEATURES + 2, 3))
    value, gradient, hessian = _Loss(examples._replace(g=lengths), 1)(w, True)
    assert value == 0
    assert not gradient.any()
    assert not hessian.any()


@pytest.mark.chance(1e-3)
@pytest.mark.parametrize("kind", KINDS)
def test_learning_finds_the_minimum(kind, rotating_seed):
    """As good as a general optimiser, to a thousandth of a nat in all."""
    rng = np.random.default_rng(rotating_seed)
    examples = some_examples(rng, 150, **KINDS[kind])
    centre = rng.normal(size=(N_FEATURES + 2, 3))
    prior = prior_of(*centre.shape).ravel()
    found = learn(examples, np.zeros_like(centre), centre)

    def objective(flat):
        value, gradient, _ = _Loss(examples, 1)(flat.reshape(centre.shape), False)
        away = flat - centre.ravel()
        return value + (prior * away**2).sum() / 2, gradient + prior * away

    value, slope = objective(found.w.ravel())
    hessian = _Loss(examples, 1)(found.w, True)[2] + np.diag(prior)
    assert slope @ np.linalg.solve(hessian, slope) / 2 < 1e-3  # what a further step would gain
    best = optimize.minimize(objective, found.w.ravel(), jac=True, method="BFGS")
    assert value - best.fun < 2e-3
    np.testing.assert_allclose(found.w.ravel(), best.x, atol=0.1)
    assert found.loss == pytest.approx(losses(examples, found.w).mean())


@pytest.mark.chance(1e-3)
def test_weights_that_are_fixed_are_zero(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    examples, centre = some_examples(rng, 100), rng.normal(size=(N_FEATURES + 2, 3))
    held = np.array([False, True, True, False])
    found = learn(examples, centre, centre, fixed=held, errors=True)
    assert not found.w[:4][held].any()
    assert found.w[:4][~held].all()
    errors = np.diag(found.covariance).reshape(centre.shape)
    assert not errors[:4][held].any()
    assert (errors[:4][~held] > 0).all()
    without = examples._replace(
        x=np.ascontiguousarray(examples.x[:, ~held]), cells=np.ascontiguousarray(examples.cells[:, :, ~held[:2]])
    )
    rest = np.append(~held, [True, True])
    alone = learn(without, centre[rest], centre[rest])
    np.testing.assert_allclose(found.w[rest], alone.w, atol=0.01)


def test_threads_change_no_bit(rotating_seed):
    examples = some_examples(np.random.default_rng(rotating_seed), 700)
    centre = np.zeros((N_FEATURES + 2, 3))
    one, *others = (learn(examples, centre, centre, errors=True, n_threads=n) for n in (1, 2, 4))
    for other in others:
        assert one.w.tobytes() == other.w.tobytes()
        assert one.covariance.tobytes() == other.covariance.tobytes()
        assert one.loss == other.loss


def test_some_moments_alone(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    examples, w = some_examples(rng, 40), rng.normal(scale=0.5, size=(N_FEATURES + 2, 3))
    chosen = np.flatnonzero(rng.random(40) < 0.5)
    np.testing.assert_allclose(losses(examples.of(chosen), w), losses(examples, w)[chosen], rtol=1e-9, atol=1e-9)
    some, every = reported(examples.of(chosen), w, 3), reported(examples, w, 3)
    for part, whole in zip(some, every, strict=True):
        np.testing.assert_allclose(part, whole[chosen], atol=1e-12)


def visits(rng, n_users=300, n_items=15, n_noise=10):
    """Two moments of each user, who has likings that no feature tells; the noise is the same at both."""
    seen = rng.normal(size=(n_users, n_items, 1))
    noise = rng.normal(size=(n_users, n_items, n_noise))
    hidden = rng.normal(size=(n_users, n_items))
    x = np.repeat(np.concatenate([seen, noise], axis=2), 2, axis=0)
    rates = np.exp(np.repeat(seen[:, :, 0] + hidden, 2, axis=0))
    arrival = rng.exponential(size=rates.shape) / rates
    n, g = len(x), rng.integers(1, 5, len(x))
    order = np.argsort(arrival, axis=1)
    targets = np.concatenate([row[:many] for row, many in zip(order, g, strict=True)])
    return Examples(
        x.reshape(-1, 1 + n_noise).astype(np.float32), np.arange(n + 1) * n_items, np.zeros(n, np.int64),
        np.zeros((1, 0, 0), np.float32), np.zeros((n, 0), np.float32), np.zeros(n), targets,
        np.concatenate(([0], np.cumsum(g))), np.ones((n, 1)), g.astype(float), np.ones(n),
        np.repeat(np.arange(n_users), 2), np.zeros(n, np.int64), False,
    )  # fmt: skip


@pytest.mark.chance(1e-4)
def test_standard_errors_of_noise_are_right(rotating_seed, times):
    """z of 1,500 weights that are truly 0 has standard deviation 1.

    Within 4.5 of its own standard errors, 0.082, and 0.02 because 300 users are not many.
    """
    rng = np.random.default_rng(rotating_seed)
    z = []
    for _ in range(150 * times):
        examples = visits(rng)
        begin = np.zeros((examples.x.shape[1] + 2, 1))
        found = learn(examples, begin, begin, errors=True)
        z.append((found.w.ravel() / np.sqrt(np.maximum(np.diag(found.covariance), 1e-300)))[1:11])
    z = np.array(z)
    assert abs(np.sqrt((z**2).mean()) - 1) < 4.5 / np.sqrt(2 * z.size) + 0.02
    assert abs(z.mean()) < 4.5 / np.sqrt(z.size)


@pytest.mark.chance(1e-3)
def test_one_step_without_a_feature_is_nearly_the_fit_without_it(rotating_seed):
    """The loss after the step is that of the fit, or above it by at most a tenth of what the features gain.

    2e-3 nats, since learning ends within 1e-3 of the minimum. 900 random cases hold.
    """
    examples = visits(np.random.default_rng(rotating_seed), n_noise=3)
    start = np.zeros((examples.x.shape[1] + 2, 1))
    full = learn(examples, start, start)
    prior = prior_of(*start.shape)

    def objective(w):
        return losses(examples, w).sum() + (prior * w**2).sum() / 2

    sets = [np.arange(4) == 0, np.arange(4) == 2, np.arange(4) >= 2]
    for off, found in zip(sets, without(examples, full.w, start, sets), strict=True):
        assert (found[:-2][off] == 0).all()
        fitted = objective(learn(examples, start, start, fixed=off).w)
        gain = fitted - objective(full.w)
        assert -2e-3 < objective(found) - fitted < 0.1 * gain + 2e-3
