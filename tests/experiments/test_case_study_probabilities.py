"""Tastes, blends and probabilities in the quick case study: their numbers, and words that go by the numbers."""

import re

import numpy as np
import pandas as pd
import pytest
from experiments.case_study.data import prepare
from experiments.case_study.forecasts import KEPT_SHARES, Forecasts, reliability
from experiments.case_study.plan import BLEND, MAIN, PSEUDO, QUICK, TASTES
from experiments.case_study.results import DataSetResults
from experiments.case_study.words import in_short
from experiments.methods import PoissonFactorisation

import bmcd
from bmcd.inference.tastes.priors import TastePriors

pytestmark = [pytest.mark.deep, pytest.mark.xdist_group("case study")]  # the study is run once


def test_cutoffs_do_what_they_say(page, data_sets):
    for row in pd.read_csv(page.parent / "tables/cutoffs.csv").dropna().itertuples(index=False):
        if row[0] in data_sets:
            name, method, _, target, cutoff, share, accuracy = row
            calibration = data_sets[name].calibration(method)
            kept = calibration.probability >= cutoff
            assert calibration.hit[kept].mean() == pytest.approx(accuracy / 100, abs=1e-4)
            assert kept.mean() == pytest.approx(share / 100, abs=1e-4)
            # In percent with two digits, so a baseline may seem to have up to half of the last one more.
            assert accuracy >= target - 0.01
            below = calibration.probability >= cutoff - 0.01
            assert cutoff == 0 or calibration.hit[below].mean() < target / 100 + 1e-4


def models_of_blends(results):
    """The fitted estimators by method: Tastes, its blend with EASE, and EASE with probabilities."""
    train = prepare(results.plan.data).train
    chosen = results.settings[TASTES]
    tastes = bmcd.Tastes(chosen["n_tastes"], priors=TastePriors(a=chosen["a"]), chains=QUICK.taste_chains)
    ease = bmcd.baselines.EASE(**results.baselines["EASE"]["tuning"]["best"])
    models = {
        TASTES: bmcd.Tastes("auto", chains=QUICK.taste_chains),
        BLEND: bmcd.Blend({"Tastes": tastes, "EASE": ease}),
        "Blend(EASE)": bmcd.Blend(ease),
    }
    return {name: model.fit(train, seed=0, n_threads=1, progress=False) for name, model in models.items()}


@pytest.mark.filterwarnings("ignore::bmcd.errors.FitWarning")  # few clicks, many tastes
def test_tastes_and_blends_are_what_the_estimators_recommend(data_sets):
    results = data_sets["eshop-2"]
    _, train, test = prepare(results.plan.data)
    k = results.plan.data.remove
    for name, model in models_of_blends(results).items():
        evaluation = bmcd.evaluate(model.recommend(k, n_threads=1), train, test, k=k, n_popular=5)
        result = results.forecasters[name]
        assert result["measures"]["accuracy"] == pytest.approx(evaluation.accuracy, abs=1e-12)
        assert result["measures"]["coverage"] == evaluation.coverage
        measured = result["forecasts"]["recommended"]
        calibration = evaluation.calibration
        assert measured["ece"][0] == pytest.approx(calibration.expected_calibration_error, abs=1e-9)
        assert measured["brier"][0] == pytest.approx(calibration.brier, abs=1e-9)
        low, high = evaluation.interval("brier").low, evaluation.interval("brier").high
        assert measured["brier"][1:] == pytest.approx([low, high], abs=1e-9)
        probability = model.probabilities(k, n_threads=1)
        clicked = test.matrix.toarray().astype(bool)
        error = (probability - clicked)[~train.matrix.toarray().astype(bool)]
        assert result["forecasts"]["all"]["brier"][0] == pytest.approx(np.mean(error**2), abs=1e-9)


def test_a_baseline_with_rates_has_its_own_probabilities(data_sets):
    results = data_sets["eshop-1"]
    _, train, test = prepare(results.plan.data)
    k, name = results.plan.data.remove, "PoissonFactorisation"
    model = PoissonFactorisation(**results.baselines[name]["tuning"]["best"]).fit(train)
    calibration = bmcd.evaluate(model.recommend(k), train, test, k=k).calibration
    measured = results.forecasters[name]["forecasts"]["recommended"]
    assert measured["mean_probability"][0] == pytest.approx(calibration.mean_probability, abs=1e-9)
    assert measured["brier"][0] == pytest.approx(calibration.brier, abs=1e-9)


def test_every_baseline_has_probabilities_beside_those_of_the_models(page, data_sets):
    for name in ("probabilities", "probabilities_of_all", "most_probable"):
        rows = pd.read_csv(page.parent / f"tables/{name}.csv")
        for data_set, results in data_sets.items():
            wanted = {
                MAIN,
                PSEUDO,
                TASTES,
                BLEND,
                "Blend(Tastes)",
                *(f"Blend({baseline})" for baseline in results.baselines),
            }
            wanted |= {"PoissonFactorisation"}  # which has its own as well
            assert set(rows[rows["data set"] == data_set]["method"]) == wanted


def test_the_most_probable_are_as_many_of_every_method(data_sets):
    for results in data_sets.values():
        for place, share in enumerate(KEPT_SHARES):
            for name, result in results.forecasters.items():
                kept = result["forecasts"]["most_probable"][place]
                n = result["measures"]["n_recommendations"]
                assert sum(kept["user_lengths"]) == max(round(share * n), 1)
                assert sum(kept["user_hits"]) <= sum(kept["user_lengths"])
                accuracy, low, high = results.accuracy_when_kept(name, place)
                assert low <= accuracy <= high
                assert accuracy == pytest.approx(sum(kept["user_hits"]) / sum(kept["user_lengths"]))


def with_hits(results, method, other, extra):
    """Return the results with the hits of a method made those of another, and so many more for each user."""
    changed = dict(results.by_task)
    part = results.plan.task_name(TASTES if method == TASTES else "blend-Tastes-EASE")
    hits = [n + extra for n in results.methods[other]["user_hits"]]
    changed[part] = {**changed[part], "user_hits": hits}
    return DataSetResults(results.plan, changed)


@pytest.mark.parametrize(("extra", "said"), [(1, "ahead of"), (0, "level with"), (-1, "behind")])
@pytest.mark.parametrize("method", [TASTES, BLEND])
def test_words_about_the_best_baseline_go_by_the_numbers(data_sets, method, extra, said):
    for results in data_sets.values():
        best = results.best_baseline
        text = in_short(with_hits(results, method, best, extra))
        assert re.search(rf"{re.escape(method)} has [0-9.]+ % and is {said} {best} \(the best baseline\)", text)


def forecasts(seed, shift):
    """Probabilities of 400 users with 50 items each; hits come with them, or a little more often."""
    rng = np.random.default_rng(seed)
    probability = rng.uniform(0.05, 0.6, 20_000)
    hit = rng.random(probability.size) < probability + shift
    return Forecasts(np.repeat(np.arange(400), 50), probability, hit, 400)


@pytest.mark.chance(1e-3)
def test_right_probabilities_have_the_calibration_error_of_chance(rotating_seed):
    """Over 81 seeds the error was 1.00 of that of chance (sd 0.11), its lower end 0.33 (sd 0.15): 5 sd will do."""
    measured = reliability(forecasts(rotating_seed, 0.0), seed=0)
    assert measured["ece"][0] == pytest.approx(measured["ece_by_chance"], rel=0.56)
    assert measured["ece"][1] < 1.06 * measured["ece_by_chance"]


@pytest.mark.chance(1e-5)
def test_probabilities_that_are_too_low_are_found_out(rotating_seed):
    """A standard error of the hit rate is 0.003."""
    measured = reliability(forecasts(rotating_seed, 0.1), seed=0)
    value, low, high = measured["excess"]
    assert value == pytest.approx(-0.1, abs=0.02)
    assert low < value < high < 0
    assert measured["ece"][0] == pytest.approx(0.1, abs=0.02)
    assert measured["ece"][1] > measured["ece_by_chance"]
