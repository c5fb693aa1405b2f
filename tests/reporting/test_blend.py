"""The report on a blend: what each model adds, groups of its Tastes, its models alone, the price of diversity."""

import numpy as np
import pytest

import bmcd
from bmcd.evaluation.diversity_price import diversity_price
from bmcd.reporting.results import gather_results
from bmcd.reporting.sentences import percent

CHAINS = {"draws": 4, "warmup": 5, "chains": 2, "thin": 2}


@pytest.fixture(scope="module")
def clicks():
    clicks = bmcd.simulate(150, 15, consensuses=2, alpha=5.0, mean_clicks=6.0, seed=3).clicks.at_least(4)
    return clicks.hold_out(2, seed=3)


@pytest.fixture(scope="module")
def blend(clicks):
    models = {"Tastes": bmcd.Tastes(3), "EASE": bmcd.baselines.EASE(30.0)}
    return bmcd.Blend(models, folds=2).fit(clicks[0], seed=1, fit_options={"Tastes": CHAINS})


@pytest.fixture(scope="module")
def texts(blend, clicks, read_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "r.html"
    bmcd.report(blend, *clicks, path, k=2)
    page = read_page(path.read_text("utf-8"))
    assert page.open == []
    return page.texts


def test_shares_are_parts_of_the_whole_and_follow_the_weights(blend):
    shares = blend.shares(2)
    assert list(shares) == ["Tastes", "EASE"]
    assert sum(shares.values()) == pytest.approx(1)
    rule = blend._rule
    without = rule._replace(weights=np.where(np.arange(rule.weights.shape[1]) < 2, rule.weights, 0.0))
    blend._answers.rule = without  # EASE counts for nothing
    try:
        assert blend.shares(2) == pytest.approx({"Tastes": 1.0, "EASE": 0.0})
    finally:
        blend._answers.rule = rule


def test_it_says_what_each_model_adds(texts, blend, clicks):
    text = " ".join(texts["blend"].split())
    for name, share in blend.shares(2).items():
        assert f"{name} {percent(share)}" in text
        alone = bmcd.evaluate(blend.models_[name].recommend(2), *clicks, k=2)
        assert f"{name} {percent(share)} {percent(alone.accuracy)}" in text
    assert "Tastes: log probability" in text


def test_its_models_are_beside_it_and_the_default_of_the_same_kind_is_not(texts, blend, clicks):
    results = gather_results(blend, *clicks, k=2)
    assert results.parts == {"Tastes": "Tastes", "EASE": "EASE"}
    assert "EASE" not in results.rivals
    assert "Popularity" in results.rivals
    assert results.by_k[0].tested.entries["EASE"].model is blend.models_["EASE"]
    own = gather_results(blend, *clicks, k=2, rivals={"EASE": bmcd.baselines.EASE(5.0)})
    assert own.parts == {"Tastes": "Tastes", "EASE": "EASE alone"}
    assert "of 6 methods" in texts["summary"] or "works best here" in texts["summary"]


def test_groups_are_those_of_its_tastes(texts, blend):
    best = blend.models_["Tastes"].clusters_[0]
    assert "Users have several of 3 tastes" in texts["groups"]
    assert f"Taste 1: {percent(best.share)} of visits" in texts["groups"]
    assert "Visits taste" in texts["users"]


def test_the_method_tells_of_folds_and_of_each_model(texts):
    text = " ".join(texts["method"].split())
    assert "dealt into 2 parts" in text
    assert "blend with 2 folds: Tastes: Tastes(n_tastes=3); EASE: EASE(regularization=30.0)" in text
    assert "Tastes: chains 2, each 5 sweeps of warm-up and 4 draws" in text


def test_a_blend_without_groups_has_no_section_of_them(clicks, read_page, tmp_path):
    model = bmcd.Blend(bmcd.baselines.EASE(), folds=2).fit(clicks[0])
    for test in (clicks[1], None):
        page = read_page(bmcd.report(model, None, test, tmp_path / "r.html", k=2, rivals={}).read_text("utf-8"))
        assert "groups" not in page.sections
        assert "blend" in page.sections
        assert "nothing that has to settle" in page.texts["convergence"]


def test_the_price_of_diversity_is_the_model_minus_the_others(blend, clicks):
    compared = bmcd.compare({"Blend": blend, **blend.models_}, *clicks, k=2)
    price = {price.other: price for price in diversity_price(compared)}["EASE"]
    difference = compared.value("Blend", "rare_share") - compared.value("EASE", "rare_share")
    assert price.rare_share.difference == pytest.approx(difference)
    assert price.rare_share.low <= price.rare_share.difference <= price.rare_share.high
    shown = compared.value("Blend", "coverage") - compared.value("EASE", "coverage")
    assert price.coverage == (shown, None, None)
