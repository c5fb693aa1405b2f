import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bmcd.inference.bmcd.em import inherit_order, order_by


def test_latent_ranks_inherit_the_order_of_the_consensus_as_in_the_paper():
    assert inherit_order(np.array([[1, 0, 1, 0, 1]]), [1, 2, 3, 4, 5]).tolist() == [[1, 4, 2, 5, 3]]


@given(st.permutations(range(1, 7)), st.lists(st.integers(0, 1), min_size=6, max_size=6))
def test_inherit_order_against_sorting_each_user(rho, clicked):
    in_order = sorted(range(6), key=lambda item: (not clicked[item], rho[item]))
    assert inherit_order(np.array([clicked]), rho)[0].tolist() == [in_order.index(i) + 1 for i in range(6)]


def test_ties_are_broken_at_random():
    seen = {tuple(order_by([2, 2, 1], np.random.default_rng(seed))[0].tolist()) for seed in range(50)}
    assert seen == {(1, 2, 3), (2, 1, 3)}  # missing one has probability 2^-49
