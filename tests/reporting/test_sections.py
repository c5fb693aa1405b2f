"""What the sections show: the numbers of evaluate, compare and recommend, in the right places."""

import re

import numpy as np

import bmcd
from bmcd.reporting import wording
from bmcd.reporting.context import make_context
from bmcd.reporting.page import in_100, percent
from bmcd.reporting.report import render


def test_numbers_are_those_of_evaluate_and_compare(reported, page):
    models = {"BMCD": reported.model, **reported.rivals}
    for k in (2, 3):
        evaluation = bmcd.evaluate(reported.model.recommend(k), reported.train, reported.test, k=k)
        accuracy = evaluation.interval("accuracy")
        assert (
            f"Of the {k} items recommended to each of {evaluation.n_users_with_list} users, "
            f"{in_100(evaluation.accuracy)} were among the clicks held out "
            f"(95 % interval: {percent(accuracy.low)} to {percent(accuracy.high)})"
        ) in page.texts["summary"]
        predicted = (
            f"predicted {percent(evaluation.calibration.mean_probability)}, observed {percent(evaluation.accuracy)}"
        )
        assert predicted in page.texts["summary"]
        gap = bmcd.compare(models, reported.train, reported.test, k).differences["EASE"]["accuracy"]
        points = f"{100 * gap.difference:+z.1f} ({100 * gap.low:+z.1f} to {100 * gap.high:+z.1f})"
        assert points in page.texts["comparison"]
        assert f"BMCD: {int((evaluation.items.recommended > 0).sum())} of 12 items" in page.text
    assert f"{reported.train.n_users} users" in page.texts["data"]
    assert f"{reported.train.n_clicks:,} clicks" in page.texts["data"]


def test_example_users_have_their_own_lists_and_hits(reported, page):
    card = page.text[page.text.index('data-user="0"') : page.text.index('data-user="1"')]
    user = int(re.search(r"<h3>User <bdi>(.*?)</bdi>", card)[1])
    recommended = reported.model.recommend(2, users=[user])
    test = reported.test.to_frame()
    kept_aside = set(test.loc[test["user"] == user, "item"])
    n_hits = len(kept_aside & set(recommended["item"]))
    assert f"{n_hits} of 2 were among the clicks held out." in card
    for p in recommended["probability"]:
        assert percent(p).replace(" %", "\u00a0%") in card
    assert page.text.count('class="card person"') == 12


def test_the_verdict_is_in_words_then_in_numbers(reported, page):
    verdict, text = reported.model.verdict_, page.texts["convergence"]
    assert verdict.text.replace("\u00a0", " ") in text
    assert text.index("The calculation") < text.index(verdict.text[:20])


def test_the_method_tells_the_settings_of_the_rivals(page):
    assert "other methods EASE: EASE(); Popularity: Popularity()" in " ".join(page.texts["method"].split())


def test_without_a_test_it_says_what_is_missing(reported, page, read_page, tmp_path):
    path = bmcd.report(reported.model, path=tmp_path / "r.html", k=2, users=[reported.train.users[3]])
    untested = read_page(path.read_text("utf-8"))
    need_a_test = {"calibration", "cutoff", "comparison"}
    assert untested.sections == [name for name in page.sections if name not in need_a_test]
    assert len(page.sections) == 10  # no blend: no models in it; none before; items without groups
    assert "no clicks were held out" in untested.texts["summary"]
    assert "--test test.csv" in untested.texts["summary"]
    assert "hits" not in untested.texts["exposure"]
    assert untested.text.count('class="card person"') == 1
    assert "fieldset" not in {name for name, _ in untested.elements}  # one k: nothing to pick


def test_no_hits_and_no_rivals(reported, read_page, tmp_path):
    best, train = reported.model.recommend(1), reported.train
    matrix = train.matrix.toarray()
    matrix[train.rows_of(best["user"]), train.columns_of(best["item"])] = True
    # Everybody clicks the first item that is neither known nor recommended.
    kept_aside = np.arange(12) == (~matrix).argmax(axis=1)[:, None]
    test = bmcd.Clicks.from_matrix(kept_aside, users=train.users, items=train.items)
    path = bmcd.report(reported.model, None, test, tmp_path / "r.html", k=1, rivals={})
    texts = read_page(path.read_text("utf-8")).texts
    assert "none were among the clicks held out" in texts["summary"]
    assert "No cut-off helps: none of the recommendations were hits." in texts["cutoff"]
    assert "No baselines were requested." in texts["comparison"]


def test_one_group_and_a_run_too_short_to_judge(reported, read_page, tmp_path):
    model = bmcd.BMCD(1).fit(reported.train, draws=3, warmup=3, chains=1)
    texts = read_page(bmcd.report(model, path=tmp_path / "r.html").read_text("utf-8")).texts
    assert "All users are in one group" in texts["groups"]
    assert "cannot be assessed" in texts["convergence"]
    assert "Too few draws for diagnostics" in texts["method"]


def test_groups_lead_with_what_sets_them_apart_and_say_nothing_twice(reported, page):
    cards = re.findall(r'<article class="card">(.*?)</article>', page.text, re.DOTALL)
    assert len(cards) == 2
    for card, cluster in zip(cards, reported.model.clusters_, strict=True):
        assert cluster.apart
        assert card.index("Liked more here than elsewhere") < card.index("Also liked best")
        items = re.findall(r"<li>(.*?)</li>", card)
        assert len(items) == len(set(items))


def test_many_groups_are_there_for_those_who_ask(reported, monkeypatch):
    monkeypatch.setattr(wording, "MOST_CARDS", 1)
    body = render(make_context(reported.model, k=2), "Groups")
    assert body.index("Group 1:") < body.index("<summary>1 more group</summary>") < body.index("Group 2:")


def test_a_rival_that_was_not_run_is_named(reported, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    results = make_context(reported.model, None, reported.test, k=2)
    assert "ALS" not in results.baselines
    body = render(results, "Baselines")
    assert "ALS was not run: the package implicit is not installed (pip install" in body
    assert make_context(reported.model, None, reported.test, k=2, rivals={}).not_run == {}
