"""Probabilities out of draws of the tastes, against their definition."""

import numpy as np
import pytest
from tests.reference.tastes import race_integral

import bmcd
from bmcd.inference.arrivals import ROUNDS, race_corrected
from bmcd.inference.run import Run
from bmcd.inference.tastes.draws import sample_tastes
from bmcd.models.taste_predictor import PreparedTasteDraws


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate(n_users=40, n_items=15, consensuses=2, mean_clicks=4, seed=2).clicks


@pytest.fixture(scope="module")
def draws(clicks):
    return sample_tastes(clicks, 3, Run(draws=3, warmup=10, chains=2, seed=1, progress=False))


def slow_rates(items, q, a, b):
    """The rates of all items by the formulas of arrivals.py, one line each."""
    shares = q[items] / q[items].sum(axis=1, keepdims=True)
    for _ in range(ROUNDS):
        for j, item in enumerate(items):
            visits = shares.sum(axis=0)
            mu = ((visits + a) * q[item]).sum() / (b + 1)
            weight = (visits - shares[j] + a) * q[item]
            shares[j] = mu / -np.expm1(-mu) * weight / weight.sum()
    return q @ (shares.sum(axis=0) + a)


def slow_probabilities(draws, items, k, race):
    """Mean over draws of the race under each draw's rates."""
    n_items = draws.problem.n_items
    free = np.setdiff1d(np.arange(n_items), items)
    total = np.zeros(free.size)
    for chain in range(draws.n_chains):
        for draw in range(draws.n_draws):
            q = draws.first_items(chain, draw)
            rates = slow_rates(items, q, draws.a[chain, draw, 0], draws.b[chain, draw, 0])[free]
            total += race(rates / rates.sum(), k)
    probability = np.zeros(n_items)
    probability[free] = total / (draws.n_chains * draws.n_draws)
    return probability


def corrected(rates, k):
    out = np.empty(rates.size)
    race_corrected(rates, k, float(k), out)
    return rates if k == 1 else out


@pytest.mark.parametrize("k", [1, 4])
def test_the_kernel_is_the_definition(draws, clicks, k):
    predictor = PreparedTasteDraws(draws, None)
    ((rows, predicted),) = predictor.blocks(clicks.matrix, k)
    assert rows.tolist() == list(range(40))
    for user in (0, 7, 21):
        items = clicks.matrix[[user]].indices
        expected = slow_probabilities(draws, items, k, corrected)
        # The kernel folds in with single precision.
        np.testing.assert_allclose(predicted.probability[user], expected, atol=2e-5)


@pytest.mark.parametrize(("k", "error"), [(1, 1e-5), (4, 0.005)])
def test_they_are_near_the_exact_race(draws, clicks, k, error):
    """Mean over draws of the exact integral. For k = 1 nothing but single precision is between them.

    For k = 4 of some ten items 0.005 is about what the worst hundredth of races has, see race.py.
    """
    ((_, predicted),) = PreparedTasteDraws(draws, None).blocks(clicks.matrix, k)
    for user in range(20):
        exact = slow_probabilities(draws, clicks.matrix[[user]].indices, k, race_integral)
        assert np.abs(predicted.probability[user] - exact).max() < error


def test_nobody_is_like_the_prior(draws, clicks):
    """Without clicks a user visits all tastes alike: the law is the mean of the tastes."""
    empty = clicks.matrix[[0]] * 0
    empty.eliminate_zeros()
    ((_, predicted),) = PreparedTasteDraws(draws, 1).blocks(empty, 1)
    laws = [draws.first_items(chain, draws.n_draws - 1).mean(axis=1) for chain in range(2)]
    np.testing.assert_allclose(predicted.probability[0], np.mean(laws, axis=0), atol=1e-5)


def test_blocks_and_threads_change_nothing(draws, clicks, monkeypatch):
    import bmcd.models.taste_predictor as module

    predictor = PreparedTasteDraws(draws, None)
    ((_, together),) = predictor.blocks(clicks.matrix, 3, n_threads=1)
    monkeypatch.setattr(module, "BLOCK", 7)
    monkeypatch.setattr(module, "PIECE", 2)
    parts = [predicted for _, predicted in predictor.blocks(clicks.matrix, 3, n_threads=4)]
    for whole, pieces in zip(together, zip(*parts, strict=True), strict=True):
        assert np.concatenate(pieces).tobytes() == whole.tobytes()


def test_the_standard_error_is_that_between_chains(draws, clicks):
    ((_, both),) = PreparedTasteDraws(draws, None).blocks(clicks.matrix, 3)
    alone = []
    for chain in range(2):
        ((_, predicted),) = PreparedTasteDraws(draws.of_chain(chain), None).blocks(clicks.matrix, 3)
        alone.append(predicted.probability)
    # The time of the race is found to a part in 10^7, from another start here and there.
    np.testing.assert_allclose(both.probability, np.mean(alone, axis=0), atol=1e-7)
    np.testing.assert_allclose(both.mcse, np.abs(alone[0] - alone[1]) / 2, atol=1e-7)
