"""Methods that only the studies use: the contract of baselines, and Diffusion against hand-computed cases."""

from itertools import product

import numpy as np
import pytest
from experiments.methods import Diffusion, PenalisedMF, PoissonFactorisation

from bmcd import Clicks
from bmcd.testing import check_recommender, example_clicks


@pytest.fixture
def clicks():
    return example_clicks()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Diffusion(0.3),
        lambda: PenalisedMF(2, regularization=2.0, penalty=0.5, iterations=5),
        lambda: PoissonFactorisation(3, iterations=20),
    ],
)
def test_the_contract_is_kept(make):
    check_recommender(make)


@pytest.mark.parametrize(
    "model",
    [
        Diffusion(1.5),
        Diffusion("half"),
        PenalisedMF(penalty=-0.1),
        PenalisedMF(regularization=0),
        PoissonFactorisation(user_shape=0.0),
        PoissonFactorisation(item_shape=float("inf")),
    ],
)
def test_invalid_settings_are_errors(model, clicks):
    with pytest.raises(ValueError, match="must be"):
        model.fit(clicks)


def scores(model, clicks):
    """All scores, users x items, straight from the model."""
    return model.fit(clicks).scores_for(clicks)


# A click graph of three users and three items, and where the units go: by hand, from the article's definitions.
GRAPH = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])


@pytest.mark.parametrize(
    ("mixing", "expected"),
    [
        # From b, half goes to each of users 0 and 1, who halve it: a and c get 1/4 each, b keeps 1/2.
        # From a, all goes to user 0, who halves it. From c, half goes to user 1, half stays with user 2.
        (1.0, [[1 / 2, 1 / 4, 0], [1 / 2, 1 / 2, 1 / 4], [0, 1 / 4, 3 / 4]]),
        # Heat: users take the mean of their items, items the mean of their users; the transpose.
        (0.0, [[1 / 2, 1 / 2, 0], [1 / 4, 1 / 2, 1 / 4], [0, 1 / 4, 3 / 4]]),
    ],
)
def test_diffusion_at_its_ends_by_hand(mixing, expected):
    model = Diffusion(mixing).fit(Clicks.from_matrix(GRAPH))
    np.testing.assert_allclose(model.weights_.toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("mixing", [0.0, 0.3, 1.0])
def test_diffusion_is_the_articles_formula(clicks, mixing):
    a = clicks.matrix.toarray().astype(int)
    of_user, of_item = a.sum(axis=1), a.sum(axis=0)
    weight = np.zeros((clicks.n_items, clicks.n_items))
    for i, j in product(range(clicks.n_items), repeat=2):
        shared = sum(a[u, i] * a[u, j] / of_user[u] for u in range(clicks.n_users))
        weight[i, j] = shared / (of_item[i] ** (1 - mixing) * of_item[j] ** mixing)
    np.testing.assert_allclose(scores(Diffusion(mixing), clicks), a @ weight.T, atol=1e-9)


def test_probability_spreading_loses_nothing(clicks):
    total = scores(Diffusion(1.0), clicks).sum(axis=1)
    np.testing.assert_allclose(total, clicks.matrix.sum(axis=1), atol=1e-9)
