"""The section on groups of items: its numbers are those of evaluate, and its sliders those of ListRules."""

import json
import re

import numpy as np
import pytest

import bmcd
from bmcd.models.list_rules import choose, read_rules
from bmcd.reporting.context import make_context

NASTY = "<script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def grouped(reported):
    kinds = [NASTY, "b", "c"]
    table = {"item": reported.train.items.tolist(), "kind": [kinds[j % 3] for j in range(12)]}
    return reported.model, reported.train.with_items(table), reported.test, table


@pytest.fixture(scope="module")
def page(grouped, read_page, tmp_path_factory):
    model, _, test, table = grouped
    path = tmp_path_factory.mktemp("groups") / "report.html"
    bmcd.report(model, None, test, path, k=(2, 3), rivals={}, items=table)
    return read_page(path.read_text("utf-8"))


def test_the_table_has_what_evaluate_counts(grouped, page):
    model, train, test, _ = grouped
    found = bmcd.evaluate(model.recommend(2), train, test, k=2).by_group["kind"]
    text = re.sub(r"\s+", " ", page.texts["item-groups"])
    for g, name in enumerate(found.names):
        shown = f"{100 * found.shown[g] / found.shown.sum():.2g}"
        assert re.search(rf"{re.escape(name)} 4 .*? {re.escape(shown)} %", text), (name, shown)
    assert f"items of {found.groups_per_list:.2f} groups on average" in text


def test_nothing_in_it_is_markup(page):
    assert "document.title='owned'</script>" not in page.text
    assert NASTY in page.texts["item-groups"]


def test_the_data_of_the_sliders_give_the_lists_of_list_rules(grouped, page):
    """The same greedy choice, in Python over the numbers in the page, equals the lists of the model."""
    model, train, _, _ = grouped
    data = json.loads(re.search(r'id="rules">(.*?)</script>', page.text).group(1))["3"]
    users = np.unique(np.linspace(0, train.n_users - 1, 100).round().astype(int))
    assert len(data["p"]) == len(users)
    read = read_rules(bmcd.ListRules("kind", at_most=1), train.items_table, 3, np.ones(12, bool))
    lists = model.lists(12, train.users[users].tolist(), horizon=3)
    chosen, _ = choose(lists.items, lists.values["probability"], 3, read)
    for u, (chances, groups) in enumerate(zip(data["p"], data["groups"][0], strict=True)):
        seen, total = set(), 0
        for p, own in zip(chances, groups, strict=True):
            if own[0] not in seen:
                seen.add(own[0])
                total += p
        want = lists.values["probability"][u][chosen[u][chosen[u] >= 0]].sum()
        assert total / 10_000 == pytest.approx(want, abs=2e-4)


def test_without_a_table_there_is_no_section(reported):
    assert '<section id="item-groups"' not in reported.path.read_text("utf-8")


def test_without_a_test_it_counts_what_is_shown(grouped, read_page, tmp_path):
    model, _, _, table = grouped
    text = bmcd.report(model, None, None, tmp_path / "r.html", k=2, items=table).read_text("utf-8")
    found = read_page(text).texts["item-groups"]
    assert "hit rate" not in found
    results = make_context(model, None, None, 2, items=table)
    shown = results.by_k[0].lists.items
    share = (shown[shown >= 0] % 3 == 1).mean()
    assert f"{100 * share:.2g} %" in found


def test_a_promise_is_told_with_its_back_test(grouped, read_page, tmp_path):
    from bmcd.evaluation.diversify import Trial

    model, train, test, table = grouped
    model.clicks_ = train
    try:
        found = bmcd.diversify(model, test, 2, 0.05, horizon=2)
    finally:
        model.clicks_ = train.with_items(None)
    rules = found.rules
    trials = (
        Trial("w1", "w2", rules, 100, 0.21, 0.01, 2.0, True),
        Trial("w2", "w3", rules, 90, 0.04, 0.01, 2.0, False),
        Trial("w3", "w4", None, 90, 0.04, 0.01, 1.0, None),
    )
    from dataclasses import replace

    told = replace(found, trials=trials)
    text = bmcd.report(
        model, None, test, tmp_path / "r.html", k=2, rivals={}, items=table, diversity=told
    ).read_text("utf-8")
    section = read_page(text).texts["item-groups"]
    assert "held in 1 of 2 windows of use" in section
    assert "none qualified" in section
    assert "21.0 ± 1.0 %" in section


def test_sliders_in_a_browser(browser, grouped, page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page.text, "utf-8")
    browser.get(path.as_uri())
    move = """
      const one = document.getElementById(arguments[0]);
      one.value = arguments[1];
      one.dispatchEvent(new Event('input'));
      return document.getElementById('price-3').textContent;
    """
    said = browser.execute_script(move, "most-3", 1)
    model, train, _, _ = grouped
    users = train.users[np.unique(np.linspace(0, train.n_users - 1, 100).round().astype(int))].tolist()
    plain = model.lists(3, users).values["probability"].sum() / len(users)
    model.clicks_ = train
    try:
        ruled = model.recommend(3, users, rules=bmcd.ListRules("kind", at_most=1)).attrs["rules"]
    finally:
        model.clicks_ = train.with_items(None)
    numbers = [float(text) for text in re.findall(r"\d+\.\d+", said)]
    assert numbers[0] == pytest.approx(ruled["n_groups"], abs=0.006)
    assert numbers[2] == pytest.approx(ruled["price"] / len(users), abs=0.0015)
    assert numbers[3] == pytest.approx(plain, abs=0.006)
    assert browser.title != "owned"
