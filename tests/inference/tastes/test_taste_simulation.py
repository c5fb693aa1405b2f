import numpy as np
import pytest
from scipy import stats

import bmcd
from bmcd.errors import InputError
from bmcd.inference.tastes import simulation
from bmcd.inference.tastes.simulation import click_probabilities, simulate_tastes


def probability_of_none(found):
    """Of clicking nothing at all, the rates summed out."""
    return (found.b / (found.b + 1.0)) ** (found.a * found.n_tastes)


@pytest.mark.chance(1e-4)
def test_items_and_pairs_are_clicked_as_often_as_the_model_says(rotating_seed, monkeypatch, times):
    monkeypatch.setattr(simulation, "CHUNK", 7_000)  # several chunks, the last one smaller
    n_users, n_items = 30_000 * times, 12
    found = simulate_tastes(
        n_users, n_items, n_tastes=3, alpha=[2.0, 10.0, 30.0], mean_clicks=3, seed=rotating_seed
    )
    clicked, some = found.clicks.matrix.toarray(), 1.0 - probability_of_none(found)
    q = found.first_items.T
    single = click_probabilities(q, found.a, found.b)
    either = np.array([[click_probabilities(q[:, [i]] + q[:, [j]], found.a, found.b)[0] for j in range(n_items)]
                       for i in range(n_items)])  # fmt: skip
    both = single[:, None] + single - either
    np.fill_diagonal(both, single)
    expected, seen = both / some, clicked.T.astype(float) @ clicked / n_users
    z = (seen - expected) / np.sqrt(expected * (1 - expected) / n_users)
    # 78 numbers; a false alarm in one of 10,000 runs.
    assert np.abs(z).max() < stats.norm.isf(1e-4 / 2 / 78)
    assert single.sum() == pytest.approx(3)


def test_every_user_has_a_click_and_the_same_seed_gives_the_same():
    one, again, other = (simulate_tastes(500, 40, n_tastes=4, mean_clicks=0.5, seed=seed) for seed in (1, 1, 2))
    assert one.clicks.per_user.min() >= 1
    assert one.clicks == again.clicks
    assert one.clicks != other.clicks
    assert (np.sort(one.rho, axis=1) == np.arange(1, 41)).all()
    np.testing.assert_allclose(one.first_items.sum(axis=0), 1.0)
    best = one.first_items.argmax(axis=0)
    assert (one.rho[np.arange(4), best] == 1).all()


def test_the_clicks_are_a_table_like_any_other():
    found = simulate_tastes(200, 30, n_tastes=3, mean_clicks=4, seed=3)
    assert found.clicks == bmcd.Clicks.from_matrix(found.clicks.matrix)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_users": 0}, "n_users must be a whole number, 1 or more, but it is 0"),
        ({"n_tastes": 2.5}, "n_tastes must be a whole number"),
        ({"a": -1}, "a must be a positive number, but it is -1"),
        ({"mean_clicks": 50}, "between 0 and the number of items, 50, but it is 50"),
        ({"mean_clicks": 49.9, "alpha": 1e4}, "more than users of these tastes can click"),
    ],
)
def test_wrong_numbers_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        simulate_tastes(**{"n_users": 10, "n_items": 50, "n_tastes": 3, **wrong})
