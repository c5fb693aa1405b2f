"""PenalisedMF against its loss written out, against an explicit loop, and against ALS where they are the same."""

import numpy as np
import pytest
from experiments.methods import PenalisedMF, penalised_mf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

import bmcd
from bmcd import Clicks
from bmcd.baselines import ALS
from bmcd.testing import example_clicks


@pytest.fixture
def clicks():
    return example_clicks()


def loss(u, v, matrix, model, penalty):
    """Return the loss of the docstring, cell by cell."""
    popularity = matrix.sum(axis=0) / matrix.sum(axis=0).mean()
    score = u @ v.T
    fit = ((1 + model.alpha * matrix) * (matrix - score) ** 2).sum()
    return fit + model.regularization * ((u**2).sum() + (v**2).sum()) + penalty * (popularity * score**2).sum()


def slow_factors(matrix, others, alpha, regularization, cell_penalty):
    """Solve for the factors of one row after the other, with its diagonal matrix of weights written out."""
    factors = []
    for row, penalties in zip(matrix, cell_penalty, strict=True):
        weights = np.diag(1 + alpha * row + penalties)
        left = others.T @ weights @ others + regularization * np.eye(others.shape[1])
        factors.append(np.linalg.solve(left, others.T @ ((1 + alpha) * row)))
    return np.array(factors)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 4), st.floats(0, 20), st.floats(0.1, 50), st.floats(0, 10))
def test_rounds_are_those_of_the_slow_loop(seed, factors, alpha, regularization, penalty):
    rng = np.random.default_rng(seed)
    matrix = (rng.random((rng.integers(2, 12), rng.integers(2, 9))) < 0.4).astype(float)
    matrix[0, 0] = 1.0  # somebody clicks something
    popularity = matrix.sum(axis=0) / matrix.sum(axis=0).mean()
    cells = penalty * np.broadcast_to(popularity, matrix.shape)
    start = np.random.default_rng(seed).normal(size=(matrix.shape[1], factors))
    v = start / np.linalg.norm(start, axis=1, keepdims=True)
    for _ in range(2):
        u = slow_factors(matrix, v, alpha, regularization, cells)
        v = slow_factors(matrix.T, u, alpha, regularization, cells.T)
    model = PenalisedMF(factors, alpha=alpha, regularization=regularization, penalty=penalty, iterations=2)
    model.fit(Clicks.from_matrix(matrix), seed=seed)
    np.testing.assert_allclose(model.user_factors_, u, atol=1e-8)
    np.testing.assert_allclose(model.item_factors_, v, atol=1e-8)


def test_blocks_of_rows_make_no_difference(clicks, monkeypatch):
    together = PenalisedMF(3, regularization=1.0, iterations=3).fit(clicks)
    monkeypatch.setattr(penalised_mf, "BLOCK_NUMBERS", 50)
    apart = PenalisedMF(3, regularization=1.0, iterations=3).fit(clicks)
    np.testing.assert_allclose(together.user_factors_, apart.user_factors_, atol=1e-12)


@pytest.mark.parametrize("penalty", [0.0, 0.7])
def test_it_stands_still_where_its_loss_is_least(clicks, penalty):
    """Enough rounds end where the gradient is 0, for users and items alike; with another penalty it is not 0."""
    model = PenalisedMF(3, alpha=4.0, regularization=0.7, penalty=penalty, iterations=400).fit(clicks, seed=1)
    matrix, n = clicks.matrix.toarray().astype(float), clicks.n_users * model.factors
    at = np.concatenate([model.user_factors_.ravel(), model.item_factors_.ravel()])

    def steepest(penalty):
        def of(x):
            return loss(x[:n].reshape(-1, 3), x[n:].reshape(-1, 3), matrix, model, penalty)

        return np.abs(optimize.approx_fprime(at, of, 1e-7)).max()

    assert steepest(penalty) < 1e-2 < steepest(penalty + 0.1)


def test_without_a_penalty_it_is_als(clicks, require):
    """The loss has one least value on these clicks, which both find; factors may be turned, scores not."""
    require("implicit")
    options = {"alpha": 4.0, "regularization": 5.0, "iterations": 400}
    ours = PenalisedMF(2, penalty=0.0, **options).fit(clicks)
    theirs = ALS(2, **options).fit(clicks, n_threads=1)
    np.testing.assert_allclose(ours.scores_for(clicks), theirs.scores_for(clicks), atol=1e-4)


def test_people_get_what_the_last_half_round_gave_them(clicks):
    model = PenalisedMF(2, regularization=3.0, penalty=0.5, iterations=300).fit(clicks)
    np.testing.assert_allclose(model.scores_for(clicks), model.user_factors_ @ model.item_factors_.T, atol=1e-6)


def test_it_depends_on_its_seed_alone(clicks):
    one, again, other = (PenalisedMF(3, iterations=2).fit(clicks, seed=seed) for seed in (1, 1, 2))
    assert (one.user_factors_ == again.user_factors_).all()
    assert (one.user_factors_ != other.user_factors_).any()


def test_the_penalty_buys_coverage_with_hits():
    """On the shop's clicks; a step of the ladder is far more than what another seed changes."""
    train, test = bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)
    models = [PenalisedMF(16, penalty=penalty, iterations=15).fit(train) for penalty in (0.0, 1.0, 10.0)]
    found = [bmcd.evaluate(model.recommend(10), train, test) for model in models]
    coverages, accuracies = ([getattr(each, name) for each in found] for name in ("coverage", "accuracy"))
    assert (np.diff(coverages) > 0.03).all()
    assert accuracies[2] < accuracies[0] - 0.01
