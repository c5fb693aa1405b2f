import warnings

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import bmcd
from bmcd.inference.bmcd.initial import STARTS, inherit_order, initial_state
from bmcd.mallows import log_likelihood


@st.composite
def click_matrices(draw):
    """Small click matrices, among them rows and columns that are empty or full, and rows that are all alike."""
    n_users, n_items = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    kind = draw(st.sampled_from(["any", "alike", "none", "all"]))
    if kind == "any":
        row = st.lists(st.integers(0, 1), min_size=n_items, max_size=n_items)
        return np.array(draw(st.lists(row, min_size=n_users, max_size=n_users)))
    if kind == "alike":
        return np.tile(draw(st.lists(st.integers(0, 1), min_size=n_items, max_size=n_items)), (n_users, 1))
    return np.full((n_users, n_items), int(kind == "all"))


def log_likelihood_of_start(clicks, state):
    own = log_likelihood(clicks, state.rho, state.alpha) + np.log(state.tau)
    return np.logaddexp.reduce(own, axis=1).sum()


@pytest.fixture(scope="module")
def simulated():
    return bmcd.simulate(n_users=150, n_items=20, consensuses=3, alpha=6.0, seed=4)


@settings(max_examples=30)
@given(click_matrices(), st.sampled_from(STARTS), st.data())
def test_every_start_is_a_state_that_agrees_with_the_clicks(clicks, start, data):
    n_users, n_items = clicks.shape
    n_clusters = data.draw(st.sampled_from(sorted({1, (n_users + 1) // 2, n_users})))
    em_rounds = data.draw(st.integers(0, 2))
    state = initial_state(clicks, n_clusters, start, em_rounds=em_rounds, seed=data.draw(st.integers(0, 99)))

    every_rank = np.arange(1, n_items + 1)
    assert state.rho.shape == (n_clusters, n_items)
    assert state.ranks.shape == (n_users, n_items)
    assert (np.sort(state.rho, axis=1) == every_rank).all()
    assert (np.sort(state.ranks, axis=1) == every_rank).all()
    assert ((state.ranks <= clicks.sum(axis=1, keepdims=True)) == (clicks > 0)).all()
    assert set(state.labels.tolist()) == set(range(n_clusters))
    assert state.alpha.shape == state.tau.shape == (n_clusters,)
    assert (state.alpha > 0).all()
    assert np.isfinite(state.alpha).all()
    assert (state.tau > 0).all()
    assert state.tau.sum() == pytest.approx(1.0)
    assert (state.alpha_step == 0.1).all()
    integers, floats = (state.rho, state.labels, state.ranks), (state.alpha, state.tau, state.alpha_step)
    assert all(array.dtype == np.int64 and array.flags.writeable for array in integers)
    assert all(array.dtype == np.float64 and array.flags.writeable for array in floats)


@pytest.mark.parametrize("start", STARTS)
def test_a_start_depends_on_seed_and_chain_and_on_nothing_else(simulated, start):
    first = initial_state(simulated.clicks, 3, start, em_rounds=1, seed=5, chain=1)
    again = initial_state(simulated.clicks, 3, start, em_rounds=1, seed=5, chain=1)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    for seed, chain in ((5, 2), (6, 1)):
        other = initial_state(simulated.clicks, 3, start, em_rounds=1, seed=seed, chain=chain)
        # Good starts may find the same clusters, in another order, and so the same consensuses.
        assert any((a != b).any() for a, b in zip(first, other, strict=True))


def test_the_number_of_threads_does_not_matter(simulated):
    many = initial_state(simulated.clicks, 3)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = initial_state(simulated.clicks, 3)
    finally:
        numba.set_num_threads(threads)
    assert all((a == b).all() for a, b in zip(one, many, strict=True))


@pytest.mark.parametrize("start", STARTS)
def test_clicks_may_come_as_clicks_or_any_matrix(simulated, start):
    matrix = simulated.clicks.matrix
    expected = initial_state(simulated.clicks, 2, start, em_rounds=1)
    signed = sparse.csc_array(matrix.astype(float) * np.where(np.arange(matrix.shape[1]) % 2, -2.5, 3.0))
    for given_as in (matrix, matrix.toarray(), matrix.toarray().astype(float), signed):
        state = initial_state(given_as, 2, start, em_rounds=1)
        assert all((a == b).all() for a, b in zip(expected, state, strict=True))


def test_the_callers_matrix_is_left_alone(simulated):
    matrix = simulated.clicks.matrix.astype(float)
    before = matrix.copy()
    initial_state(matrix, 2)
    assert (matrix != before).nnz == 0


def test_popularity_start_is_the_papers():
    rng = np.random.default_rng(0)
    # Click probabilities so far apart that the overall order of the counts is certain.
    clicks = rng.random((4000, 6)) < [0.9, 0.1, 0.7, 0.5, 0.3, 0.0]
    state = initial_state(clicks, 3, "popularity", seed=2)
    overall = [1, 5, 2, 3, 4, 6]
    assert (state.rho == overall).all()
    assert (state.alpha == 3.0).all()
    assert (state.ranks == inherit_order(clicks, overall)).all()


def test_consensus_counts_only_the_clicks_of_the_cluster():
    clicks = np.random.default_rng(1).random((200, 8)) < 0.4
    state = initial_state(clicks, 2, "popularity", seed=3)
    for c in range(2):
        counts = clicks[state.labels == c].sum(axis=0)
        assert (np.diff(counts[np.argsort(state.rho[c])]) <= 0).all()


def test_items_without_clicks_in_a_cluster_follow_the_overall_order():
    left, right = [1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1, 0]
    less = [0, 0, 0, 1, 1, 0, 0]
    clicks = np.array([left] * 20 + [right] * 20 + [less] * 10)
    state = initial_state(clicks, 2, em_rounds=0)
    rho = state.rho[state.labels[0]]
    assert set(rho[:3].tolist()) == {1, 2, 3}
    assert set(rho[3:5].tolist()) == {4, 5}
    assert rho[5:].tolist() == [6, 7]


@pytest.mark.parametrize("rank_scale", ["linear", "sqrt"])
def test_alpha_maximises_the_exact_likelihood(simulated, rank_scale):
    clicks, grid = simulated.clicks.matrix, np.exp(np.linspace(np.log(0.05), np.log(40.0), 60))
    state = initial_state(clicks, 3, em_rounds=0, rank_scale=rank_scale)
    for c in range(3):
        alphas = np.append(grid, state.alpha[c] * np.array([0.99, 1.0, 1.01]))
        rho = np.tile(state.rho[c], (alphas.size, 1))
        totals = log_likelihood(clicks[state.labels == c], rho, alphas, rank_scale=rank_scale).sum(axis=0)
        assert totals.argmax() == alphas.size - 2


def test_tau_is_the_share_of_the_users(simulated):
    state = initial_state(simulated.clicks, 3)
    assert state.tau == pytest.approx((np.bincount(state.labels) + 1) / (simulated.clicks.n_users + 3))


def test_clusters_that_are_far_apart_are_found():
    rho = np.array([np.arange(1, 31), np.arange(30, 0, -1)])
    simulated = bmcd.simulate(n_users=300, n_items=30, consensuses=rho, alpha=20.0, seed=1)
    agree = (initial_state(simulated.clicks, 2, em_rounds=1).labels == simulated.labels).mean()
    assert max(agree, 1 - agree) == 1.0


def test_warm_starts_are_likelier_than_the_papers(simulated):
    # The difference is hundreds of units of log-likelihood, for any seed.
    cold, warm = (
        log_likelihood_of_start(simulated.clicks, initial_state(simulated.clicks, 3, start, em_rounds=0))
        for start in ("popularity", "kmeans")
    )
    assert cold + 100 < warm


def test_batches_of_users_give_a_start_as_well(simulated, monkeypatch):
    monkeypatch.setattr("bmcd.inference.bmcd.kmeans.MANY_USERS", 50)
    state = initial_state(simulated.clicks, 3, em_rounds=0)
    assert set(state.labels.tolist()) == {0, 1, 2}


def test_no_warning_when_there_are_fewer_different_users_than_clusters():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = initial_state(np.tile([1, 0, 1, 0], (30, 1)), 7)
    assert np.bincount(state.labels, minlength=7).min() >= 1


def test_an_unknown_start_is_refused():
    with pytest.raises(ValueError, match="start is 'k-means': choose one of kmeans, popularity, random"):
        initial_state(np.eye(4), 2, "k-means")
