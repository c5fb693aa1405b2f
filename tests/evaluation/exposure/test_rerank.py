import json
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bmcd
from bmcd import testing
from bmcd.errors import UnknownIdError


@pytest.fixture(scope="module")
def simulation():
    return bmcd.simulate(n_users=120, n_items=20, consensuses=2, seed=2)


@pytest.fixture(scope="module")
def model(simulation):
    return bmcd.BMCD(2).fit(simulation.clicks, draws=10, warmup=10, chains=2)


def test_without_limits_it_is_what_bmcd_recommends(model):
    pd.testing.assert_frame_equal(bmcd.rerank(model, k=4).recommendations, model.recommend(k=4))


def test_the_price_is_in_expected_hits(model):
    reranking = bmcd.rerank(model, k=4, min_exposure=15, max_exposure=40)
    probability = model.probabilities(4)
    clicks = model.clicks_
    user, item = (
        pd.Index(ids).get_indexer(reranking.recommendations[name])
        for ids, name in ((clicks.users, "user"), (clicks.items, "item"))
    )
    assert probability[user, item] == pytest.approx(reranking.recommendations["probability"].to_numpy())
    plain = model.recommend(k=4)["probability"].sum()
    assert reranking.before.total == pytest.approx(plain)
    assert reranking.price == pytest.approx(plain - reranking.recommendations["probability"].sum())
    assert reranking.price > 0
    assert reranking.after.exposure.min() >= 15
    assert reranking.after.exposure.max() <= 40
    assert reranking.after.gini < reranking.before.gini
    assert reranking.recommendations.columns.tolist() == model.recommend(k=4).columns.tolist()


def test_other_distances_have_their_counts(simulation):
    kendall = bmcd.BMCD(2, distance="kendall", sampler="paper")
    kendall.fit(simulation.clicks, draws=20, warmup=20, chains=2, count_k=[3])
    pd.testing.assert_frame_equal(bmcd.rerank(kendall, k=3).recommendations, kendall.recommend(k=3))
    assert bmcd.rerank(kendall, k=3, min_exposure=5).after.exposure.min() >= 5


def test_a_rival_with_scores(fixed_scores):
    clicks = testing.example_clicks()
    score = np.random.default_rng(0).normal(size=clicks.matrix.shape)
    rival = fixed_scores(score).fit(clicks)
    pd.testing.assert_frame_equal(bmcd.rerank(rival, k=4).recommendations, rival.recommend(k=4))
    reranking = bmcd.rerank(rival, k=4, min_exposure=12)
    same = bmcd.rerank(score, k=4, min_exposure=12, clicks=clicks)
    pd.testing.assert_frame_equal(reranking.recommendations, same.recommendations)
    assert reranking.value == "score"
    assert "sum of scores" in repr(reranking)
    with pytest.raises(TypeError, match="pass clicks=, the Clicks that the FixedScores was fitted to"):
        bmcd.rerank(fixed_scores(score, keeps_clicks=False).fit(clicks), k=4)
    other = bmcd.rerank(fixed_scores(score, keeps_clicks=False).fit(clicks), k=4, min_exposure=12, clicks=clicks)
    pd.testing.assert_frame_equal(reranking.recommendations, other.recommendations)


def test_a_rival_with_probabilities(fixed_scores):
    class Probable(fixed_scores):
        def recommend(self, k=10):
            return super().recommend(k).rename(columns={"score": "probability"})

    class Depends(Probable):
        def recommend(self, k=10):
            frame = super().recommend(k)
            return frame.assign(probability=frame["probability"] * k / 20)

    class Knows(Depends):
        def probabilities(self, k):
            return self.score * k / 20

    clicks = testing.example_clicks()
    score = np.random.default_rng(0).random(size=clicks.matrix.shape)
    reranking = bmcd.rerank(Probable(score).fit(clicks), k=4, min_exposure=12)
    assert reranking.value == "probability"
    with pytest.raises(ValueError, match="the probabilities of Depends depend on k"):
        bmcd.rerank(Depends(score).fit(clicks), k=4, min_exposure=12)
    knows = bmcd.rerank(Knows(score).fit(clicks), k=4, min_exposure=12)
    assert knows.price == pytest.approx(reranking.price / 5)


def test_ids_titles_and_library_are_the_callers():
    frame = pl.DataFrame({"user": [1, 1, 2, 3], "item": ["a", "b", "b", "c"]})
    clicks = bmcd.Clicks.from_frame(frame, titles={"a": "An A"})
    reranking = bmcd.rerank(np.zeros((3, 3)), k=2, clicks=clicks, max_exposure=2)
    assert isinstance(reranking.recommendations, pl.DataFrame)
    assert reranking.recommendations.columns == ["user", "item", "title", "rank", "score"]
    assert reranking.recommendations.filter(pl.col("user") == 1)["item"].to_list() == ["c"]
    assert reranking.exposure().columns == ["item", "title", "before", "after", "floor", "cap"]
    assert reranking.exposure("pandas")["after"].tolist() == reranking.after.exposure.tolist()


def test_limits_in_all_ways():
    clicks = bmcd.Clicks.from_matrix(np.eye(10, 4), items=list("abcd"))

    def limits(**given):
        return bmcd.rerank(np.zeros((10, 4)), k=2, clicks=clicks, **given).limits

    assert limits(min_exposure=0.3).low.tolist() == [3] * 4
    assert limits(min_exposure=0.31).low.tolist() == [4] * 4  # a floor is rounded up,
    assert limits(max_exposure=0.69).high.tolist() == [6] * 4  # a cap down
    assert limits(max_exposure=1.0).high.tolist() == [10] * 4
    assert limits(min_exposure=np.int32(2), max_exposure=99).high.tolist() == [10] * 4
    assert limits(max_exposure={"b": 4, "c": 0.9}).high.tolist() == [10, 4, 9, 10]
    assert limits(min_exposure=pd.Series({"d": 2})).low.tolist() == [0, 0, 0, 2]
    assert limits(min_coverage=0.51).cover == 3
    assert limits(max_exposure={"a": 0}).high[0] == 0
    for bad in (-1, 1.5, float("nan"), -0.1):
        with pytest.raises(ValueError, match="min_exposure"):
            limits(min_exposure=bad)
    for bad in ("3", True, None):
        with pytest.raises(TypeError, match="max_exposure of item 'a'"):
            limits(max_exposure={"a": bad})
    with pytest.raises(UnknownIdError, match=r"'x'.*min_exposure can name only items of the clicks"):
        limits(min_exposure={"x": 1})
    with pytest.raises(ValueError, match="asks for 5 items, but there are 4"):
        limits(min_coverage=5)


def test_what_cannot_be_reranked(model):
    clicks = bmcd.Clicks.from_matrix(np.eye(3, 4))
    with pytest.raises(TypeError, match="a fitted recommender, or a users x items matrix"):
        bmcd.rerank(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"the scores are \(4, 3\), but the clicks are \(3, 4\)"):
        bmcd.rerank(np.zeros((4, 3)), clicks=clicks)
    with pytest.raises(ValueError, match="the score of user 0 and item 1 is nan, and 8 more are not finite"):
        bmcd.rerank(np.full((3, 4), np.nan), clicks=clicks)
    with pytest.raises(ValueError, match=r"probability of user 0 and item 1 is 2.0, .* between 0 and 1"):
        bmcd.rerank(np.full((3, 4), 2.0), clicks=clicks, value="probability")
    with pytest.raises(ValueError, match="value must be"):
        bmcd.rerank(np.zeros((3, 4)), clicks=clicks, value="odds")
    with pytest.raises(ValueError, match="value is only for a matrix"):
        bmcd.rerank(model, value="score")
    with pytest.raises(ValueError, match="not the clicks the model was fitted to"):
        bmcd.rerank(model, clicks=clicks)
    with pytest.raises(ValueError, match="k must be a whole number"):
        bmcd.rerank(model, k=0)


def test_a_user_with_few_items_left_gets_those():
    clicks = bmcd.Clicks.from_matrix([[1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    reranking = bmcd.rerank(np.zeros((4, 4)), k=3, clicks=clicks, min_exposure=1, max_exposure=3)
    assert reranking.recommendations.groupby("user").size().to_dict() == {0: 1, 2: 3, 3: 3}


def test_numbers_are_ready_for_json(model):
    reranking = bmcd.rerank(model, k=3, min_exposure=0.05)
    again = json.loads(json.dumps(reranking.to_dict()))
    assert again["before"]["total"] - again["after"]["total"] == pytest.approx(again["price"], abs=1e-9)
    assert again["after"]["least_shown"] >= 6
    assert f"{reranking.price:,.2f} expected hits" in repr(reranking)


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    clicks = bmcd.Clicks.from_matrix(np.eye(3, 4))
    for name in ("max_flow", "min_cost_flow"):
        monkeypatch.setitem(sys.modules, f"ortools.graph.python.{name}", None)
    with pytest.raises(ImportError, match=r'pip install "bmcd\[rerank\]"'):
        bmcd.rerank(np.zeros((3, 4)), clicks=clicks)


@pytest.fixture(scope="module")
def grouped():
    rng = np.random.default_rng(4)
    clicks = bmcd.Clicks.from_matrix(rng.random((300, 60)) < 0.1 * np.linspace(2, 0.3, 60))
    sections = [f"s{i % 5}" if i % 7 else "" for i in range(60)]
    return clicks.with_items({"item": clicks.items.tolist(), "section": sections, "both": ["x|y"] * 60})


def test_candidates_give_what_all_items_give_where_they_suffice(grouped):
    model = bmcd.Blend({"EASE": bmcd.baselines.EASE(), "Popularity": bmcd.baselines.Popularity()}).fit(grouped)
    limits = {"min_exposure": 10, "group": "section", "min_group_exposure": {"s4": 0.2}, "max_group_exposure": 0.4}
    every, few = (bmcd.rerank(model, 5, candidates=n, **limits) for n in (None, 30))
    assert (every.candidates, few.candidates) == (None, 30)
    assert few.after.exposure.min() >= 10
    assert few.after.total == pytest.approx(every.after.total, rel=0.01)
    assert few.after.total <= every.after.total + every.largest_error + few.largest_error
    shown = few.group_exposure().set_index("group")
    assert shown.loc["s4", "after"] >= shown.loc["s4", "floor"] == 300
    assert few.recommendations.columns.tolist() == every.recommendations.columns.tolist()


def test_limits_of_groups_that_cannot_be(grouped):
    scores = np.random.default_rng(1).random((300, 60))
    for options, text in [
        ({"min_group_exposure": {"s9": 3}}, "there is no group 's9'"),
        ({"min_group_exposure": 0.3}, "floors of groups add up to 2,250 .* 1,500 recommendations: 750 too few"),
        (
            {"max_group_exposure": 0.02, "max_exposure": 50},
            "caps of groups .* allow 600 recommendations, but 1,500 are",
        ),
        ({"min_group_exposure": {"s1": 9}, "max_group_exposure": {"s1": 5}}, r"'s1' \(9 above 5\)"),
        ({"min_group_exposure": 1, "min_coverage": 50}, "cannot be combined"),
        ({"min_group_exposure": 1, "group": "both"}, "60 items have several, such as item 0: x, y"),
        ({"group": "section"}, "group goes with"),
        (
            {"min_group_exposure": {"s1": 1.0}, "max_exposure": 50},
            "'s1' should have 1,500 recommendations, but at most",
        ),
        ({"min_exposure": 1, "candidates": 2}, "at least k"),
    ]:
        with pytest.raises(ValueError, match=text):
            bmcd.rerank(scores, 5, clicks=grouped, **options)
