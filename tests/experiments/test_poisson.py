"""Poisson factorisation against the article's updates written out, and its bound, which never falls."""

import numpy as np
import pytest
from experiments.methods import PoissonFactorisation
from experiments.methods.poisson import ACTIVITY_SHAPE, Factors, start, updated
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import digamma, gammaln
from tests.reference.tastes import race_integral

import bmcd
from bmcd import Clicks
from bmcd.testing import example_clicks


def random_clicks(seed):
    rng = np.random.default_rng(seed)
    matrix = rng.random((rng.integers(2, 15), rng.integers(2, 10))) < 0.4
    return sparse.csr_array(matrix.astype(float))


def slow_update(clicked, own, others, prior):
    """The article's updates, with the share of every factor in every click written out (figure 4 of it)."""
    n, n_factors = own.shape.shape
    shape = np.full((n, n_factors), prior)
    for row in range(n):
        for column in range(clicked.shape[1]):
            if clicked[row, column]:
                log_phi = digamma(own.shape[row]) - np.log(own.rate[row])
                log_phi = log_phi + digamma(others.shape[column]) - np.log(others.rate[column])
                shape[row] += np.exp(log_phi) / np.exp(log_phi).sum()
    activity_shape = ACTIVITY_SHAPE + n_factors * prior
    rate, activity_rate = np.empty((n, n_factors)), np.empty(n)
    for row in range(n):
        rate[row] = activity_shape / own.activity_rate[row] + (others.shape / others.rate).sum(axis=0)
        activity_rate[row] = ACTIVITY_SHAPE + (shape[row] / rate[row]).sum()
    return Factors(shape, rate, activity_rate)


def gamma_entropy(shape, rate):
    return (shape - np.log(rate) + gammaln(shape) + (1 - shape) * digamma(shape)).sum()


def prior_part(law, prior):
    """Return E log p - E log q of one side's factors and activities."""
    n, n_factors = law.shape.shape
    activity_shape = ACTIVITY_SHAPE + n_factors * prior
    activity, log_activity = activity_shape / law.activity_rate, digamma(activity_shape) - np.log(law.activity_rate)
    log_factor = digamma(law.shape) - np.log(law.rate)
    of_factors = prior * log_activity[:, None] - gammaln(prior) + (prior - 1) * log_factor
    of_factors -= activity[:, None] * law.shape / law.rate
    of_activity = ACTIVITY_SHAPE * np.log(ACTIVITY_SHAPE) - gammaln(ACTIVITY_SHAPE)
    of_activity = of_activity + (ACTIVITY_SHAPE - 1) * log_activity - ACTIVITY_SHAPE * activity
    entropy = gamma_entropy(law.shape, law.rate) + gamma_entropy(np.full(n, activity_shape), law.activity_rate)
    return of_factors.sum() + of_activity.sum() + entropy


def bound(clicked, users, items, user_shape, item_shape):
    """Return the lower bound of the log evidence, with the clicks split as is best for it."""
    matrix = clicked.toarray()
    geometric = users.geometric_mean @ items.geometric_mean.T
    clicks = np.log(geometric[matrix > 0]).sum() - users.mean.sum(axis=0) @ items.mean.sum(axis=0)
    return clicks + prior_part(users, user_shape) + prior_part(items, item_shape)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 5), st.floats(0.05, 3), st.floats(0.05, 3))
def test_a_round_is_that_of_the_slow_twin_and_never_lowers_the_bound(seed, factors, user_shape, item_shape):
    clicked = random_clicks(seed)
    shapes = (user_shape, item_shape)
    users, items = start(clicked, factors, *shapes, seed)
    # Before the first round activities and factors do not fit each other yet; any laws give a bound, though.
    before = bound(clicked, users, items, *shapes)
    for _ in range(4):
        expected = slow_update(clicked, users, items, user_shape)
        users = updated(clicked, users, items.mean, items.geometric_mean, user_shape)
        for ours, slow in zip(users, expected, strict=True):
            np.testing.assert_allclose(ours, slow, rtol=1e-9)
        between = bound(clicked, users, items, *shapes)
        assert between >= before - 1e-8 * abs(before)
        items = updated(clicked.T.tocsr(), items, users.mean, users.geometric_mean, item_shape)
        before = bound(clicked, users, items, *shapes)
        assert before >= between - 1e-8 * abs(between)


def test_the_bound_is_below_the_evidence_and_near_it_where_that_is_known():
    """One user, one item, one factor, no click: the evidence is an integral in four dimensions, drawn 400,000 x.

    Its standard error is below 0.001; the bound may not be above it by five of them, and is not far below.
    """
    clicked = sparse.csr_array((1, 1))
    users, items = start(clicked, 1, 2.0, 2.0, 0)
    for _ in range(200):
        users = updated(clicked, users, items.mean, items.geometric_mean, 2.0)
        items = updated(clicked, items, users.mean, users.geometric_mean, 2.0)
    rng = np.random.default_rng(0)
    activity = rng.gamma(ACTIVITY_SHAPE, 1 / ACTIVITY_SHAPE, (2, 400_000))
    with np.errstate(divide="ignore", over="ignore"):
        factor = rng.gamma(2.0, 1.0, activity.shape) / activity
    evidence = np.exp(-factor[0] * factor[1])
    error = evidence.std() / np.sqrt(evidence.size) / evidence.mean()
    reached = bound(clicked, users, items, 2.0, 2.0)
    assert reached <= np.log(evidence.mean()) + 5 * error
    assert reached > np.log(evidence.mean()) - 3.0


def test_planted_tastes_are_found():
    """Two groups of users click two groups of items; everybody is recommended what is left of their own group."""
    rng = np.random.default_rng(3)
    group = np.arange(60) % 2
    matrix = (rng.random((60, 20)) < 0.5) & (np.arange(20)[None, :] // 10 == group[:, None])
    clicks = Clicks.from_matrix(matrix)
    frame = PoissonFactorisation(2).fit(clicks).recommend(2)
    assert (frame["item"].to_numpy() // 10 == group[frame["user"].to_numpy()]).mean() > 0.95


def test_probabilities_are_those_of_the_race_and_of_the_frame():
    clicks = example_clicks()
    model = PoissonFactorisation(3, iterations=20).fit(clicks)
    probability, rates = model.probabilities(3), model.scores_for(clicks)
    row = 7
    free = ~clicks.matrix.toarray()[row]
    exact = race_integral(rates[row, free], 3)
    np.testing.assert_allclose(probability[row, free], exact, atol=0.02)  # race.py states the largest error
    assert (probability[row, ~free] == 0).all()
    left = np.minimum(3, (~clicks.matrix.toarray()).sum(axis=1))
    np.testing.assert_allclose(probability.sum(axis=1), left, atol=1e-9)
    for user, item, shown in model.recommend(3)[["user", "item", "probability"]].itertuples(index=False):
        place = clicks.rows_of([user])[0], clicks.columns_of([item])[0]
        assert shown == pytest.approx(probability[place], abs=1e-12)
    some = model.probabilities(3, users=clicks.users[[7, 2]])
    np.testing.assert_allclose(some, probability[[7, 2]], atol=1e-12)
    # Only these may be shown, but all others race with them.
    few = model.recommend(3, items=clicks.items[:2].tolist())
    assert few["probability"].max() <= probability[:, :2].max() + 1e-12


def test_what_is_promised_is_measured():
    train, test = bmcd.load_dataset("eshop").most_clicked(40).at_least(8).hold_out(4, seed=0)
    models = {"Poisson": PoissonFactorisation(5), "popularity": bmcd.baselines.Popularity()}
    entries = bmcd.compare(models, train, test, k=4, resamples=20).entries
    assert 0 < entries["Poisson"].evaluation.calibration.mean_probability < 1
    assert entries["popularity"].evaluation.calibration is None


def test_it_depends_on_its_seed_alone():
    clicks = example_clicks()
    one, again, other = (PoissonFactorisation(3).fit(clicks, seed=seed) for seed in (1, 1, 2))
    assert (one.item_factors_ == again.item_factors_).all()
    assert (one.item_factors_ != other.item_factors_).any()


def test_a_blend_weighs_its_probabilities():
    model = bmcd.Blend(PoissonFactorisation(2)).fit(example_clicks())
    assert "log probability" in model.weights_["feature"].tolist()
