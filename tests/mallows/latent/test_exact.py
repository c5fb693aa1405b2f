"""Exact sums over latent rankings: against enumeration, against the slow twin, and in their laws."""

import itertools
import math
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.reference.mallows import probabilities_enumerated, slow_log_likelihood, slow_top_probabilities

from bmcd.clicks.log import Clicks
from bmcd.mallows.latent import log_likelihood, sample_latent, top_probabilities
from bmcd.mallows.rank_scale import scale_values

pytestmark = pytest.mark.chance(0)

ALPHAS = [0.0, 1e-9, 0.3, 1.0, 3.0, 10.0, 40.0, 200.0]
SCALES = ["linear", "sqrt", "log"]
quick_500 = settings(max_examples=max(500, settings().max_examples))


@st.composite
def problems(draw, max_items):
    """Clicks of one user, a consensus, alpha, k and a rank scale."""
    n = draw(st.integers(1, max_items))
    clicked = draw(st.sets(st.integers(0, n - 1)))
    rho = np.array(draw(st.permutations(range(1, n + 1))))
    k = draw(st.integers(1, n + 2))
    return n, sorted(clicked), rho, draw(st.sampled_from(ALPHAS)), k, draw(st.sampled_from(SCALES))


def row(n, clicked):
    matrix = np.zeros((1, n), dtype=bool)
    matrix[0, clicked] = True
    return matrix


@given(problem=problems(5))
def test_against_enumeration(problem):
    n, clicked, rho, alpha, k, scale = problem
    law = probabilities_enumerated(tuple(rho.tolist()), alpha, "footrule", scale_values(n, scale).tolist())
    compatible = {r: p for r, p in law.items() if all(r[i] <= len(clicked) for i in clicked)}
    total = math.fsum(compatible.values())
    assume(total > 1e-250)  # beyond that the enumeration itself runs out of floats
    likelihood = log_likelihood(row(n, clicked), rho, alpha, rank_scale=scale)
    assert likelihood[0, 0] == pytest.approx(math.log(total), rel=1e-10, abs=1e-12)
    top = top_probabilities(row(n, clicked), rho, alpha, k, rank_scale=scale)[0, :, 0]
    for item in range(n):
        exact = math.fsum(p for r, p in compatible.items() if r[item] <= len(clicked) + k) / total
        assert top[item] == pytest.approx(0.0 if item in clicked else exact, abs=1e-10)


@quick_500
@given(problem=problems(40))
def test_likelihood_against_the_slow_twin(problem):
    n, clicked, rho, alpha, _, scale = problem
    fast = log_likelihood(row(n, clicked), rho, alpha, rank_scale=scale)[0, 0]
    slow = slow_log_likelihood({int(rho[i]) for i in clicked}, scale_values(n, scale), alpha)
    assert fast == pytest.approx(slow, rel=1e-10, abs=1e-10)


@quick_500
@given(problem=problems(12))
def test_top_probabilities_against_the_slow_twin(problem):
    n, clicked, rho, alpha, k, scale = problem
    fast = top_probabilities(row(n, clicked), rho, alpha, k, rank_scale=scale)[0, :, 0]
    slow = slow_top_probabilities({int(rho[i]) for i in clicked}, scale_values(n, scale), alpha, k)
    np.testing.assert_allclose(fast, slow[rho - 1], atol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0, 30.0, 100.0])
def test_at_full_size_against_the_slow_twin(alpha, rotating_seed):
    """n = 200 and clicks of every kind: where trimming by the forward message alone goes wrong by more than 1."""
    n, rng = 200, np.random.default_rng(rotating_seed)
    patterns = [
        np.arange(n - 9, n),  # only the worst ones
        np.r_[0:4, n - 4 : n],  # best and worst
        rng.choice(n, 12, replace=False),
        rng.choice(n, 120, replace=False),
        np.arange(60, 90),
    ]
    clicks = np.zeros((len(patterns), n), dtype=bool)
    for user, pattern in enumerate(patterns):
        clicks[user, pattern] = True
    fast = log_likelihood(clicks, np.arange(1, n + 1), alpha)[:, 0]
    slow = [slow_log_likelihood(set((p + 1).tolist()), scale_values(n), alpha) for p in patterns]
    np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("size", [20, 40, 60, 100])
def test_clicks_on_the_worst_items_where_alpha_is_small(size, alpha):
    """Nearly all of the forward message is in states that can no longer close."""
    n = 200
    for first in (n - size, n - size - 10, n // 3):
        clicks = row(n, np.arange(first, first + size))
        fast = log_likelihood(clicks, np.arange(1, n + 1), alpha)[0, 0]
        slow = slow_log_likelihood(set(range(first + 1, first + size + 1)), scale_values(n), alpha)
        assert fast == pytest.approx(slow, rel=1e-11)
        assert top_probabilities(clicks, np.arange(1, n + 1), alpha, 10).sum() == pytest.approx(10, abs=1e-9)


@pytest.mark.parametrize("n", [30, 200, 500])
def test_without_alpha_all_unclicked_items_are_alike(n, rotating_seed):
    """alpha = 0 has closed forms at full size, for every kind of clicks: a window that is too narrow shows here."""
    rng = np.random.default_rng(rotating_seed)
    clicks = np.zeros((40, n), bool)
    for user, size in enumerate(rng.integers(1, n, 40)):
        chosen = rng.choice(n, size, replace=False, p=(p := np.arange(1, n + 1) ** (user % 4)) / p.sum())
        clicks[user, chosen] = True
    n_clicked = clicks.sum(axis=1)
    rho = np.arange(1, n + 1)
    expected = [-math.log(math.comb(n, c)) for c in n_clicked.tolist()]
    np.testing.assert_allclose(log_likelihood(clicks, rho, 0.0)[:, 0], expected, rtol=1e-10)
    top = top_probabilities(clicks, rho, 0.0, 10)[:, :, 0]
    alike = np.minimum(10 / (n - n_clicked), 1.0)[:, None] * ~clicks
    np.testing.assert_allclose(top, alike, atol=1e-10)


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 3.0, 30.0, 300.0])
def test_probabilities_of_a_user_sum_to_k(n, alpha, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    n_clicked = rng.integers(0, n + 1, 40)
    clicks = np.array([rng.permutation(n) < c for c in n_clicked])
    for k, scale in [
        (1, "linear"),
        (10, "sqrt"),
        (n // 3, "linear"),
        (3 * n // 4, "sqrt"),
        (n - 1, "log"),
        (n, "log"),
    ]:
        top = top_probabilities(clicks, rng.permutation(n) + 1, alpha, k, rank_scale=scale)[:, :, 0]
        np.testing.assert_allclose(top.sum(axis=1), np.minimum(k, n - n_clicked), atol=1e-9)
        assert top.min() >= 0.0
        assert top.max() <= 1.0
        assert not top[clicks].any()


def test_all_click_sets_of_a_size_have_probability_one():
    n, rho = 9, np.random.default_rng(0).permutation(9) + 1
    for c in range(n + 1):
        sets = np.array([np.isin(np.arange(n), chosen) for chosen in itertools.combinations(range(n), c)])
        for alpha in (0.0, 4.0, 200.0):
            assert np.exp(log_likelihood(sets, rho, alpha)).sum() == pytest.approx(1.0, rel=1e-12)


def test_skipped_favourites_are_tied():
    """Unclicked items at consensus ranks <= c + 1 are exchangeable."""
    n, clicked = 30, [0, 2, 7, 20, 25]
    top = top_probabilities(row(n, clicked), np.arange(1, n + 1), 5.0, 4)[0, :, 0]
    assert top[1] == top[3] == top[4] == pytest.approx(top[5], rel=1e-12)
    assert top[5] > top[6] + 1e-4


def test_names_of_items_do_not_matter():
    rng = np.random.default_rng(1)
    clicks, rho, shuffle = rng.random((20, 15)) < 0.3, rng.permutation(15) + 1, rng.permutation(15)
    plain = top_probabilities(clicks, rho, 3.0, 4)
    np.testing.assert_array_equal(top_probabilities(clicks[:, shuffle], rho[shuffle], 3.0, 4), plain[:, shuffle])


def test_nothing_and_everything_clicked_and_one_item():
    for n in (1, 2, 7):
        nobody, everybody = np.zeros((1, n), bool), np.ones((1, n), bool)
        rho = np.arange(1, n + 1)
        assert log_likelihood(nobody, rho, 3.0)[0, 0] == 0.0
        assert log_likelihood(everybody, rho, 3.0)[0, 0] == 0.0
        assert top_probabilities(nobody, rho, 3.0, 1).sum() == pytest.approx(1.0)
        assert not top_probabilities(everybody, rho, 3.0, 1).any()
        assert sorted(sample_latent(everybody, rho, 3.0)[0]) == rho.tolist()


def test_clusters_and_users_are_computed_alone():
    rng = np.random.default_rng(2)
    clicks = rng.random((70, 12)) < 0.3
    rho = np.stack([rng.permutation(12) + 1 for _ in range(3)])
    alpha = [0.0, 2.0, 9.0]
    together, top = log_likelihood(clicks, rho, alpha), top_probabilities(clicks, rho, alpha, 3)
    assert together.shape == (70, 3)
    assert top.shape == (70, 12, 3)
    for c in range(3):
        np.testing.assert_array_equal(log_likelihood(clicks, rho[c], alpha[c])[:, 0], together[:, c])
        np.testing.assert_array_equal(top_probabilities(clicks[5:6], rho[c], alpha[c], 3)[0, :, 0], top[5, :, c])


def test_every_kind_of_clicks_is_taken():
    dense = np.array([[1, 0, 0, 2], [0, 0, 0, 0]])
    rho = [2, 1, 4, 3]
    expected = log_likelihood(dense, rho, 1.0)
    as_clicks = Clicks.from_matrix(dense)
    for form in (dense.astype(float), dense != 0, dense.tolist(), sparse.coo_array(dense), as_clicks):
        np.testing.assert_array_equal(log_likelihood(form, rho, 1.0), expected)


@pytest.fixture
def many_users():
    """1,200 users, enough for several threads, and three clusters."""
    rng = np.random.default_rng(3)
    clicks, rho = rng.random((1200, 40)) < 0.2, np.stack([rng.permutation(40) + 1 for _ in range(3)])
    return clicks, rho, rng.integers(0, 3, 1200)


def bytes_of_all_sums(many_users, n_threads=None):
    clicks, rho, labels = many_users
    results = (
        log_likelihood(clicks, rho, 3.0, n_threads=n_threads),
        top_probabilities(clicks, rho, 3.0, 5, n_threads=n_threads),
        sample_latent(clicks, rho, 3.0, labels, seed=1, n_threads=n_threads),
    )
    return [result.tobytes() for result in results]


@pytest.mark.parametrize("n_threads", [2, 8, None])
def test_the_number_of_threads_changes_no_byte(many_users, n_threads):
    assert bytes_of_all_sums(many_users, n_threads) == bytes_of_all_sums(many_users, 1)


def test_eight_callers_at_once_get_the_same_bytes(many_users):
    alone = bytes_of_all_sums(many_users)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda _: bytes_of_all_sums(many_users), range(8)))
    assert together == [alone] * 8


def _send_bytes(connection, many_users):
    connection.send(bytes_of_all_sums(many_users))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_process_that_has_used_threads_may_fork(many_users):
    """With numba's parallel loops on GNU OpenMP the child would hang, or be killed."""
    in_parent = bytes_of_all_sums(many_users, 2)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_send_bytes, args=(there, many_users))
    child.start()
    in_child = here.recv() if here.poll(60) else "no answer within a minute"
    child.kill()
    child.join()
    assert in_child == in_parent


@pytest.mark.chance(1e-5)
@pytest.mark.parametrize("clicked", [[], [0], [3], [0, 2], [2, 4], [1, 3, 4], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("scale", ["linear", "sqrt"])
def test_draws_have_the_right_law(clicked, scale, rotating_seed, p_value, times):
    """False alarm 1e-6 for each of 14."""
    rho, alpha, size = (3, 1, 4, 5, 2), 4.0, 20_000 * times
    law = probabilities_enumerated(rho, alpha, "footrule", scale_values(5, scale).tolist())
    compatible = {r: p for r, p in law.items() if all(r[i] <= len(clicked) for i in clicked)}
    total = sum(compatible.values())
    clicks = np.repeat(row(5, clicked), size, axis=0)
    draws = sample_latent(clicks, rho, alpha, seed=rotating_seed, rank_scale=scale)
    assert p_value(draws, {r: p / total for r, p in compatible.items()}) > 1e-6


@pytest.mark.chance(1e-5)
def test_draws_agree_with_the_probabilities_at_full_size(rotating_seed, times):
    """Each of 200 frequencies within 5.5 standard errors: false alarm below 1e-5 in all."""
    n, size, k = 200, 20_000 * times, 10
    rng = np.random.default_rng(rotating_seed)
    clicked, rho = rng.choice(n, 9, replace=False), rng.permutation(n) + 1
    exact = top_probabilities(row(n, clicked), rho, 8.0, k)[0, :, 0]
    draws = sample_latent(np.repeat(row(n, clicked), size, axis=0), rho, 8.0, seed=rotating_seed)
    assert (np.sort(draws, axis=1) == np.arange(1, n + 1)).all()
    assert (draws[:, clicked] <= 9).all()
    frequency = ((draws <= 9 + k) & (draws > 9)).mean(axis=0)
    error = np.sqrt(exact * (1 - exact) / size)
    assert (np.abs(frequency - exact) <= 5.5 * error + 1e-9).all()


def test_draws_of_labelled_users():
    clicks = np.zeros((6, 5), bool)
    rho = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    draws = sample_latent(clicks, rho, [1e6, 1e6], labels=[0, 1, 0, 1, 1, 0])
    np.testing.assert_array_equal(draws, rho[[0, 1, 0, 1, 1, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rho": [1, 2, 2]}, "rho"),
        ({"rho": [0, 1, 2]}, "ranks start at 1"),
        ({"rho": [1, 2, 3, 4]}, "3 items"),
        ({"alpha": -1.0}, "0 or more"),
        ({"alpha": np.nan}, "finite"),
        ({"alpha": [1.0, 2.0]}, "1 clusters"),
        ({"clicks": [1, 0, 1]}, "users x items"),
        ({"clicks": [[1.0, np.nan, 0.0]]}, "user 0, item 1"),
        ({"clicks": np.zeros((2, 0))}, "at least one item"),
        ({"rank_scale": "cube"}, "not known"),
    ],
)
def test_refusals(change, message):
    given_ = {"clicks": [[1, 0, 0]], "rho": [1, 2, 3], "alpha": 1.0, "rank_scale": "linear"} | change
    with pytest.raises(ValueError, match=message):
        log_likelihood(**given_)
    with pytest.raises(ValueError, match=message):
        top_probabilities(k=1, **given_)
    with pytest.raises(ValueError, match=message):
        sample_latent(**given_)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3"])
def test_a_wrong_k_is_refused(k):
    with pytest.raises(ValueError, match="k must be a whole number"):
        top_probabilities([[1, 0]], [1, 2], 1.0, k)


@pytest.mark.parametrize(
    ("labels", "message"),
    [(None, "pass labels"), ([0], "one for each user"), ([0.0, 1.0], "whole numbers"), ([0, 2], "user 1 has 2")],
)
def test_wrong_labels_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        sample_latent([[1, 0], [0, 1]], [[1, 2], [2, 1]], 1.0, labels)


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True])
def test_a_wrong_number_of_threads_is_refused(n_threads):
    with pytest.raises(ValueError, match="n_threads must be a whole number"):
        log_likelihood([[1, 0]], [1, 2], 1.0, n_threads=n_threads)
