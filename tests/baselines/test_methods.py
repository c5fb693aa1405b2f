"""Each method against hand-computed cases, and against its definition written in another way."""

import sys

import numpy as np
import pytest
from scipy import optimize
from sklearn.metrics.pairwise import cosine_similarity

from bmcd import Clicks
from bmcd.baselines import ALS, EASE, ItemKNN, Popularity, UserKNN
from bmcd.baselines.item_knn import keep_nearest
from bmcd.testing import example_clicks

# Four users, four items: a and b go together, c and d go together, and one user has a alone.
SMALL = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0]])


@pytest.fixture
def small():
    return Clicks.from_matrix(SMALL, users=["u", "v", "w", "x"], items=list("abcd"))


@pytest.fixture
def clicks():
    return example_clicks()


def scores(model, clicks):
    """All scores, users x items, straight from the model."""
    return model.fit(clicks)._scores(np.arange(clicks.n_users))


def test_popularity_counts_clicks(small):
    frame = Popularity().fit(small).recommend(3, users=["x", "w"])
    assert frame["item"].tolist() == ["b", "c", "d", "a", "b"]
    assert frame["score"].tolist() == [2, 1, 1, 3, 2]


def test_item_neighbours_by_hand(small):
    # a: 3 clicks, b: 2, together 2; 2 / sqrt(6)
    frame = ItemKNN(neighbours=1).fit(small).recommend(1, users=["x"])
    assert frame["item"].tolist() == ["b"]
    assert frame["score"].tolist() == pytest.approx([2 / np.sqrt(6)])


def test_user_neighbours_by_hand(small):
    # x has a; u and v have a and b: cosine 1 / sqrt(2) each
    one, both = (UserKNN(neighbours=n).fit(small).recommend(1, users=["x"]) for n in (1, 2))
    assert one["item"].tolist() == both["item"].tolist() == ["b"]
    assert one["score"].tolist() == pytest.approx([1 / np.sqrt(2)])
    assert both["score"].tolist() == pytest.approx([2 / np.sqrt(2)])


@pytest.mark.parametrize("neighbours", [1, 4, 100])
def test_neighbours_are_those_of_scikit_learns_cosine(clicks, neighbours):
    matrix = clicks.matrix.toarray().astype(float)
    for model, similarity in (
        (UserKNN(neighbours), cosine_similarity(matrix)),
        (ItemKNN(neighbours), cosine_similarity(matrix.T)),
    ):
        np.fill_diagonal(similarity, 0)
        ids = clicks.users if isinstance(model, UserKNN) else clicks.items
        for row in similarity:
            order = sorted(range(len(row)), key=lambda i: (-round(row[i], 9), ids[i]))
            row[order[neighbours:]] = 0
        expected = similarity @ matrix if isinstance(model, UserKNN) else matrix @ similarity.T
        np.testing.assert_allclose(scores(model, clicks), expected, atol=1e-9)


def test_as_many_neighbours_are_kept_as_were_asked_for():
    rng = np.random.default_rng(0)
    similarity = rng.integers(1, 4, (30, 11)) / 3
    for n in (1, 3, 10, 11, 20):
        kept = keep_nearest(similarity, n, rng.permutation(11))
        assert ((kept > 0).sum(axis=1) == min(n, 11)).all()
        assert (np.sort(kept, axis=1)[:, ::-1] == np.sort(similarity, axis=1)[:, ::-1] * (np.arange(11) < n)).all()


def test_ease_by_hand(small):
    # Gram matrix of a and b with 1 added: [[4, 2], [2, 3]], so b is predicted from a with 2 / 4.
    model = EASE(regularization=1.0).fit(small)
    np.testing.assert_allclose(model.weights_[:2, :2], [[0, 2 / 4], [2 / 3, 0]], atol=1e-12)
    np.testing.assert_allclose(model.weights_[:2, 2:], 0, atol=1e-12)


@pytest.mark.parametrize("regularization", [0.5, 30.0])
def test_ease_is_ridge_regression_of_each_item_on_the_others(clicks, regularization):
    matrix = clicks.matrix.toarray().astype(float)
    weights = EASE(regularization).fit(clicks).weights_
    for item in range(clicks.n_items):
        others = np.delete(np.arange(clicks.n_items), item)
        x = matrix[:, others]
        ridge = np.linalg.solve(x.T @ x + regularization * np.eye(len(others)), x.T @ matrix[:, item])
        np.testing.assert_allclose(weights[others, item], ridge, atol=1e-10)
        assert weights[item, item] == 0


@pytest.fixture
def als(require, clicks):
    require("implicit")
    return ALS(factors=3, alpha=4.0, regularization=0.7, iterations=300).fit(clicks, seed=1, n_threads=1)


def loss(u, v, matrix, alpha, theta):
    confidence = 1 + alpha * matrix
    return (confidence * (matrix - u @ v.T) ** 2).sum() + theta * ((u**2).sum() + (v**2).sum())


def test_item_factors_of_als_solve_their_least_squares(als, clicks):
    """Items are solved for last, so given the users their normal equations hold exactly, with 1 + alpha."""
    matrix, u = clicks.matrix.toarray().astype(float), als.user_factors_
    for item in range(clicks.n_items):
        confidence = np.diag(1 + als.alpha * matrix[:, item])
        left = u.T @ confidence @ u + als.regularization * np.eye(als.factors)
        v = np.linalg.solve(left, u.T @ confidence @ matrix[:, item])
        np.testing.assert_allclose(als.item_factors_[item], v, atol=1e-8)


def test_als_stands_still_where_the_papers_loss_is_least(als, clicks):
    """Enough turns end where the gradient of the loss is 0, for users and items alike."""
    matrix, n = clicks.matrix.toarray().astype(float), clicks.n_users * als.factors
    at = np.concatenate([als.user_factors_.ravel(), als.item_factors_.ravel()])

    def of(x):
        return loss(x[:n].reshape(-1, 3), x[n:].reshape(-1, 3), matrix, als.alpha, als.regularization)

    gradient = optimize.approx_fprime(at, of, 1e-7)
    assert np.abs(gradient).max() < 1e-2 < np.abs(optimize.approx_fprime(at * 1.01, of, 1e-7)).max()


def test_als_depends_on_its_seed_alone(require, clicks):
    require("implicit")
    one, again, other = (ALS(3, iterations=2).fit(clicks, seed=seed) for seed in (1, 1, 2))
    assert (one.user_factors_ == again.user_factors_).all()
    assert (one.user_factors_ != other.user_factors_).any()


def test_without_implicit_the_error_says_what_to_install(clicks, monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)
    monkeypatch.setitem(sys.modules, "implicit.cpu", None)
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(ImportError, match=r'pip install "bmcd\[baselines\]"'):
        ALS().fit(clicks)
