import numpy as np
import pytest

import bmcd
from bmcd.inference.bmcd.kmeans import kmeans_inertia


@pytest.fixture(scope="module")
def simulated():
    return bmcd.simulate(n_users=150, n_items=20, consensuses=3, alpha=6.0, seed=4)


def test_inertia_falls_to_zero_as_every_different_user_gets_a_cluster():
    clicks = np.repeat(np.eye(5), 3, axis=0)
    inertia = kmeans_inertia(clicks, [5, 1, 3])
    assert list(inertia) == [5, 1, 3]
    # One cluster: 15 users, each at squared distance 1 - 1/5 from the mean.
    assert inertia[1] == pytest.approx(12.0, rel=1e-5)
    assert inertia[1] > inertia[3] > inertia[5] == pytest.approx(0.0, abs=1e-5)
    assert inertia == kmeans_inertia(clicks, [5, 1, 3])


def test_inertia_of_a_candidate_does_not_depend_on_the_others(simulated):
    both = kmeans_inertia(simulated.clicks, [2, 3])
    assert kmeans_inertia(simulated.clicks, [3])[3] == both[3]
