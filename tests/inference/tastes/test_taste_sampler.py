"""The sampler of the tastes as a whole: odd data, starts, and draws that are a function of the seed alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.inference.tastes.priors import GammaPrior, TastePriors
from bmcd.inference.tastes.sampler import TasteEffort, TasteSampler, first_items_of
from bmcd.inference.tastes.start import (
    TasteState,
    best_scale,
    count_shares,
    make_taste_data,
    mean_field,
    mean_field_round,
    random_shares,
)
from bmcd.rng import stream_key

RNG = np.random.default_rng(0)
CLICKS = RNG.random((60, 12)) < RNG.random((60, 1)) * np.linspace(0.9, 0.1, 12)


def bytes_of(state):
    return b"".join(part.tobytes() for part in state)


def run(sampler, chain, sweeps, state=None, first=0):
    state = state or sampler.start(chain)
    for sweep in range(first, first + sweeps):
        info = sampler.sweep(state, chain, sweep, warmup=sweep < 3)
    return state, info


@pytest.mark.parametrize(
    "clicks",
    [
        np.zeros((3, 4)),
        np.ones((3, 4)),
        [[1]],
        [[0]],
        np.ones((5, 1)),
        [[0, 1, 0]],
        np.zeros((0, 3)),
        [[0, 0, 0], [1, 1, 1], [0, 1, 0]],
        np.ones((2, 30)),
    ],
)
@pytest.mark.parametrize("n_tastes", [1, 2, 9])
def test_odd_clicks_work(clicks, n_tastes):
    """Users with no click or all of them, one user, one item, nobody at all; more tastes than items."""
    data = make_taste_data(clicks)
    state, info = run(TasteSampler(data, n_tastes), 0, 20)
    n_users = data.user_start.size - 1
    assert info.n_visits >= np.count_nonzero(clicks)
    assert info.visits.shape == state.rates.shape == (n_users, n_tastes)
    assert info.visits.sum() == info.visits_per_taste.sum() == info.n_visits
    assert (np.sort(state.item_at, axis=1) == np.arange(data.n_items)).all()
    assert (state.rates > 0).all()
    assert all(np.isfinite(part).all() for part in state)
    assert np.isfinite(info.log_joint)
    assert not info.visits[np.diff(data.user_start) == 0].any()


@given(seed=st.integers(0, 2**32 - 1), a=st.sampled_from([1e-3, 0.1, 2.0]), b=st.sampled_from([1e-3, 1.0, 50.0]))
def test_every_clicked_item_is_visited_and_no_other(seed, a, b):
    """Also with rates that underflow, and with users who visit thousands of times."""
    clicks = np.random.default_rng(seed).random((4, 5)) < 0.5
    sampler = TasteSampler(make_taste_data(clicks), 3, TastePriors(a=a, b=b), seed=seed)
    _, info = run(sampler, 0, 3)
    assert (info.visits.sum(axis=1) >= clicks.sum(axis=1)).all()
    assert (info.visits.sum(axis=1)[~clicks.any(axis=1)] == 0).all()


@pytest.mark.parametrize(
    "settings", [{}, {"distance": "kendall"}, {"rank_scale": "log"}, {"effort": TasteEffort(passes=0)}]
)
def test_draws_are_a_function_of_seed_chain_and_sweep(settings):
    """The same again; on from a copy as if there had been no stop; another chain or seed, other draws."""

    def sampler(seed=4):
        priors = TastePriors(a=GammaPrior(2.0, 4.0))
        return TasteSampler(make_taste_data(CLICKS), 3, priors, seed=seed, **settings)

    whole, _ = run(sampler(), 1, 12)
    part, _ = run(sampler(), 1, 5)
    resumed, _ = run(sampler(), 1, 7, TasteState(*(x.copy() for x in part)), first=5)
    assert bytes_of(resumed) == bytes_of(whole)
    assert bytes_of(run(sampler(), 2, 12)[0]) != bytes_of(whole)
    assert bytes_of(run(sampler(5), 1, 12)[0]) != bytes_of(whole)


def test_threads_change_no_byte():
    sampler = TasteSampler(make_taste_data(CLICKS), 4, seed=2)
    alone = [bytes_of(run(sampler, chain, 10)[0]) for chain in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = [bytes_of(state) for state, _ in pool.map(lambda chain: run(sampler, chain, 10), range(4))]
    assert together == alone


def test_tastes_that_are_there_are_found():
    """Two groups of users with items of their own: almost all visits of a user go to one taste."""
    clicks = np.zeros((40, 10), bool)
    clicks[:20, :5], clicks[20:, 5:] = RNG.random((20, 5)) < 0.8, RNG.random((20, 5)) < 0.8
    sampler = TasteSampler(make_taste_data(clicks), 2, TastePriors(a=0.3), seed=0)
    state, info = run(sampler, 0, 50)
    of_taste = info.visits[:, 0] / info.visits.sum(axis=1)
    assert abs(of_taste[:20].mean() - of_taste[20:].mean()) > 0.7
    q = first_items_of(state, sampler.laws)
    np.testing.assert_allclose(q.sum(axis=0), 1.0)
    assert abs(q[:5, 0].sum() - q[:5, 1].sum()) > 0.5


@given(seed=st.integers(0, 2**32 - 1), n_tastes=st.integers(1, 6), a=st.sampled_from([0.05, 1.0]))
def test_a_mean_field_round_is_its_definition(seed, n_tastes, a):
    clicks = np.random.default_rng(seed).random((4, 5)) < 0.5
    data = make_taste_data(clicks)
    shares = random_shares(data.user_start, n_tastes, stream_key(seed), 1)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
    users, items = np.nonzero(clicks)
    slow, moved = shares.astype(float), 0.0
    for click, (user, item) in enumerate(zip(users, items, strict=True)):
        rest = np.delete(np.arange(len(users)), click)
        of_user = slow[rest[users[rest] == user]].sum(axis=0)
        of_item = slow[rest[items[rest] == item]].sum(axis=0)
        new = (of_user + a) * (of_item + 0.05) / (slow[rest].sum(axis=0) + 0.05 * 5)
        moved += 0.5 * np.abs(new / new.sum() - slow[click]).sum() / len(users)
        slow[click] = new / new.sum()
    counts = [np.empty(shape, np.float32) for shape in ((4, n_tastes), (5, n_tastes), n_tastes)]
    count_shares(data.user_start, data.user_items, shares, *counts)
    assert mean_field_round(data.user_start, data.user_items, a, shares, *counts) == pytest.approx(moved, abs=1e-5)
    np.testing.assert_allclose(shares, slow, rtol=1e-3, atol=1e-5)  # single precision
    count_shares(data.user_start, data.user_items, shares, *counts)
    np.testing.assert_allclose(counts[0].sum(axis=1), clicks.sum(axis=1), rtol=1e-5)


def test_mean_field_keeps_every_click():
    data = make_taste_data(CLICKS)
    of_user, of_item = mean_field(data, 3, 0.5, stream_key(0), 0)
    np.testing.assert_allclose(of_user.sum(axis=1), CLICKS.sum(axis=1), rtol=1e-4)
    np.testing.assert_allclose(of_item.sum(axis=1), CLICKS.sum(axis=0), rtol=1e-4)


@pytest.mark.parametrize("counts", [[30.0, 2.0, 0.0, 0.0], [3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
def test_the_start_takes_the_best_scale(counts):
    sampler = TasteSampler(make_taste_data(np.ones((1, 4))), 1)
    sampler.laws.make(np.arange(sampler.laws.alphas.size))
    log_prior = sampler.laws.log_prior(1.0)
    best = np.argmax(sampler.laws.log_law @ np.array(counts) + log_prior)
    assert best_scale(np.array(counts), sampler.laws, log_prior) == best


def test_a_taste_reaches_the_edge_of_the_grid():
    """All clicks on one item: with a prior that lets it, the taste becomes that item."""
    clicks = np.zeros((400, 5))
    clicks[:, 2] = 1
    sampler = TasteSampler(make_taste_data(clicks), 1, TastePriors(scale_rate=1e-9))
    state = sampler.start(0)
    seen = [run(sampler, 0, 1, state, sweep)[1].alpha[0] for sweep in range(400)]
    assert max(seen) == sampler.laws.alphas[-1]


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
@pytest.mark.parametrize("name", ["scale_rate", "a", "b"])
def test_priors_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name}.* must be a number above 0, but it is"):
        TastePriors(**{name: value})


def test_defaults_follow_the_sizes():
    assert TastePriors().first_a(40) == 0.1
    assert TastePriors().scale_rate_for(200) == 0.02
    assert TastePriors(a=GammaPrior(2, 4)).first_a(40) == 0.5
    with pytest.raises(ValueError, match="shape of a Gamma prior must be a number above 0"):
        GammaPrior(0, 1)
    with pytest.raises(ValueError, match="n_tastes must be a whole number, 1 or more, but it is 0"):
        TasteSampler(make_taste_data([[1]]), 0)
