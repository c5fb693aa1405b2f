"""List rules: the best list of all that keep them, by enumeration; and what cannot be kept, by name and number."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.clicks.item_table import ItemGroups, ItemTable
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.models import list_rules as rules_module
from bmcd.models.list_rules import choose, read_rules, ruled_lists
from bmcd.models.top_k import Lists

NAMES = ("x", "y", "z")


def table_of(groups, name="section"):
    return ItemTable(len(groups), {name: ItemGroups.of(groups)})


def value_of(chosen, score, groups, worth):
    return sum(score[i] for i in chosen) + worth * len({g for i in chosen for g in groups[i]})


def keeps(chosen, groups, k, one):
    count = {name: sum(name in groups[i] for i in chosen) for name in {g for own in groups for g in own}}
    caps = one.at_most if isinstance(one.at_most, dict) else dict.fromkeys(count, one.at_most)
    return (
        all(cap is None or count.get(name, 0) <= cap for name, cap in caps.items())
        and all(count.get(name, 0) >= math.ceil(share * k - 1e-9) for name, share in (one.shares or {}).items())
        and sum(n > 0 for n in count.values()) >= (one.at_least_groups or 0)
    )


def best_by_enumeration(score, groups, k, one, available):
    """Return the greatest value of a list of k items under the rules, over all lists; None if there is none."""
    lists = itertools.combinations(np.flatnonzero(available).tolist(), k)
    return max((value_of(c, score, groups, one.worth) for c in lists if keeps(c, groups, k, one)), default=None)


def asker(scores, available):
    """Answer as recommenders do: the best items by score, of those available and allowed."""
    n_asked = []

    def ask(users, size, mask):
        n_asked.append((len(users), size))
        free = available[users] if mask is None else available[users] & mask
        order = np.argsort(np.where(free, -scores[users], np.inf), axis=1, kind="stable")[:, :size]
        there = np.take_along_axis(free, order, axis=1)
        values = np.where(there, np.take_along_axis(scores[users], order, axis=1), 0.0)
        return Lists(np.where(there, order, -1), {"probability": values})

    return ask, n_asked


def some_rules(rng):
    return bmcd.ListRules(
        "section",
        at_most=[None, 1, 2, 3, {"x": 1}, {"y": 0, "z": 2}][rng.integers(6)],
        at_least_groups=[None, 1, 2, 3][rng.integers(4)],
        shares=[None, {"x": 0.3}, {"y": 0.5}, {"x": 0.25, "z": 0.25}][rng.integers(4)],
        worth=[0.0, 0.0, 0.05, 0.3][rng.integers(4)],
    )


@pytest.mark.parametrize(("candidates", "few_groups"), [(100, 200), (1, 200), (1, 0)])
def test_lists_are_the_best_of_all_lists(candidates, few_groups, monkeypatch):
    """600 cases, also with so few candidates that more have to be asked for: of single groups, or of all."""
    monkeypatch.setattr(rules_module, "FEW_GROUPS", few_groups)
    monkeypatch.setattr(rules_module, "CANDIDATES", candidates)
    monkeypatch.setattr(rules_module, "PER_PLACE", 1)
    rng, n_solved, n_extended = np.random.default_rng(candidates), 0, 0
    for _ in range(600):
        n, k = int(rng.integers(4, 10)), int(rng.integers(1, 5))
        k = min(k, n)
        groups = [[NAMES[g]] if (g := rng.integers(-1, 3)) >= 0 else [] for _ in range(n)]
        table, one = table_of(groups), some_rules(rng)
        scores = np.round(rng.random((3, n)) ** 3, 3) + rng.random((3, n)) * 1e-5
        available = rng.random((3, n)) < 0.9
        try:
            read = read_rules(one, table, k, np.ones(n, bool))
        except InputError:
            # No list of k items of the catalogue keeps the rules, or a name in them is no group.
            named = {*(one.shares or {}), *(one.at_most if isinstance(one.at_most, dict) else ())}
            if named <= {g for own in groups for g in own}:
                assert best_by_enumeration(scores[0], groups, k, one, np.ones(n, bool)) is None
            continue
        ask, asked = asker(scores, available)
        lists, report = ruled_lists(ask, 3, k, read, None, "probability")
        n_extended += len(asked) > 1
        unkept = 0
        for u in range(3):
            chosen = [i for i in lists.items[u].tolist() if i >= 0]
            assert len(set(chosen)) == len(chosen)
            assert available[u][chosen].all()
            expected = best_by_enumeration(scores[u], groups, k, one, available[u])
            if expected is None:
                unkept += 1
                continue
            n_solved += 1
            assert keeps(chosen, groups, k, one)
            assert value_of(chosen, scores[u], groups, one.worth) == pytest.approx(expected, abs=1e-9)
            in_order = lists.values["probability"][u][: len(chosen)]
            assert (np.diff(in_order) <= 1e-9).all()
        assert report.n_unkept == unkept
        plain = np.sort(np.where(available, scores, 0.0), axis=1)[:, -k:].sum()
        assert report.plain == pytest.approx(plain)
        assert report.price == pytest.approx(max(0, plain - report.kept))
    assert n_solved > 600
    assert (n_extended > 50) == (candidates == 1)


def test_several_columns_and_groups_come_close():
    """Not exact: rules are kept where the greedy choice can, and the value is within 1 % of the best on average."""
    rng = np.random.default_rng(5)
    ratios, n_missed, n_cases = [], 0, 0
    for _ in range(300):
        n, k = 9, 4
        groups = [[name for name in NAMES if rng.random() < 0.4] for _ in range(n)]
        one = bmcd.ListRules("section", at_most=int(rng.integers(2, 4)), at_least_groups=int(rng.integers(1, 4)))
        scores = rng.random((1, n))
        try:
            read = read_rules(one, table_of(groups), k, np.ones(n, bool))
        except InputError:
            continue
        expected = best_by_enumeration(scores[0], groups, k, one, np.ones(n, bool))
        if expected is None:
            continue
        n_cases += 1
        ask, _ = asker(scores, np.ones((1, n), bool))
        lists, report = ruled_lists(ask, 1, k, read, None, "probability")
        assert not report.exact or all(len(own) < 2 for own in groups)
        chosen = [i for i in lists.items[0].tolist() if i >= 0]
        if report.n_unkept:
            n_missed += 1
            continue
        assert keeps(chosen, groups, k, one)
        ratios.append(value_of(chosen, scores[0], groups, 0.0) / expected)
    assert n_cases > 150
    assert n_missed <= 0.05 * n_cases
    assert max(ratios) <= 1 + 1e-9
    assert np.mean(ratios) > 0.99


def test_two_sets_of_rules_hold_together():
    rng = np.random.default_rng(2)
    a = [[NAMES[i % 3]] for i in range(12)]
    b = [["p" if i < 6 else "q"] for i in range(12)]
    table = ItemTable(12, {"a": ItemGroups.of(a), "b": ItemGroups.of(b)})
    both = [bmcd.ListRules("a", at_most=2), bmcd.ListRules("b", shares={"q": 0.5})]
    read = read_rules(both, table, 4, np.ones(12, bool))
    scores = rng.random((50, 12))
    ask, _ = asker(scores, np.ones((50, 12), bool))
    lists, report = ruled_lists(ask, 50, 4, read, None, "probability")
    assert report.n_unkept == 0
    assert not report.exact
    for own in lists.items.tolist():
        assert max(sum(a[i][0] == name for i in own) for name in NAMES) <= 2
        assert sum(b[i][0] == "q" for i in own) >= 2


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (bmcd.ListRules(at_least_groups=4), "asks for 4 groups of 'section', but only 3 have items"),
        (bmcd.ListRules(at_least_groups=5, shares={"x": 0.4}), "only 3 have items"),
        (bmcd.ListRules(shares={"x": 0.8}), "asks for 4 of 'x' in a list of 5, but only 3 of its items"),
        (bmcd.ListRules(shares={"x": 0.6}, at_most=2), "asks for 3 of 'x' in a list of 5, but at_most allows 2"),
        (bmcd.ListRules(shares={"x": 0.5, "y": 0.5}), "3 of 'x' + 3 of 'y', 6 items together, but a list has 5"),
        (bmcd.ListRules(shares={"x": 0.6, "y": 0.4}, at_least_groups=3), "needs 1 more groups: 6 items"),
        (bmcd.ListRules(at_most=1), "at_most allows 4 items of the 3 groups of 'section' in a list, 1 without a"),
        (bmcd.ListRules("topic"), "no groups 'topic'; it has section"),
        (bmcd.ListRules(shares={"q": 0.2}), "there is no group 'q'"),
        (bmcd.ListRules(at_most={"<b>": 1}), "there is no group '<b>'"),
    ],
)
def test_rules_that_cannot_be_kept(one, text):
    groups = [["x"]] * 3 + [["y"]] * 3 + [["z"]] * 3 + [[]]
    with pytest.raises(InputError, match=text.replace("+", r"\+").replace("(", r"\(")):
        read_rules(one, table_of(groups), 5, np.ones(10, bool))


def test_values_that_make_no_sense():
    for given in ({"at_most": 0}, {"at_most": 1.5}, {"at_least_groups": 0}, {"shares": {"x": 1.2}}, {"worth": -1}):
        with pytest.raises(InputError, match=next(iter(given)).split("_")[0].removesuffix("s")):
            bmcd.ListRules(**given)
    huge = read_rules(bmcd.ListRules(at_most={"x": 10**30}), table_of([["x"]]), 1, np.ones(1, bool))
    assert huge.cap.tolist() == [rules_module.NO_CAP]
    with pytest.raises(InputTypeError, match="shares must be a dict"):
        bmcd.ListRules(shares=["x"])
    with pytest.raises(InputTypeError, match=r"must be bmcd\.ListRules"):
        read_rules("x", table_of([["x"]]), 1, np.ones(1, bool))
    with pytest.raises(InputError, match="came without an item table"):
        read_rules(bmcd.ListRules(), None, 1, np.ones(1, bool))
    with pytest.raises(InputError, match="two sets of rules about section"):
        read_rules([bmcd.ListRules(), bmcd.ListRules("section")], table_of([["x"]]), 1, np.ones(1, bool))


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(3)
    matrix = rng.random((60, 30)) < 0.2
    matrix[0] = True  # a user who has clicked everything
    clicks = Clicks.from_matrix(matrix, items=[f"i{j}" for j in range(30)])
    sections = ["", *(NAMES[j % 3] for j in range(1, 30))]
    return clicks.with_items({"item": clicks.items.tolist(), "section": sections, "price": list(range(30))})


@pytest.fixture(scope="module")
def models(log):
    short = {"draws": 4, "warmup": 4, "chains": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        blend = bmcd.Blend({"EASE": bmcd.baselines.EASE(), "Popularity": bmcd.baselines.Popularity()})
        return {
            "BMCD": bmcd.BMCD(2).fit(log, **short),
            "Blend": blend.fit(log),
            "EASE": bmcd.baselines.EASE().fit(log),
            "Popularity": bmcd.baselines.Popularity().fit(log),
        }


@pytest.mark.parametrize("name", ["BMCD", "Blend", "EASE", "Popularity"])
@pytest.mark.filterwarnings("ignore::bmcd.errors.ShortListWarning")
def test_every_recommender_takes_filters_and_rules(models, log, name):
    model = models[name]
    value = "probability" if name in ("BMCD", "Blend") else "score"
    groups = log.items_table.groups["section"]
    section = {item: groups.of_item(column) for column, item in enumerate(log.items.tolist())}
    found = model.recommend(5, only={"section": ["x", "y"]}, never={"price": [20, None]})
    assert set(found["item"].map(section)) == {("x",), ("y",)}
    assert found["item"].str[1:].astype(int).max() < 20
    for ask in (
        lambda **options: model.recommend(6, **options),
        lambda **options: model.recommend_for({"ann": ["i1", "i2"], "bob": []}, 6, **options),
    ):
        plain, ruled = ask(), ask(rules=bmcd.ListRules("section", at_most=2))
        assert ruled.attrs["rules"]["exact"]
        assert (
            ruled["item"].map(section).groupby(ruled["user"]).apply(lambda s: s.value_counts().get(("x",), 0)).max()
            <= 2
        )
        kept, before = ruled.attrs["rules"]["kept"], ruled.attrs["rules"]["plain"]
        assert kept == pytest.approx(ruled[value].sum())
        assert before == pytest.approx(plain[value].sum())
        same = ask(rules=bmcd.ListRules("section", worth=0.0))
        pd.testing.assert_frame_equal(plain, same, check_exact=True)
    assert 0 not in set(model.recommend(3, rules=bmcd.ListRules(at_most=2))["user"])


def test_probabilities_stay_those_of_plain_lists(models):
    model = models["Blend"]
    every = model.recommend(30).set_index(["user", "item"])["probability"]
    ruled = model.recommend(10, horizon=30, rules=bmcd.ListRules(at_least_groups=3, shares={"z": 0.5}))
    own = ruled.set_index(["user", "item"])["probability"]
    np.testing.assert_allclose(own.to_numpy(), every.loc[own.index].to_numpy(), atol=1e-12)


def test_a_user_with_few_items_left_is_counted():
    groups = [["x"]] * 4 + [["y"]] * 4
    available = np.ones((2, 8), bool)
    available[1, 4:] = False
    read = read_rules(bmcd.ListRules(at_least_groups=2, shares={"y": 0.5}), table_of(groups), 4, np.ones(8, bool))
    ask, _ = asker(np.random.default_rng(1).random((2, 8)), available)
    lists, report = ruled_lists(ask, 2, 4, read, None, "probability")
    assert (lists.items >= 0).sum(axis=1).tolist() == [4, 4]
    assert report.n_unkept == 1


def test_arrow_frames_hold_the_price_too(log):
    import json
    from dataclasses import replace

    model = bmcd.baselines.Popularity().fit(replace(log, library="pyarrow"))
    found = model.recommend(5, rules=bmcd.ListRules(at_most=2))
    assert json.loads(found.schema.metadata[b"rules"])["n_users"] == 60


def test_choice_does_not_depend_on_the_other_users():
    rng = np.random.default_rng(9)
    groups = [[NAMES[i % 3]] for i in range(20)]
    read = read_rules(bmcd.ListRules(at_most=2, worth=0.1), table_of(groups), 6, np.ones(20, bool))
    scores = -np.sort(-rng.random((40, 20)), axis=1)
    items = rng.permuted(np.tile(np.arange(20), (40, 1)), axis=1)
    together, _ = choose(items, scores, 6, read)
    for u in range(40):
        np.testing.assert_array_equal(choose(items[[u]], scores[[u]], 6, read)[0][0], together[u])


def test_a_table_that_changed_since_the_fit(models, log):
    """A model learns nothing from the table, so another one can be given to it."""
    model = bmcd.baselines.Popularity().fit(log)
    swapped = log.items_frame()[["item"]].assign(section=["new" if j < 5 else "old" for j in range(30)])
    before = model.recommend(3, only={"section": ["x"]})
    model.clicks_ = model.clicks_.with_items(swapped)
    with pytest.raises(InputError, match="there is no group 'x'"):
        model.recommend(3, only={"section": ["x"]})
    found = model.recommend(3, only={"section": ["new"]})
    assert set(found["item"]) <= {f"i{j}" for j in range(5)}
    assert len(before)
