"""Measures by groups, each against plain Python over sets and fractions."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.clicks.log import Clicks

NAMES = "abc"


@pytest.fixture(params=range(6))
def case(request):
    """Random clicks, test clicks, lists and groups; users without a list, items without a group or in several."""
    rng = np.random.default_rng(request.param)
    n_users, n_items = 12, 9
    clicked = rng.random((n_users, n_items)) < 0.35
    clicked[0, 0], clicked[1] = True, False
    test = ~clicked & (rng.random((n_users, n_items)) < 0.3)
    test[2, np.flatnonzero(~clicked[2])[0]] = True
    groups = [[name for name in NAMES if rng.random() < 0.5] for _ in range(n_items)]
    groups[0] = ["a"]
    items = [f"i{j}" for j in range(n_items)]
    train = Clicks.from_matrix(clicked, items=items).with_items(
        {"item": items, "kind": groups, "other": [[NAMES[j % 2]] for j in range(n_items)]}
    )
    lists = {}
    for u in range(n_users - 2):  # the last two have none
        free = np.flatnonzero(~clicked[u])
        lists[u] = rng.permutation(free)[: rng.integers(0, 5)].tolist()
    rows = [(u, f"i{j}", r + 1) for u, own in lists.items() for r, j in enumerate(own)]
    frame = pd.DataFrame(rows, columns=["user", "item", "rank"])
    return train, Clicks.from_matrix(test, items=items), frame, {u: own for u, own in lists.items() if own}, groups


def test_measures_are_those_of_plain_python(case):
    train, test, frame, lists, groups = case
    clicked, tested = train.matrix.toarray(), test.matrix.toarray()
    found = bmcd.evaluate(frame, train, test, k=5)
    own = found.by_group["kind"]
    per_list = [len({g for i in items for g in groups[i]}) for items in lists.values()]
    assert own.groups_per_list == pytest.approx(np.mean(per_list))

    means = []
    for items in lists.values():
        pairs = [(set(groups[i]), set(groups[j])) for i, j in itertools.combinations(items, 2)]
        distances = [1 - len(x & y) / len(x | y) for x, y in pairs if x and y]
        means += [np.mean(distances)] if distances else []
    assert own.group_distance == pytest.approx(np.mean(means), nan_ok=True)

    def spread(items):
        """Fractions of a distribution over groups; an item in n groups is 1/n in each."""
        total = Counter()
        for i in items:
            for g in groups[i]:
                total[g] += Fraction(1, len(groups[i]))
        return total

    divergences = []
    for u, items in lists.items():
        p, q = spread(np.flatnonzero(clicked[u])), spread(items)
        if not p or not q:
            continue
        p = {g: value / sum(p.values()) for g, value in p.items()}
        q = {g: value / sum(q.values()) for g, value in q.items()}
        divergences.append(
            sum(float(p[g]) * math.log(p[g] / (0.99 * float(q.get(g, 0)) + 0.01 * float(p[g]))) for g in p)
        )
    assert own.group_miscalibration == pytest.approx(np.mean(divergences), nan_ok=True)

    shown, nexts = (
        spread_all(groups, items)
        for items in (list(itertools.chain(*lists.values())), np.nonzero(tested)[1].tolist())
    )
    every = {*shown, *nexts}
    expected = sum(abs(shown[g] / sum(shown.values()) - nexts[g] / sum(nexts.values())) for g in every) / 2
    assert own.group_gap == pytest.approx(float(expected))

    shared = [len(set(x) & set(y)) for x, y in itertools.combinations(lists.values(), 2)]
    length = np.mean([len(items) for items in lists.values()])
    assert found.personalisation == pytest.approx(1 - np.mean(shared) / length)


def spread_all(groups, items):
    total = Counter()
    for i in items:
        for g in groups[i] or [None]:
            total[g] += Fraction(1, max(len(groups[i]), 1))
    return total


def test_the_table_counts_what_it_says(case):
    train, test, frame, lists, groups = case
    table = bmcd.evaluate(frame, train, test, k=5).by_group["kind"].to_frame().set_index("kind")
    tested = test.matrix.toarray()
    hits = [i for u, items in lists.items() for i in items if tested[u, i]]
    for name, items in (
        ("items", range(9)),
        ("clicks", np.nonzero(train.matrix.toarray())[1].tolist()),
        ("shown", list(itertools.chain(*lists.values()))),
        ("hits", hits),
        ("next_clicks", np.nonzero(tested)[1].tolist()),
    ):
        expected = spread_all(groups, items)
        for g in table.index:
            assert table.loc[g, name] == pytest.approx(float(expected[None if pd.isna(g) else g]))


def test_where_they_show_up():
    shop = bmcd.load_dataset("eshop").most_clicked(40).at_least(10)
    train, test = shop.hold_out(3, seed=1)
    models = {"popularity": bmcd.baselines.Popularity(), "ItemKNN": bmcd.baselines.ItemKNN()}
    comparison = bmcd.compare(models, train, test, k=5, resamples=50, progress=False)
    row = comparison.table.set_index("model").loc["ItemKNN"]
    evaluation = comparison.entries["ItemKNN"].evaluation
    assert set(evaluation.by_group) == {"category", "colour"}
    assert row["groups_per_list"] == evaluation.by_group["category"].groups_per_list
    assert row["groups_per_list_low"] <= row["groups_per_list"] <= row["groups_per_list_high"]
    assert comparison.table["personalisation"].tolist()[0] < row["personalisation"]
    for text in ("personalisation", "groups_per_list", "group_distance", "group_miscalibration", "group_gap"):
        assert text in repr(evaluation)
    by_group = evaluation.to_dict()["by_group"]["colour"]
    assert by_group["groups_per_list"] == evaluation.by_group["colour"].groups_per_list
    assert "groups_per_list" in evaluation.intervals(resamples=20)
    without = bmcd.evaluate(models["ItemKNN"].recommend(5), train.with_items(None), test)
    assert not without.by_group
    assert math.isnan(without.value("groups_per_list"))
    assert "groups_per_list" not in repr(without)


def test_perfect_lists_are_calibrated():
    """Half of the clicks in each of two groups, and half of the list."""
    train = Clicks.from_matrix([[1, 1, 0, 0, 0]], items=list("abcde"))
    train = train.with_items({"item": list("abcde"), "kind": ["x", "y", "x", "y", ""]})
    test = Clicks.from_matrix([[0, 0, 1, 0, 0]], users=[0], items=list("abcde"))
    frame = pd.DataFrame({"user": [0, 0], "item": ["c", "d"], "rank": [1, 2]})
    assert bmcd.evaluate(frame, train, test).by_group["kind"].group_miscalibration == pytest.approx(0.0, abs=1e-12)
    one_sided = bmcd.evaluate(frame.head(1), train, test).by_group["kind"].group_miscalibration
    assert one_sided == pytest.approx(0.5 * math.log(0.5 / (0.99 + 0.005)) + 0.5 * math.log(0.5 / 0.005))
