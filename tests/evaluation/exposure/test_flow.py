"""The flow against everything tried out, and against a linear programme."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy import optimize

import bmcd
from bmcd.errors import ExposureError

pytestmark = pytest.mark.chance(1e-6)


def by_brute_force(problem, cover=0):
    """The greatest sum over all ways to give every user a list, or None."""
    available = ~problem.clicks.matrix.toarray()
    lists = [list(combinations(np.flatnonzero(own), min(problem.k, int(own.sum())))) for own in available]
    best = None
    for chosen in product(*lists):
        count = np.bincount([i for own in chosen for i in own], minlength=len(problem.low))
        if (count >= problem.low).all() and (count <= problem.high).all() and (count > 0).sum() >= cover:
            total = sum(problem.score[u, i] for u, own in enumerate(chosen) for i in own)
            best = total if best is None else max(best, total)
    return best


def by_milp(problem, cover):
    """The same by scipy's mixed-integer solver: x for each pair, y for each item that is shown."""
    available = ~problem.clicks.matrix.toarray()
    n_users, n_items = available.shape
    n = n_users * n_items
    per_user = np.hstack([np.kron(np.eye(n_users), np.ones(n_items)), np.zeros((n_users, n_items))])
    per_item = np.hstack([np.kron(np.ones(n_users), np.eye(n_items)), np.zeros((n_items, n_items))])
    only_shown = per_item.copy()
    only_shown[:, n:] = -np.eye(n_items)
    covered = np.concatenate([np.zeros(n), np.ones(n_items)])[None]
    demand = problem.demand()
    optimum = optimize.milp(
        np.concatenate([-problem.score.ravel(), np.zeros(n_items)]),
        integrality=np.ones(n + n_items),
        bounds=optimize.Bounds(0, np.concatenate([available.ravel().astype(float), np.ones(n_items)])),
        constraints=[
            optimize.LinearConstraint(per_user, demand, demand),
            optimize.LinearConstraint(per_item, problem.low, problem.high),
            optimize.LinearConstraint(only_shown, 0, np.inf),
            optimize.LinearConstraint(covered, cover, np.inf),
        ],
    )
    return -optimum.fun if optimum.success else None


def solve(problem, cover=None):
    return bmcd.rerank(problem.score, problem.k, clicks=problem.clicks, min_coverage=cover, **problem.limits())


@pytest.mark.parametrize("ties", [False, True])
def test_it_is_the_best_of_all(make_problem, exposure_of, rotating_seed, ties):
    rng = np.random.default_rng(rotating_seed)
    feasible = 0
    for _ in range(60):
        problem = make_problem(rng, n_users=4, n_items=4, k=int(rng.integers(1, 4)), spread=1, ties=ties)
        cover = int(rng.integers(0, 5))
        best = by_brute_force(problem, cover)
        if best is None:
            with pytest.raises(ExposureError):
                solve(problem, cover)
            continue
        feasible += 1
        reranking = solve(problem, cover)
        assert reranking.after.total == pytest.approx(best, abs=reranking.largest_error + 1e-12)
        assert reranking.largest_error < 1e-6
        count = exposure_of(reranking.recommendations, problem.clicks)
        assert (count == reranking.after.exposure).all()
        assert (problem.low <= count).all()
        assert (count <= problem.high).all()
        assert (count > 0).sum() >= cover
    assert feasible > 0


def test_it_agrees_with_a_mixed_integer_programme(make_problem, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    for _ in range(12):
        problem = make_problem(rng, n_users=25, n_items=9, k=3)
        best = by_milp(problem, cover=8)
        if best is None:
            with pytest.raises(ExposureError):
                solve(problem, 8)
        else:
            assert solve(problem, 8).after.total == pytest.approx(best, abs=1e-6)


def test_lists_are_full_and_best_first(make_problem, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    problem = make_problem(rng, n_users=40, n_items=8, k=3)
    reranking = bmcd.rerank(problem.score, 3, clicks=problem.clicks, max_exposure=0.5, min_exposure=5)
    frame = reranking.recommendations
    assert frame.columns.tolist() == ["user", "item", "rank", "score"]
    assert frame.groupby("user", sort=False).size().reindex(problem.clicks.users, fill_value=0).tolist() == list(
        problem.demand()
    )
    assert not frame.duplicated(["user", "item"]).any()
    assert (frame.groupby("user")["score"].diff().fillna(0) <= 1e-6).all()
    assert (frame.groupby("user")["rank"].diff().fillna(1) == 1).all()
    assert reranking.after.total == pytest.approx(frame["score"].sum())
    assert reranking.after.exposure.min() >= 5
    assert reranking.after.exposure.max() <= 20
    # `evaluate` looks for everything that can be wrong with lists.
    test = bmcd.Clicks.from_matrix(~problem.clicks.matrix.toarray(), problem.clicks.users, problem.clicks.items)
    assert bmcd.evaluate(frame, problem.clicks, test).coverage == reranking.after.coverage


def test_without_limits_that_bind_it_is_the_plain_list(make_problem, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    problem = make_problem(rng, n_users=30, n_items=8, k=3, ties=True)
    plain = bmcd.rerank(problem.score, 3, clicks=problem.clicks)
    loose = bmcd.rerank(problem.score, 3, clicks=problem.clicks, max_exposure=1.0, min_exposure=0)
    assert plain.price == loose.price == plain.n_changed == plain.largest_error == 0
    assert plain.recommendations.equals(loose.recommendations)


def test_equal_scores_stay_where_they_were():
    """All items tie: only what must move does."""
    clicks = bmcd.Clicks.from_matrix(np.eye(6, 5))
    reranking = bmcd.rerank(np.zeros((6, 5)), 2, clicks=clicks, min_exposure={4: 2})
    plain = bmcd.rerank(np.zeros((6, 5)), 2, clicks=clicks)
    assert plain.after.exposure[4] == 0
    assert reranking.n_changed == 2
    assert reranking.price == reranking.largest_error == 0


def test_nearly_equal_scores_stay_where_they_were():
    """Scores within 1e-6 are a tie to the plain lists, and must be one to the flow."""
    clicks = bmcd.Clicks.from_matrix(np.eye(6, 5))
    score = np.tile([0.5, 0.5 + 4e-7, 0.5 + 8e-7, 0.1, 0.1], (6, 1))
    reranking = bmcd.rerank(score, 1, clicks=clicks, min_exposure={4: 1})
    assert reranking.before.exposure.tolist() == [5, 1, 0, 0, 0]
    assert reranking.n_changed == 1
    assert reranking.largest_error < 6e-6
    assert reranking.after.total == pytest.approx(5 * (0.5 + 8e-7) + 0.1, abs=reranking.largest_error)


@pytest.mark.parametrize("ties", [False, True])
def test_the_order_of_users_and_items_changes_nothing(make_problem, rotating_seed, ties):
    rng = np.random.default_rng(rotating_seed)
    problem = make_problem(rng, n_users=40, n_items=9, k=3, ties=ties)
    users, items = rng.permutation(40), rng.permutation(9)
    other = bmcd.Clicks.from_matrix(
        problem.clicks.matrix.toarray()[np.ix_(users, items)],
        problem.clicks.users[users],
        problem.clicks.items[items],
    )
    one = bmcd.rerank(problem.score, 3, clicks=problem.clicks, min_exposure=9)
    two = bmcd.rerank(problem.score[np.ix_(users, items)], 3, clicks=other, min_exposure=9)
    by = ["user", "rank"]
    frames = [reranking.recommendations.sort_values(by).reset_index(drop=True) for reranking in (one, two)]
    assert frames[0].equals(frames[1])


def test_scale_and_shift_of_scores_change_nothing(make_problem, rotating_seed):
    problem = make_problem(np.random.default_rng(rotating_seed), n_users=40, n_items=9, k=3)
    one = bmcd.rerank(problem.score, 3, clicks=problem.clicks, min_exposure=8)
    two = bmcd.rerank(-70 + 1e5 * problem.score, 3, clicks=problem.clicks, min_exposure=8)
    same = ["user", "item", "rank"]
    assert one.recommendations[same].equals(two.recommendations[same])
    assert two.price == pytest.approx(1e5 * one.price, abs=two.largest_error)


def test_the_price_rises_ever_more_steeply_with_coverage():
    """The least price is a convex function of the number of items: each further item costs no less."""
    rng = np.random.default_rng(3)
    clicks = bmcd.Clicks.from_matrix(rng.random((50, 12)) < 0.1)
    score = rng.random((50, 12)) * 0.2 + np.linspace(0.8, 0, 12)
    prices = [bmcd.rerank(score, 2, clicks=clicks, min_coverage=m).price for m in range(2, 13)]
    assert prices[-1] > 0
    assert (np.diff(prices, 2) >= -1e-6).all()


def groups_by_brute_force(problem, group, low, high):
    """The greatest sum over all lists that keep the limits of items and groups, or None."""
    available = ~problem.clicks.matrix.toarray()
    lists = [list(combinations(np.flatnonzero(own), min(problem.k, int(own.sum())))) for own in available]
    best = None
    for chosen in product(*lists):
        count = np.bincount([i for own in chosen for i in own], minlength=len(problem.low))
        of_group = np.bincount(group[group >= 0], weights=count[group >= 0], minlength=len(low))
        if (count < problem.low).any() or (count > problem.high).any():
            continue
        if (of_group >= low).all() and (of_group <= high).all():
            total = sum(problem.score[u, i] for u, own in enumerate(chosen) for i in own)
            best = total if best is None else max(best, total)
    return best


@pytest.mark.parametrize("ties", [False, True])
def test_groups_have_floors_and_caps_too(make_problem, exposure_of, rotating_seed, ties):
    rng = np.random.default_rng(rotating_seed + 1)
    feasible = infeasible = 0
    for _ in range(80):
        problem = make_problem(rng, n_users=4, n_items=4, k=int(rng.integers(1, 4)), spread=3, ties=ties)
        group = rng.integers(-1, 2, 4)
        due = int(problem.demand().sum())
        low = rng.integers(0, 1 + due // 2, 2)
        high = np.maximum(low, rng.integers(due // 3, due + 1, 2))
        names = ["p", "q"]
        clicks = problem.clicks.with_items(
            {
                "item": problem.clicks.items.tolist(),
                "kind": [["p"] if g == 0 else ["q"] if g == 1 else [] for g in group],
            }
        )
        there = clicks.items_table.groups["kind"].names
        best = groups_by_brute_force(problem, group, low, high)
        limits = problem.limits() | {
            "min_group_exposure": {n: int(low[names.index(n)]) for n in there},
            "max_group_exposure": {n: int(high[names.index(n)]) for n in there},
        }
        if len(there) < 2:
            continue
        if best is None:
            infeasible += 1
            with pytest.raises(ExposureError):
                bmcd.rerank(problem.score, problem.k, clicks=clicks, **limits)
            continue
        feasible += 1
        found = bmcd.rerank(problem.score, problem.k, clicks=clicks, **limits)
        assert found.after.total == pytest.approx(best, abs=found.largest_error + 1e-9)
        shown = exposure_of(found.recommendations, clicks)
        np.testing.assert_array_equal(shown, found.after.exposure)
        table = found.group_exposure()
        assert (table["after"] >= table["floor"]).all()
        assert (table["after"] <= table["cap"]).all()
        assert table["after"].tolist() == [shown[group == names.index(n)].sum() for n in there]
    assert min(feasible, infeasible) > 5
