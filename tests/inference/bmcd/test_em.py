import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

import bmcd
from bmcd.inference.bmcd.em import Mixture, fit_alpha, inherit_order, order_by, run_em
from bmcd.inference.bmcd.initial import initial_state
from bmcd.mallows import log_likelihood


def total_log_likelihood(clicks, mixture):
    own = log_likelihood(clicks, mixture.rho, mixture.alpha) + np.log(mixture.tau)
    return np.logaddexp.reduce(own, axis=1).sum()


@pytest.fixture(scope="module")
def simulated():
    return bmcd.simulate(n_users=150, n_items=20, consensuses=3, alpha=6.0, seed=4)


def test_weights_in_the_fit_of_alpha_stand_for_repeated_users(simulated):
    clicks, rho = simulated.clicks.matrix.toarray(), simulated.rho[0]
    weights = np.arange(len(clicks)) % 3
    repeated = fit_alpha(np.repeat(clicks, weights, axis=0), rho)
    assert fit_alpha(clicks, rho, weights=weights) == pytest.approx(repeated, rel=1e-6)
    assert fit_alpha(clicks, rho, weights=weights, around=repeated * 1.3) == pytest.approx(repeated, rel=0.05)


def test_alpha_is_the_papers_where_clicks_say_nothing():
    assert fit_alpha(np.array([[0, 0, 0], [1, 1, 1]]), rho=[1, 2, 3]) == 3.0


def test_em_climbs_from_a_poor_start(simulated):
    state = initial_state(simulated.clicks, 3, "popularity")
    before = Mixture(state.rho, state.alpha, state.tau)
    after, _ = run_em(simulated.clicks.matrix, before, 3, np.random.default_rng(0), "linear")
    gained = total_log_likelihood(simulated.clicks, after) - total_log_likelihood(simulated.clicks, before)
    assert gained > 50


@settings(max_examples=15)
@given(
    arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=8), elements=st.integers(0, 1)),
    st.integers(0, 99),
)
def test_em_never_lowers_the_likelihood(clicks, seed):
    matrix, rng = sparse.csr_array(clicks > 0), np.random.default_rng(seed)
    n_clusters = min(2, len(clicks))
    rho = order_by(rng.random((n_clusters, clicks.shape[1])), rng)
    before = Mixture(rho, np.full(n_clusters, 3.0), np.full(n_clusters, 1 / n_clusters))
    after, _ = run_em(matrix, before, 4, rng, "linear")
    assert total_log_likelihood(clicks, after) >= total_log_likelihood(clicks, before)


def test_latent_ranks_inherit_the_order_of_the_consensus_as_in_the_paper():
    assert inherit_order(np.array([[1, 0, 1, 0, 1]]), [1, 2, 3, 4, 5]).tolist() == [[1, 4, 2, 5, 3]]


@given(st.permutations(range(1, 7)), st.lists(st.integers(0, 1), min_size=6, max_size=6))
def test_inherit_order_against_sorting_each_user(rho, clicked):
    in_order = sorted(range(6), key=lambda item: (not clicked[item], rho[item]))
    assert inherit_order(np.array([clicked]), rho)[0].tolist() == [in_order.index(i) + 1 for i in range(6)]


def test_ties_are_broken_at_random():
    seen = {tuple(order_by([2, 2, 1], np.random.default_rng(seed))[0].tolist()) for seed in range(50)}
    assert seen == {(1, 2, 3), (2, 1, 3)}  # missing one has probability 2^-49
