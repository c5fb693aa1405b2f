"""The measures against numbers worked out by hand, other libraries' numbers, and a slow twin."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score
from sklearn.metrics.pairwise import cosine_similarity

import bmcd
from bmcd import Clicks, evaluate


def test_every_measure_by_hand(full_lists):
    """Clicks in train: a 4, f 3, b 2, i 2, c d e g h 1 each; 16 in all."""
    evaluation = evaluate(*full_lists, n_popular=6)
    assert (evaluation.k, evaluation.n_users, evaluation.n_users_with_list, evaluation.n_items) == (3, 5, 5, 9)
    assert (evaluation.n_recommendations, evaluation.n_hits, evaluation.n_unclicked) == (15, 7, 0)
    assert evaluation.accuracy == pytest.approx(7 / 15)
    assert evaluation.coverage == pytest.approx(8 / 9)  # all but i
    assert evaluation.correct_coverage == pytest.approx(5 / 9)  # d, b, a, c, h
    # b and f: 1 of 2 and 3 users; b and d: 1 of 2 and 1; c and g, e and h: the same user; a and b: 2 of 4 and 2;
    # a and c: 1 of 4 and 1.
    pairs = [0, 1 / math.sqrt(6) + 1 / math.sqrt(2), 1, 2 / math.sqrt(8) + 1 / 2, 1]
    assert evaluation.intra_list_similarity == pytest.approx(sum(pairs) / 5)
    f = math.log2(16 / 3)
    assert evaluation.novelty == pytest.approx((4 + (3 + f + 4) / 3 + (f + 8) / 3 + 3 + 11 / 3) / 5)
    # Popular: a f b i c d; rare ones recommended: e to u1, g to u3, e and h to u5.
    assert (evaluation.n_rare, evaluation.n_users_with_rare) == (4, 3)
    assert evaluation.rare_share == pytest.approx(4 / 15)
    assert evaluation.users_with_rare_share == pytest.approx(3 / 5)
    assert evaluation.precision == pytest.approx(7 / 15)
    assert evaluation.recall == pytest.approx((1 / 2 + 1 + 0 + 1 + 1) / 5)
    assert evaluation.mrr == pytest.approx((1 / 2 + 1 + 0 + 1 + 1 / 3) / 5)
    second, third = 1 / math.log2(3), 1 / 2
    two = 1 + second
    assert evaluation.ndcg == pytest.approx((second / two + (1 + third) / two + 0 + 1 + third) / 5)
    assert evaluation.calibration is None


def test_other_libraries_say_the_same(full_lists):
    """ranx 0.3.21 and RecTools 0.19.0 (precision to MRR), recmetrics 0.1.5 (the rest); asked once."""
    evaluation = evaluate(*full_lists)
    assert evaluation.precision == pytest.approx(0.4666666666666667)
    assert evaluation.recall == pytest.approx(0.7)
    assert evaluation.ndcg == pytest.approx(0.5613147192765459)  # RecTools with divide_by_achievable=True
    assert evaluation.mrr == pytest.approx(0.5666666666666667)
    assert evaluation.coverage == pytest.approx(0.8888888888888888)  # RecTools' CatalogCoverage, too
    # recmetrics averages over the three pairs of a list; RecTools' IntraListDiversity gives the same.
    assert evaluation.intra_list_similarity == pytest.approx(3 * 0.2881641235224638)
    # With the number of clicks in place of its number of users.
    assert evaluation.novelty == pytest.approx(3.4553383332371794)


def test_short_lists_and_users_without_either(ragged_lists):
    evaluation = evaluate(*ragged_lists, k=3)
    assert (evaluation.n_users, evaluation.n_users_with_list) == (4, 3)
    assert (evaluation.n_recommendations, evaluation.n_hits) == (4, 1)
    assert evaluation.accuracy == pytest.approx(1 / 4)  # over recommendations, cem's included, not over users
    assert evaluation.precision == pytest.approx(1 / 3 / 4)
    assert evaluation.recall == pytest.approx((1 / 2 + 0 + 0) / 3)  # dot counts as 0, cem not at all
    assert evaluation.ndcg == pytest.approx(1 / (1 + 1 / math.log2(3)) / 3)
    assert evaluation.mrr == pytest.approx(1 / 4)
    # a has 3 of 4 clicks, b 1; c, which nobody clicked, counts as clicked once.
    assert evaluation.novelty == pytest.approx(((2 + 2) / 2 + 2 + math.log2(4 / 3)) / 3)
    assert evaluation.n_unclicked == 1
    assert evaluation.intra_list_similarity == 0  # c was clicked by nobody
    assert evaluation.users.tolist() == ["ann", "bob", "cem", "dot"]
    assert evaluation.n_relevant.tolist() == [2, 1, 0, 1]
    assert evaluation.items.n_popular == 1  # a fifth of 5
    assert (evaluation.n_rare, evaluation.n_users_with_rare) == (3, 2)
    assert evaluation.users_with_rare_share == pytest.approx(2 / 3)


def test_k_is_the_longest_list_unless_given(ragged_lists):
    assert evaluate(*ragged_lists).k == 2
    assert evaluate(*ragged_lists).precision == pytest.approx(1 / 2 / 4)


def test_counts_by_popularity(full_lists):
    table = evaluate(*full_lists, n_popular=6).items.to_frame()
    # From the least clicked on; of equally clicked ones, the earlier is the more popular.
    assert table["item"].tolist() == ["h", "g", "e", "d", "c", "i", "b", "f", "a"]
    assert table["clicks"].tolist() == [1, 1, 1, 1, 1, 2, 2, 3, 4]
    assert table["recommended"].tolist() == [1, 1, 2, 2, 3, 0, 3, 2, 1]
    assert table["hits"].tolist() == [1, 0, 0, 2, 1, 0, 2, 0, 1]
    assert table["rare"].tolist() == [True] * 3 + [False] * 6


@pytest.mark.parametrize(("n_items", "popular"), [(200, 40), (6, 2), (1, 1)])
def test_a_fifth_of_the_items_is_popular_unless_given(n_items, popular):
    train = Clicks.from_matrix(np.eye(2, n_items), users=["u", "v"])
    test = Clicks.from_matrix([[0] * n_items, [1] + [0] * (n_items - 1)], users=["u", "v"])
    evaluation = evaluate(pd.DataFrame({"user": ["v"], "item": [0], "rank": [1]}), train, test)
    assert evaluation.items.n_popular == popular


def simulation() -> bmcd.Simulation:
    """Two users: the first clicked item 0 and likes 1, 2, ... next; the second clicked 4 and 3."""
    ranks = np.array([[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    clicks = Clicks.from_matrix([[1, 0, 0, 0, 0], [0, 0, 0, 1, 1]], users=["ann", "bob"], items=list("abcde"))
    return bmcd.Simulation(clicks, ranks, np.zeros(2, int), ranks[:1], np.ones(1))


@pytest.mark.parametrize(
    ("k", "items", "hits"),
    [(1, "bc", 2), (1, "cb", 0), (2, "cdba", 2), (2, "cbba", 3), (3, "edba", 3)],
)
def test_against_a_true_ranking_a_hit_has_rank_at_most_clicked_plus_k(k, items, hits):
    sim = simulation()
    users = np.repeat(["ann", "bob"], k)
    if k == 3:  # lists of 2: k cannot be seen from them
        users = np.repeat(["ann", "bob"], 2)
    ranks = np.tile(np.arange(1, len(users) // 2 + 1), 2)
    frame = pd.DataFrame({"user": users, "item": list(items), "rank": ranks})
    evaluation = evaluate(frame, sim.clicks, sim, k=k)
    assert evaluation.n_hits == hits
    assert evaluation.n_relevant.tolist() == [k, min(k, 3)]


def test_a_simulation_needs_k_when_lists_differ_in_length():
    sim = simulation()
    frame = pd.DataFrame({"user": ["ann", "ann", "bob"], "item": ["b", "c", "c"], "rank": [1, 2, 1]})
    with pytest.raises(ValueError, match="Pass k"):
        evaluate(frame, sim.clicks, sim)
    assert evaluate(frame, sim.clicks, sim, k=2).n_hits == 3
    assert evaluate(frame[:2], sim.clicks, sim).k == 2


def test_a_simulation_must_be_the_one_trained_on():
    sim = simulation()
    other = Clicks.from_matrix([[0, 1, 0, 0, 0], [0, 0, 0, 1, 1]], users=["ann", "bob"], items=list("abcde"))
    frame = pd.DataFrame({"user": ["ann"], "item": ["c"], "rank": [1]})
    with pytest.raises(ValueError, match=r"must be simulation\.clicks"):
        evaluate(frame, other, sim)


def by_definition(lists, train, test, k, popular):
    """Every measure as its definition reads, by loops."""
    users, items = range(len(train)), range(len(train[0]))
    clicked = [sum(train[u][i] for u in users) for i in items]
    total = sum(clicked)
    rows = [(u, i) for u in lists for i in lists[u]]
    hits = [(u, i) for u, i in rows if test[u][i]]
    relevant = {u: sum(test[u]) for u in users}
    served = [u for u in users if lists.get(u)]
    evaluated = [u for u in users if lists.get(u) or relevant[u]]
    tested = [u for u in users if relevant[u]]
    by_clicks = sorted(items, key=lambda i: (-clicked[i], i))
    rare = set(by_clicks[popular:])

    def cosine(a, b):
        both = sum(train[u][a] and train[u][b] for u in users)
        return both / math.sqrt(clicked[a] * clicked[b]) if both else 0.0

    def gain(own, u):
        return sum(1 / math.log2(r + 1) for r, i in enumerate(own, 1) if test[u][i])

    def best(u):
        return sum(1 / math.log2(r + 1) for r in range(1, min(k, relevant[u]) + 1))

    def first(u):
        return max((1 / r for r, i in enumerate(lists.get(u, []), 1) if test[u][i]), default=0.0)

    def mean(values):
        values = list(values)
        return sum(values) / len(values)

    return {
        "accuracy": len(hits) / len(rows),
        "coverage": len({i for _, i in rows}) / len(items),
        "correct_coverage": len({i for _, i in hits}) / len(items),
        "intra_list_similarity": mean(sum(cosine(a, b) for a, b in combinations(lists[u], 2)) for u in served),
        "novelty": mean(mean(abs(math.log2(max(clicked[i], 1) / total)) for i in lists[u]) for u in served),
        "rare_share": mean(i in rare for _, i in rows),
        "users_with_rare_share": mean(any(i in rare for i in lists[u]) for u in served),
        "precision": mean(sum(test[u][i] for i in lists.get(u, [])) / k for u in evaluated),
        "recall": mean(sum(test[u][i] for i in lists.get(u, [])) / relevant[u] for u in tested),
        "ndcg": mean(gain(lists.get(u, []), u) / best(u) for u in tested),
        "mrr": mean(first(u) for u in evaluated),
    }


@st.composite
def problems(draw):
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(2, 7))
    k = draw(st.integers(1, n_items))
    # 0 nothing, 1 clicked in train, 2 clicked in test
    state = st.lists(st.sampled_from([0, 0, 1, 2]), min_size=n_items, max_size=n_items)
    states = np.array(draw(st.lists(state, min_size=n_users, max_size=n_users)))
    states[0, :2] = [1, 2]  # so that both have a click, and one item can be recommended
    lists = {}
    for user in range(n_users):
        free = np.flatnonzero(states[user] != 1).tolist()
        length = draw(st.integers(1 if user == 0 else 0, min(k, len(free))))
        lists[user] = draw(st.permutations(free))[:length]
    return states == 1, states == 2, lists, k, draw(st.integers(1, n_items))


@given(problems())
def test_the_measures_are_their_slow_twins(problem):
    train, test, lists, k, popular = problem
    rows = [(u, i, r) for u, own in lists.items() for r, i in enumerate(own, 1)]
    frame = pd.DataFrame(rows, columns=["user", "item", "rank"])
    evaluation = evaluate(frame, Clicks.from_matrix(train), Clicks.from_matrix(test), k=k, n_popular=popular)
    expected = by_definition(lists, train.tolist(), test.tolist(), k, popular)
    assert {name: getattr(evaluation, name) for name in expected} == pytest.approx(expected)
    for name, measure in evaluation.per_user.items():
        assert measure.value == pytest.approx(expected[name])


@pytest.mark.chance(0)
def test_scikit_learn_says_the_same_at_full_size(rotating_seed):
    """NDCG, and cosines, of 300 users with 5 recommendations of 30 items."""
    rng = np.random.default_rng(rotating_seed)
    n_users, n_items, k = 300, 30, 5
    state = rng.permuted(np.repeat([[0, 1, 2]], n_users, axis=0).repeat([18, 6, 6], axis=1), axis=1)
    score = rng.random((n_users, n_items)) + 0.3 * (state == 2)
    score[state == 1] = -1
    items = np.argsort(-score, axis=1)[:, :k]
    frame = pd.DataFrame({"user": np.repeat(np.arange(n_users), k), "item": items.ravel()})
    frame["rank"] = np.tile(np.arange(1, k + 1), n_users)
    evaluation = evaluate(frame, Clicks.from_matrix(state == 1), Clicks.from_matrix(state == 2))
    assert evaluation.ndcg == pytest.approx(ndcg_score(state == 2, score, k=k))
    cosine = cosine_similarity((state == 1).T.astype(float))
    sums = [sum(cosine[a, b] for a, b in combinations(own, 2)) for own in items.tolist()]
    assert evaluation.intra_list_similarity == pytest.approx(np.mean(sums))
