"""Limits that cannot be kept: who is to blame, and by how much."""

from itertools import chain, combinations

import numpy as np
import pytest

import bmcd
from bmcd.errors import ExposureError
from bmcd.exposure.flow import Problem
from bmcd.exposure.limits import Limits
from bmcd.exposure.shortfall import _caps_together, _floors_together

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
    with pytest.raises(ExposureError) as found:
        rerank(clicks, 2, min_exposure={"a": 5, "b": 4})
    assert found.value.items == ["a", "b"]
    assert found.value.shortfall == 3


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
    ) as found:
        rerank(clicks, 1, min_exposure={"a": 1, "b": 2})
    assert found.value.items == ["a", "b"]
    assert found.value.shortfall == 1


def test_caps_that_leave_a_user_without():
    """Three users have only d left."""
    clicks = clicks_of("abc", "abc", "abc", "a")
    with pytest.raises(ExposureError, match=r"3 users .* need 3 .* item 'd', .* allow only 2: 1 too few") as found:
        rerank(clicks, 1, max_exposure={"d": 2})
    assert found.value.items == ["d"]


def test_a_floor_above_a_cap():
    with pytest.raises(ExposureError, match=r"item 'b' \(2 above 1\)"):
        rerank(clicks_of("a", "a", "a"), 2, min_exposure={"b": 2}, max_exposure=1)
    with pytest.raises(ExposureError, match=r"item 'b' \(4 above 3\)"):
        rerank(clicks_of("a", "a", "a"), 2, min_exposure={"b": 4})


def test_more_items_than_can_be_shown():
    with pytest.raises(ExposureError, match=r"4 different items, but at most 3 can be shown .*: 1 too few"):
        rerank(clicks_of("a", "a"), 2, min_coverage=4)
    with pytest.raises(ExposureError, match="at most 2 can"):
        rerank(clicks_of("a", "a"), 1, min_coverage=0.75)


def test_a_cut_has_the_largest_shortfall_of_all_sets(problems, rotating_seed):
    """Against Hall's condition for every set of items."""
    rng = np.random.default_rng(rotating_seed)
    seen = {"floors": 0, "caps": 0}
    for _ in range(80):
        own = problems(rng, n_users=6, n_items=5, k=2, spread=2)
        own = own._replace(low=rng.integers(0, 4, 5), high=rng.integers(0, 4, 5))  # apart from each other
        available, demand = ~own.clicks.matrix.toarray(), own.demand()
        problem = Problem(available, demand, Limits(own.low, own.high, 0))
        sets = [list(s) for s in chain.from_iterable(combinations(range(5), n) for n in range(6))]
        most = {
            "floors": max(own.low[s].sum() - np.minimum(demand, available[:, s].sum(axis=1)).sum() for s in sets),
            "caps": max(
                np.maximum(demand - np.delete(available, s, axis=1).sum(axis=1), 0).sum() - own.high[s].sum()
                for s in sets
            ),
        }
        for name, explain in (("floors", _floors_together), ("caps", _caps_together)):
            error = explain(problem, np.arange(5))
            assert (0 if error is None else error.shortfall) == most[name]
            if error is not None:
                seen[name] += 1
                s = error.items
                if name == "floors":
                    lack = own.low[s].sum() - np.minimum(demand, available[:, s].sum(axis=1)).sum()
                else:
                    others = np.delete(available, s, axis=1).sum(axis=1)
                    lack = np.maximum(demand - others, 0).sum() - own.high[s].sum()
                assert lack == error.shortfall  # the set it names is one that explains it
    assert min(seen.values()) > 0
