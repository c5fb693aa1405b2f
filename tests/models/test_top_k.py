"""The best k of each user's items against a slow twin, which sorts them all."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bmcd.models.top_k import TIE, best_items

# Far apart, and nearer to each other than a tie.
some_scores = st.sampled_from([0.0, 0.4 * TIE, 0.8 * TIE, 1.7 * TIE, 0.3, 0.3 + 0.9 * TIE, 0.3 + 1.8 * TIE, 0.7])


def slow_best(score, available, k, id_order, second):
    """One user: all items sorted, cut into groups that are tied, each group sorted by second and id."""
    left = sorted(np.flatnonzero(available), key=lambda i: -score[i])
    groups = []
    for i in left:
        if groups and not score[groups[-1][0]] - score[i] > TIE:
            groups[-1].append(i)
        else:
            groups.append([i])
    best = [i for group in groups for i in sorted(group, key=lambda i: (second[i], id_order[i]))][:k]
    return best + [-1] * (min(k, score.size) - len(best))


@given(st.data(), st.integers(1, 12), st.integers(1, 4), st.integers(1, 14))
def test_lists_are_those_of_the_slow_twin(data, n_items, n_users, k):
    size = n_items * n_users
    score = np.array(data.draw(st.lists(some_scores, min_size=size, max_size=size))).reshape(n_users, n_items)
    second = np.array(data.draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))).reshape(score.shape)
    bits = data.draw(st.lists(st.sampled_from([True, True, False]), min_size=size, max_size=size))
    available = np.array(bits).reshape(score.shape)
    id_order = np.array(data.draw(st.permutations(range(n_items))))
    found = best_items(score, available, k, id_order, second.astype(float))
    for user in range(n_users):
        assert found[user].tolist() == slow_best(score[user], available[user], k, id_order, second[user])


def test_a_long_list_of_ties_goes_by_id():
    found = best_items(np.zeros((2, 50)), np.ones((2, 50), bool), 3, np.arange(50)[::-1])
    assert found.tolist() == [[49, 48, 47]] * 2
