"""Equal probabilities: the user's own groups decide, then the id."""

import numpy as np
import pytest

import bmcd
from bmcd.errors import ShortListWarning
from bmcd.models.bmcd_predictor import count_predictions

N = 12
UP = np.arange(1, N + 1)


@pytest.fixture(scope="module")
def opposed():
    """Return a model of two opposed clusters; item i has rank i + 1 in the first."""
    clicks = bmcd.simulate(300, N, consensuses=[UP, UP[::-1]], alpha=25.0, mean_clicks=3.0, seed=1).clicks
    return bmcd.BMCD(2).fit(clicks, draws=20, warmup=20, chains=2, seed=1)


def test_each_user_has_the_order_of_the_own_cluster(opposed):
    """With k = all that is left every probability is 1, so that the lists are ties from top to bottom.

    The consensus of both clusters together has no order: there the smaller id would be first for everybody.
    """
    for history, order in (([0, 1], range(2, N)), ([N - 1, N - 2], range(N - 3, -1, -1))):
        found = opposed.recommend_for([history], k=N - 2)
        assert np.allclose(found["probability"], 1.0)
        assert found["item"].tolist()[:4] == list(order)[:4]


def test_tastes_have_the_order_of_the_next_click():
    clicks = bmcd.simulate(300, N, consensuses=[UP, UP[::-1]], alpha=25.0, mean_clicks=3.0, seed=1).clicks
    model = bmcd.Tastes(5, chains=2).fit(clicks, draws=2, warmup=20, seed=1)
    users = clicks.users[clicks.per_user == 2][:20]
    law = model.probabilities(k=1, users=users)
    with pytest.warns(ShortListWarning):
        found = model.recommend(k=N - 1, users=users)
    for row, (_, own) in zip(law, found.groupby("user", sort=False), strict=True):
        assert np.allclose(own["probability"], 1.0)
        order = own["item"].to_numpy()
        assert (np.diff(row[order]) <= 0).all()
        assert order.tolist() != sorted(order)


def test_counted_probabilities_go_by_the_users_own_counts_for_the_other_k():
    clicks = bmcd.simulate(40, N, consensuses=[UP, UP[::-1]], alpha=10.0, mean_clicks=3.0, seed=1).clicks
    model = bmcd.BMCD(2, distance="kendall", sampler="paper")
    model.fit(clicks, draws=20, warmup=20, chains=2, seed=1, count_k=[2, 6])
    rows = np.arange(40)
    second = count_predictions(model.draws_, clicks.matrix, rows, 2).tie_breaker
    counts = model.draws_.tally.sum(axis=(0, 1))
    one, two = np.unravel_index(np.argsort(second, axis=1), second.shape)[1][:, [0, -1]].T
    assert (counts[rows, one] > counts[rows, two]).all()
    same = counts[:, :, None] == counts[:, None, :]
    apart = np.abs(second[:, :, None] - second[:, None, :])
    assert apart[same].max() < 1  # the consensus decides only where all counts are equal
    assert apart[~same].min() > 0
