import json

import numpy as np
import pytest

import bmcd


@pytest.fixture(scope="module")
def peaked():
    """50 users who like the same items most; the plain lists leave most of the 12 out."""
    rng = np.random.default_rng(3)
    clicked = rng.random((50, 12)) < 0.1
    score = np.clip(rng.random((50, 12)) * 0.2 + np.linspace(0.8, 0, 12), 0, 1)
    test = ~clicked & (rng.random((50, 12)) < score)
    return score, bmcd.Clicks.from_matrix(clicked), bmcd.Clicks.from_matrix(test)


def test_its_own_ladder_goes_from_the_plain_lists_to_all_items(peaked):
    score, clicks, test = peaked
    curve = bmcd.trade_off(score, 2, clicks=clicks, value="probability", test=test, steps=4)
    plain = bmcd.rerank(score, 2, clicks=clicks)
    frame = curve.to_frame()
    assert curve.ladder == "min_coverage"
    assert frame["items_shown"].iloc[0] == plain.before.n_shown < 12
    assert frame["items_shown"].iloc[-1] == 12
    assert frame["given_up"].iloc[0] == 0
    assert (frame["given_up"].diff().dropna() > 0).all()
    assert (frame["price_per_item"].diff().dropna() >= 0).all()  # convex
    assert frame["expected_hits"].tolist() == pytest.approx([r.after.total for r in curve.rerankings])
    one = bmcd.evaluate(curve.rerankings[2].recommendations, clicks, test)
    assert frame["accuracy"][2] == one.accuracy
    assert frame["hits"][2] == one.n_hits
    assert "min_coverage" in repr(curve)
    assert json.dumps(curve.rows(), allow_nan=False)
    assert curve.to_frame("polars")["price_per_item"].is_nan().to_list() == [True, False, False, False]


def test_where_all_items_are_shown_it_raises_the_floor():
    rng = np.random.default_rng(0)
    clicks = bmcd.Clicks.from_matrix(rng.random((60, 6)) < 0.2)
    curve = bmcd.trade_off(rng.random((60, 6)), 2, clicks=clicks, steps=3)
    assert curve.ladder == "min_exposure"
    assert curve.rungs[0] == 0
    assert 15 <= curve.rungs[-1] <= 20  # 120 recommendations of 6 items
    assert curve.to_frame()["least_shown"].tolist()[-1] >= curve.rungs[-1]


def test_ladders_one_can_ask_for(peaked):
    score, clicks, _ = peaked
    caps = bmcd.trade_off(score, 2, clicks=clicks, max_exposure=[1.0, 0.5, {0: 3}], min_coverage=6)
    assert [r.after.n_shown >= 6 for r in caps.rerankings] == [True] * 3
    assert caps.rerankings[2].after.exposure[0] == 3
    with pytest.raises(ValueError, match="only one limit can be a list"):
        bmcd.trade_off(score, 2, clicks=clicks, max_exposure=[1.0], min_exposure=[0])
    with pytest.raises(ValueError, match="empty list"):
        bmcd.trade_off(score, 2, clicks=clicks, max_exposure=[])
    with pytest.raises(ValueError, match="steps must be 2 or more"):
        bmcd.trade_off(score, 2, clicks=clicks, steps=1)
    with pytest.raises(ValueError, match="show all items already"):
        bmcd.trade_off(score, 2, clicks=clicks, min_exposure=1)


def test_it_says_what_a_model_gives_up_against_its_rivals():
    train, test = (
        bmcd.simulate(120, 15, consensuses=2, mean_clicks=6.0, seed=3).clicks.at_least(4).hold_out(2, seed=3)
    )
    ease, popular = bmcd.baselines.EASE().fit(train), bmcd.baselines.Popularity()
    curve = bmcd.trade_off(ease, 2, min_exposure=[0, 1], test=test, rivals={"popularity": popular})
    row = curve.against.iloc[0]
    plain, other = (bmcd.evaluate(model.recommend(2), train, test, k=2) for model in (ease, popular))
    assert row["against"] == "popularity"
    for measure in ("accuracy", "coverage", "novelty", "rare_share"):
        assert row[measure] == pytest.approx(plain.value(measure) - other.value(measure)), measure
    for measure in ("accuracy", "novelty", "rare_share"):
        assert row[f"{measure}_low"] <= row[measure] <= row[f"{measure}_high"]
    assert "EASE without limits, minus its rivals:" in repr(curve)
    assert bmcd.trade_off(ease, 2, min_exposure=[0, 1], test=test).against is None
    with pytest.raises(ValueError, match="rivals need test="):
        bmcd.trade_off(ease, 2, min_exposure=[0, 1], rivals={"popularity": popular})
