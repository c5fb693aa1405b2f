"""From draws to probabilities: against the definition, and against ArviZ."""

import numpy as np
import pytest
from scipy import sparse

import bmcd
from bmcd.inference.bmcd.labels import power_of
from bmcd.inference.bmcd.next_items import (
    LEFT_OUT,
    MARGIN,
    REST,
    SCORED,
    add_predictions,
    fill_scores,
    keep_tables,
    log_scores,
    score_tables,
)
from bmcd.inference.mixture import make_data
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import Run
from bmcd.mallows import log_likelihood, top_probabilities
from bmcd.mallows.latent.scan import shared_tables
from bmcd.models.bmcd_predictor import FEW, PreparedDraws, standard_error

SHORT = Run(draws=6, warmup=3, chains=2, seed=3, progress=False)


@pytest.fixture(scope="module")
def clicks():
    return bmcd.simulate(n_users=60, n_items=12, consensuses=2, mean_clicks=3, seed=1).clicks


@pytest.fixture(scope="module")
def draws(clicks):
    return sample_posterior(clicks, 3, SHORT)


@pytest.mark.parametrize("scale", ["linear", "sqrt"])
def test_probabilities_are_the_average_over_draws(clicks, scale, monkeypatch):
    draws = sample_posterior(clicks, 3, SHORT, rank_scale=scale)
    k = 4
    expected, mean_rank = np.zeros((2, clicks.n_users, clicks.n_items))
    for chain in range(2):
        for draw in range(draws.n_draws):
            rho, alpha = draws.rho[chain, draw].astype(int), draws.alpha[chain, draw]
            weight = np.exp(log_likelihood(clicks, rho, alpha, rank_scale=scale)) * draws.tau[chain, draw]
            weight /= weight.sum(axis=1, keepdims=True)
            top = top_probabilities(clicks, rho, alpha, k, rank_scale=scale)
            expected += np.einsum("jic,jc->ji", top, weight) / (2 * draws.n_draws)
            mean_rank += weight @ rho / (2 * draws.n_draws)
    found = PreparedDraws(draws).predict(clicks.matrix, k)
    # Leaving clusters out changes no more than their share, and a user's probabilities still sum to k.
    np.testing.assert_allclose(found.probability, expected, atol=LEFT_OUT)
    np.testing.assert_allclose(found.probability.sum(axis=1), k, atol=REST)
    monkeypatch.setattr("bmcd.models.bmcd_predictor.LEFT_OUT", 0.0)
    found = PreparedDraws(draws).predict(clicks.matrix, k)
    np.testing.assert_allclose(found.probability, expected, atol=REST)
    np.testing.assert_allclose(found.tie_breaker, mean_rank, atol=1e-11)


def test_nothing_but_the_clicks_of_a_user_matters(clicks, draws):
    """Neither threads, nor the other users of a block, nor kept tables change a digit."""
    predictor = PreparedDraws(draws)
    whole = predictor.predict(clicks.matrix, 5, n_threads=1)
    for other in (predictor.predict(clicks.matrix, 5, n_threads=2), PreparedDraws(draws).predict(clicks.matrix, 5)):
        assert all(a.tobytes() == b.tobytes() for a, b in zip(whole, other, strict=True))
    assert clicks.n_users > FEW
    for user in (0, 17, 59):
        alone = predictor.predict(clicks.matrix[[user]], 5)  # with the tables kept
        assert all(a.tobytes() == b[user : user + 1].tobytes() for a, b in zip(alone, whole, strict=True))


def test_tables_that_do_not_fit_are_made_when_needed(clicks, draws, monkeypatch):
    expected = PreparedDraws(draws).predict(clicks.matrix[:3], 4)
    monkeypatch.setattr("bmcd.models.bmcd_predictor.KEPT_BYTES", 30_000)
    predictor = PreparedDraws(draws)
    found = predictor.predict(clicks.matrix[:3], 4)
    assert 0 < len(predictor._tables().beta) < predictor.n_draws
    assert found.probability.tobytes() == expected.probability.tobytes()


def test_clusters_and_contributions(clicks, draws):
    predictor = PreparedDraws(draws)
    member = predictor.memberships(clicks.matrix[:5])
    np.testing.assert_allclose(member.sum(axis=2), 1.0)
    whole = predictor.predict(clicks.matrix[[4]], 3)
    for item in np.flatnonzero(whole.probability[0])[:4]:
        weight, given = predictor.by_cluster(clicks.matrix[[4]], int(item), 3)
        np.testing.assert_array_equal(weight, member[:, 4])
        np.testing.assert_allclose((weight * given).sum(axis=1).mean(), whole.probability[0, item], atol=1e-12)


def test_draws_are_taken_evenly_and_equally_of_all_chains(draws):
    predictor = PreparedDraws(draws, max_draws=4)
    assert predictor.chosen.tolist() == [0, 5]
    np.testing.assert_array_equal(predictor.alpha[2:], draws.alpha[1, [0, 5]])
    assert PreparedDraws(draws, max_draws=1).n_draws == 2  # one of each chain
    assert PreparedDraws(draws, max_draws=None).n_draws == 12
    assert PreparedDraws(draws).n_draws == 12  # fewer than are enough
    with pytest.raises(ValueError, match="at least 1"):
        PreparedDraws(draws, max_draws=0)
    with pytest.raises(ValueError, match="whole number, 'auto', or None"):
        PreparedDraws(draws, max_draws="some")


@pytest.mark.parametrize(("model", "n_draws"), [(bmcd.BMCD(2), 20), (bmcd.Tastes(3), 40)])
def test_every_model_knows_how_many_draws_are_enough(clicks, model, n_draws):
    model.fit(clicks, draws=30, warmup=2, chains=2, seed=0)
    enough, asked = model.recommend(3), model.recommend(3, max_draws=n_draws)
    np.testing.assert_array_equal(enough["probability"], asked["probability"])
    assert not np.array_equal(enough["probability"], model.recommend(3, max_draws=2 * n_draws // 3)["probability"])


def test_standard_error_agrees_with_arviz():
    """Chains with autocorrelation: the standard error is close to the true one, and to ArviZ's, on average.

    Autocorrelation 0.5 at the edges of batches of 50 takes 2 % off; the larger of two estimates, one of them of 4
    chains only, is somewhat too large; the ratio of 200 problems together is known to 5 %. The seed is fixed.
    """
    from arviz_stats.base import array_stats

    rng = np.random.default_rng(0)
    values = np.zeros((200, 4, 250))
    for t in range(1, 250):
        values[:, :, t] = 0.5 * values[:, :, t - 1] + rng.normal(size=(200, 4))
    batches = values.reshape(200, 4, 5, 50).mean(axis=3)
    found = np.array([standard_error(of) for of in batches])
    arviz = np.array([float(array_stats.mcse(of, chain_axis=0, draw_axis=1, method="mean")) for of in values])
    truth = values.mean(axis=(1, 2)).std()
    assert 0.85 < np.sqrt((found**2).mean()) / truth < 1.25
    assert 0.85 < found.mean() / arviz.mean() < 1.25


def test_wrong_questions_to_the_draws_are_refused(clicks, draws):
    with pytest.raises(ValueError, match="12 items, but the clicks are on 3"):
        PreparedDraws(draws).predict(bmcd.Clicks.from_matrix(np.eye(3)).matrix, 2)
    counted = sample_posterior(clicks, 2, SHORT, distance="kendall", sampler="paper", count_k=(2,))
    assert counted.tally.shape == (2, 1, 60, 12)
    with pytest.raises(ValueError, match="count_k"):
        PreparedDraws(counted)


def test_memberships_alone_are_those_that_predictions_use():
    clicks = bmcd.simulate(60, 12, alpha=2.0, consensuses=3, seed=2).clicks
    model = bmcd.BMCD(3).fit(clicks, draws=8, warmup=5, chains=2, progress=False)
    predictor = PreparedDraws(model.draws_, None)
    users, data = np.arange(clicks.n_users), predictor._data(clicks.matrix)
    predictor.predict(clicks.matrix, 1)  # makes the scores
    probability, mean_rank = np.zeros((2, users.size, 12))
    weight = np.empty((predictor.n_draws, users.size, 3))
    add_predictions(
        users, data, predictor.rho, predictor.alpha, predictor.tau, predictor._none, predictor.shared,
        predictor._scores, 1, LEFT_OUT, 0, predictor.n_draws, probability, mean_rank, weight,
    )  # fmt: skip
    for n_threads in (1, 2):
        assert predictor.memberships(clicks.matrix, n_threads).tobytes() == weight.tobytes()


def predictions_of(clicks, rho, alpha, tau, scale, k, left_out, with_scores):
    """Probabilities from draws of (rho, alpha, tau): every cluster looked at, or those that scores let through."""
    data, (n_draws, n_clusters, n) = make_data(sparse.csr_array(clicks), scale), rho.shape
    shared = shared_tables(np.diff(data.scale))
    kept = keep_tables(shared, alpha, 0)
    powers = np.arange(power_of(n // 4) + 1)
    scores = score_tables(powers.size if with_scores else 0, n_draws, n, n_clusters)
    for s in range(n_draws if with_scores else 0):
        fill_scores(powers, rho, alpha, kept, shared, s, scores)
    users = np.arange(len(clicks))
    probability, mean_rank = np.zeros((2, *clicks.shape))
    weight = np.empty((n_draws, users.size, n_clusters))
    add_predictions(
        users, data, rho, alpha, tau, kept, shared, scores, k, left_out, 0, n_draws, probability, mean_rank, weight
    )
    return probability / n_draws, weight


@pytest.mark.chance(1e-3)
@pytest.mark.parametrize("scale", ["linear", "sqrt"])
@pytest.mark.parametrize("alphas", [(0.02, 1.0), (1.0, 8.0), (5.0, 60.0), (50.0, 200.0)])
def test_no_likelihood_exceeds_what_is_said_to_be_the_most(alphas, scale, rotating_seed):
    """By more than MARGIN less one, that is: for users who like a cluster and for users who like none."""
    rng = np.random.default_rng(rotating_seed)
    most = []
    for n in (8, 20, 60, 150):
        rho = np.array([[rng.permutation(n) + 1 for _ in range(6)]])
        alpha = np.exp(rng.uniform(*np.log(alphas), (1, 6)))
        n_clicked = rng.integers(1, int(SCORED * n) + 1, 40)
        liking = rng.choice([0.0, 0.02, 0.1, 0.3, 1.0, 3.0], (40, 1))
        appeal = -rho[0, rng.integers(0, 6, 40)] * liking + rng.gumbel(size=(40, n))
        clicks = np.argsort(np.argsort(-appeal, axis=1), axis=1) < n_clicked[:, None]
        data = make_data(sparse.csr_array(clicks), scale)
        shared = shared_tables(np.diff(data.scale))
        powers = np.arange(power_of(int(SCORED * n)) + 1)
        scores = score_tables(powers.size, 1, n, 6)
        fill_scores(powers, rho, alpha, keep_tables(shared, alpha, 0), shared, 0, scores)
        exact = log_likelihood(clicks, rho[0], alpha[0], rank_scale=scale)
        score, upper = np.empty((2, 6))
        for user in range(40):
            assert log_scores(user, data, 0, scores, score, upper)
            assert (upper > score - 1e-9).all()
            most.append((exact[user] - upper).max())
    assert max(most) < MARGIN - 1.0


def test_a_cluster_that_seemed_best_does_not_rule_out_the_others():
    """Scores of clusters with large alpha that a user does not fit are too high by tens. This hid the others."""
    for seed in (17, 31):
        test_what_is_left_out_is_at_most_what_is_stated((5.0, 60.0), "linear", seed)


@pytest.mark.chance(1e-4)
@pytest.mark.parametrize("scale", ["linear", "sqrt"])
@pytest.mark.parametrize("alphas", [(0.02, 1.0), (1.0, 8.0), (5.0, 60.0)])
def test_what_is_left_out_is_at_most_what_is_stated(alphas, scale, rotating_seed):
    """Clusters near to each other and far apart, from one click to nearly all, alpha below 1 included."""
    rng = np.random.default_rng(rotating_seed)
    n, n_clusters, n_draws = 60, 9, 3
    rho = np.array([[rng.permutation(n) + 1 for _ in range(n_clusters)] for _ in range(n_draws)])
    for c in range(1, n_clusters, 2):  # every other one is like the one before it
        rho[:, c] = rho[:, c - 1]
        rho[:, c, :20] = np.take_along_axis(rho[:, c, :20], rng.permuted(np.tile(np.arange(20), (3, 1)), axis=1), 1)
    alpha = np.exp(rng.uniform(*np.log(alphas), (n_draws, n_clusters)))
    tau = rng.dirichlet(np.full(n_clusters, 0.5), n_draws)
    n_clicked = np.r_[0, 1, 2, 59, 60, rng.integers(1, 60, 45)]
    appeal = -rho[0, rng.integers(0, n_clusters, 50)] * rng.uniform(0.0, 0.3, (50, 1)) + rng.gumbel(size=(50, n))
    clicks = np.argsort(np.argsort(-appeal, axis=1), axis=1) < n_clicked[:, None]
    whole, whole_weight = predictions_of(clicks, rho, alpha, tau, scale, 7, 0.0, False)
    found, weight = predictions_of(clicks, rho, alpha, tau, scale, 7, LEFT_OUT, True)
    if alphas[1] > 1.0:  # below, clusters are nearly alike
        assert whole_weight[weight == 0.0].sum() > 0.0  # something is left out
    assert np.where(weight == 0.0, whole_weight, 0.0).sum(axis=2).max() <= LEFT_OUT
    np.testing.assert_allclose(found, whole, atol=LEFT_OUT + REST)
    np.testing.assert_allclose(found.sum(axis=1), np.minimum(7, n - n_clicked), atol=REST)
