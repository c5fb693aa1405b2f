"""Limits that cannot be kept: who is to blame, and by how much."""

from itertools import chain, combinations

import numpy as np
import pytest

import bmcd
from bmcd.errors import ExposureError
from bmcd.evaluation.exposure import FlowProblem, blame_caps, blame_floors, read_limits

ITEMS = list("abcd")


def clicks_of(*rows):
    return bmcd.Clicks.from_matrix([[i in own for i in ITEMS] for own in rows], items=ITEMS)


def rerank(clicks, k, **limits):
    return bmcd.rerank(np.zeros(clicks.matrix.shape), k, clicks=clicks, **limits)


def test_a_floor_that_one_item_cannot_reach():
    clicks = clicks_of("a", "a", "b", "b", "c")
    with pytest.raises(
        ExposureError, match=r"item 'a' should be shown to 4 users, but only 3 have not clicked it: 1"
    ):
        rerank(clicks, 2, min_exposure={"a": 4, "d": 5})
    with pytest.raises(ExposureError) as caught:
        rerank(clicks, 2, min_exposure={"a": 5, "b": 4})
    assert caught.value.items == ["a", "b"]
    assert caught.value.shortfall == 3


def test_floors_that_are_too_many():
    with pytest.raises(ExposureError, match=r"add up to 8, but 3 users with k=2 get 6 recommendations: 2 too few"):
        rerank(clicks_of("a", "b", ""), 2, min_exposure=2)


def test_caps_that_are_too_low():
    with pytest.raises(ExposureError, match=r"get 6 recommendations, .* only 4 times under their caps: 2 too few"):
        rerank(clicks_of("a", "b", ""), 2, max_exposure=1)


def test_floors_that_stand_in_each_others_way():
    """Two users can see a or b, one each, and three should see them."""
    clicks = clicks_of("cd", "cd", "ab", "ab")
    with pytest.raises(
        ExposureError, match=r"2 items 'a', 'b' should be shown 3 times .* only 2 of .*: 1 too"
    ) as caught:
        rerank(clicks, 1, min_exposure={"a": 1, "b": 2})
    assert caught.value.items == ["a", "b"]
    assert caught.value.shortfall == 1


def test_caps_that_leave_a_user_without():
    """Three users have only d left."""
    clicks = clicks_of("abc", "abc", "abc", "a")
    with pytest.raises(ExposureError, match=r"3 users .* need 3 .* item 'd', .* allow only 2: 1 too few") as caught:
        rerank(clicks, 1, max_exposure={"d": 2})
    assert caught.value.items == ["d"]


def test_a_floor_above_a_cap():
    with pytest.raises(ExposureError, match=r"item 'b' \(2 above 1\)"):
        rerank(clicks_of("a", "a", "a"), 2, min_exposure={"b": 2}, max_exposure=1)
    with pytest.raises(ExposureError, match=r"item 'b' \(4 above 3\)"):
        rerank(clicks_of("a", "a", "a"), 2, min_exposure={"b": 4})


def test_more_items_than_can_be_shown():
    with pytest.raises(ExposureError, match=r"4 different items, but at most 3 can be shown .*: 1 too few"):
        rerank(clicks_of("a", "a"), 2, min_coverage=4)
    with pytest.raises(ExposureError, match=r"at most 2 can .* Lower min_coverage"):
        rerank(clicks_of("a", "a"), 1, min_coverage=0.75)


def floors_lack(low, available, demand, items):
    """How many recommendations these items lack to reach their floors, by Hall's condition."""
    return low[items].sum() - np.minimum(demand, available[:, items].sum(axis=1)).sum()


def caps_lack(high, available, demand, items):
    """How many recommendations of these items the users need beyond the caps, by Hall's condition."""
    others = np.delete(available, items, axis=1).sum(axis=1)
    return np.maximum(demand - others, 0).sum() - high[items].sum()


@pytest.mark.chance(1e-6)
def test_a_cut_has_the_largest_shortfall_of_all_sets_of_items(make_problem, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    sets = [list(s) for s in chain.from_iterable(combinations(range(5), n) for n in range(6))]
    n_explained = {blame_floors: 0, blame_caps: 0}
    for _ in range(80):
        random_problem = make_problem(rng, n_users=6, n_items=5, k=2, spread=2)
        low, high = rng.integers(0, 4, (2, 5))  # apart from each other
        available, demand = ~random_problem.clicks.matrix.toarray(), random_problem.demand()
        limits = read_limits(random_problem.clicks, {}, 0)._replace(low=low, high=high)
        problem = FlowProblem(*np.nonzero(available), demand, limits)
        for explain, lack, limit in ((blame_floors, floors_lack, low), (blame_caps, caps_lack, high)):
            error = explain(problem, np.arange(5))
            largest = max(lack(limit, available, demand, items) for items in sets)
            assert (0 if error is None else error.shortfall) == largest
            if error is not None:
                n_explained[explain] += 1
                assert lack(limit, available, demand, error.items) == error.shortfall  # the items named explain it
    assert min(n_explained.values()) > 0
