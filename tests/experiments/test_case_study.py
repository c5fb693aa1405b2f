"""The case study's quick form from end to end, and that its numbers are those of the package."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.case_study import CaseStudy
from experiments.case_study.data import own_data, prepare
from experiments.case_study.plan import BLEND, DATA_SETS, MAIN, PSEUDO, QUICK, TASTES, Fit, quick_part
from experiments.case_study.words import in_short
from experiments.methods import class_named
from experiments.pseudo_mallows import PseudoMallows
from experiments.study import paper_numbers
from experiments.tasks import StudyError

import bmcd

pytestmark = [
    pytest.mark.deep,
    pytest.mark.xdist_group("case study"),
    pytest.mark.chance(0),
]  # the study is run once

TABLES = {
    *("data_sets", "cluster_choice", "accuracy_by_clusters", "accuracy", "probabilities", "cutoffs", "coverage"),
    *("rare", "similarity", "rare_hits", "settings", "probabilities_of_all", "most_probable", "weights"),
}
FIGURES = ("calibration", "cutoff", "kept", "exposure", "alpha", "kmeans", "accuracy_by_clusters")


@pytest.fixture
def own_file(tmp_path_factory, rotating_seed):
    """Clicks of two kinds of people, with titles, in columns of other names."""
    rng = np.random.default_rng(rotating_seed)
    rows = []
    for person in range(60):
        likes = np.where(np.arange(12) % 2 == person % 2, 4.0, 1.0)
        chosen = rng.choice(12, size=5 + person % 3, replace=False, p=likes / likes.sum())
        rows += [{"who": f"p{person}", "what": f"i{item}"} for item in chosen]
    file = tmp_path_factory.mktemp("own") / "my clicks.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    titles = pd.DataFrame({"what": [f"i{item}" for item in range(12)], "title": [f"Film {i}" for i in range(12)]})
    titles.to_csv(file.with_name("titles.csv"), index=False)
    return file


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def table(page: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(page.parent / "tables" / f"{name}.csv")


def test_every_table_and_figure_is_made_and_linked(page):
    assert {p.stem for p in (page.parent / "tables").iterdir()} == TABLES
    wanted = {f"{figure}_{name}" for figure in FIGURES for name in DATA_SETS} | {"item_popularity"}
    assert {p.stem for p in (page.parent / "figures").iterdir()} == wanted
    linked = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert sorted(linked) == sorted([f"tables/{n}.csv" for n in TABLES] + [f"figures/{n}.png" for n in wanted])
    for figure in wanted:
        assert (page.parent / "figures" / f"{figure}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_numbers_agree_with_each_other(page, data_sets):
    tables = table(page, "accuracy").merge(table(page, "rare"), on=["data set", "method"])
    tables = tables.merge(table(page, "coverage"), on=["data set", "method"]).set_index(["data set", "method"])
    for name, results in data_sets.items():
        shown = results["describe"]["n_users"] * results.plan.data.remove
        rows = tables.loc[name]
        np.testing.assert_allclose(rows["hits"], rows["accuracy %"] / 100 * shown, atol=0.5 + 0.005 / 100 * shown)
        np.testing.assert_allclose(rows["rare recommendations"], rows["% of all"] / 100 * shown, atol=0.1)
        np.testing.assert_allclose(rows["coverage, items"], rows["coverage"] * 24, atol=0.01)
        others = rows.drop(index=MAIN)
        gap = others["accuracy %"] - rows.loc[MAIN, "accuracy %"]
        np.testing.assert_allclose(others["minus BMCD"], gap, atol=0.011)
        assert ((others["from"] <= others["minus BMCD"]) & (others["minus BMCD"] <= others["to"])).all()
        assert (rows["correct coverage"] <= rows["coverage"]).all()
        for method in results.methods:
            counts = results.item_counts(method)
            assert counts.recommended.sum() == shown
            assert counts.hits.sum() == rows.loc[method, "hits"] == sum(results.methods[method]["user_hits"])
        best = rows.loc[results.best_baseline, "accuracy %"]
        behind = rows.drop(index=results.best_baseline)
        np.testing.assert_allclose(behind["minus best baseline"], behind["accuracy %"] - best, atol=0.011)
        assert (
            (behind["from "] <= behind["minus best baseline"]) & (behind["minus best baseline"] <= behind["to "])
        ).all()
        for method in (MAIN, TASTES, BLEND):
            calibration = results.calibration(method)
            assert len(calibration.hit) == shown
            assert calibration.hit.sum() == rows.loc[method, "hits"]


def test_the_table_over_clusters_has_the_main_result(page, data_sets):
    by_clusters = table(page, "accuracy_by_clusters")
    for name, results in data_sets.items():
        rows = by_clusters[
            (by_clusters["data set"] == name) & (by_clusters["chains are"] == "as planned")
        ].set_index("C")
        assert set(QUICK.clusters) <= set(rows.index)
        main = rows.loc[results.variants[MAIN].n_clusters]
        assert main["2 chains, %"] == pytest.approx(100 * results.measure(MAIN, "accuracy"), abs=0.006)
        assert main["worst"] <= main["1 chain, %"] <= main["best"]


@pytest.mark.parametrize("name", ["EASE", "PoissonFactorisation", "Popularity"])
def test_a_baseline_is_what_evaluate_says(data_sets, name):
    results = data_sets["msweb"]
    _, train, test = prepare(results.plan.data)
    tuned = results.baselines[name]["tuning"]
    model = class_named(name)(**(tuned["best"] if tuned else {}))
    evaluation = bmcd.evaluate(
        model.fit(train).recommend(results.plan.data.remove), train, test, k=results.plan.data.remove, n_popular=5
    )
    for measure in ("accuracy", "coverage", "correct_coverage", "novelty", "intra_list_similarity", "n_rare"):
        assert results.measure(name, measure) == pytest.approx(getattr(evaluation, measure), abs=1e-12)


def test_bmcd_is_what_the_estimator_recommends(data_sets):
    results = data_sets["eshop-1"]
    _, train, test = prepare(results.plan.data)
    model = bmcd.BMCD(results.variants[MAIN].n_clusters)
    model.fit(train, **QUICK.sampling, seed=0, progress=False)
    k = results.plan.data.remove
    recommended = model.recommend(k, max_draws=QUICK.predicting_draws * QUICK.sampling["chains"])
    evaluation = bmcd.evaluate(recommended, train, test, k=k, n_popular=5)
    for measure in ("accuracy", "coverage", "novelty", "n_users_with_rare"):
        assert results.measure(MAIN, measure) == pytest.approx(getattr(evaluation, measure), abs=1e-12)
    probability = evaluation.calibration.mean_probability
    assert results.calibration().mean_probability == pytest.approx(probability, abs=1e-4)


def test_pseudo_mallows_is_what_the_estimator_recommends(page, data_sets):
    results = data_sets["eshop-1"]
    _, train, test = prepare(results.plan.data)
    n_clusters = results.variants[MAIN].n_clusters
    model = PseudoMallows(n_clusters).fit(train, **QUICK.sampling, seed=0, progress=False)
    k = results.plan.data.remove
    recommended = model.recommend(k, max_draws=QUICK.predicting_draws * QUICK.sampling["chains"])
    evaluation = bmcd.evaluate(recommended, train, test, k=k, n_popular=5)
    for measure in ("accuracy", "coverage", "novelty", "n_users_with_rare"):
        assert results.measure(PSEUDO, measure) == pytest.approx(getattr(evaluation, measure), abs=1e-12)
    row = table(page, "accuracy").set_index(["data set", "method"]).loc[("eshop-1", PSEUDO)]
    assert int(row["C or tastes"]) == n_clusters


def test_clusters_are_chosen_as_by_choose_n_clusters(data_sets):
    results = data_sets["eshop-2"]
    choice = bmcd.choose_n_clusters(
        prepare(results.plan.data).train,
        QUICK.clusters,
        holdout=QUICK.holdout,
        **QUICK.choice_sampling,
        n_threads=1,
        progress=False,
    )
    assert results.choice.recommended == choice.recommended
    columns = ["held_out", "held_out_se", "behind", "behind_se", "chain_gap"]
    np.testing.assert_allclose(results.choice.held_out[columns], choice.table[columns], atol=1e-5)


def test_words_say_who_is_ahead(data_sets):
    for results in data_sets.values():
        text = in_short(results)
        parts = {1: "It loses to", 0: "It does not differ significantly from", -1: "It beats"}
        sentence = {sign: re.search(rf"{start}.*?\.(?= [A-Z]|$)", text) for sign, start in parts.items()}
        for name in results.baselines:
            gap = results.differences[name]
            right = sentence[gap.sign]
            assert right is not None
            assert name in right[0]
            assert f"{abs(100 * gap.value):.2f} points" in right[0]
            assert all(name not in other[0] for sign, other in sentence.items() if sign != gap.sign and other)


def test_a_second_run_does_nothing_again(page):
    before, times = files_of(page.parent), [p.stat().st_mtime_ns for p in sorted(page.parent.rglob("*.json"))]
    assert CaseStudy(quick=True).reproduce(page.parent, n_workers=1, progress=False) == page
    assert files_of(page.parent) == before
    assert [p.stat().st_mtime_ns for p in sorted(page.parent.rglob("*.json"))] == times


@pytest.mark.filterwarnings("ignore::bmcd.errors.FitWarning")  # on so few clicks the largest number may be the best
def test_own_clicks_and_again_what_was_removed(own_file, tmp_path, deep):
    """Deep: first by two workers. That their number changes nothing is tested on tasks, in test_tasks.py."""
    titles = own_file.with_name("titles.csv")

    def run(n_workers):
        columns = {"user": "who", "item": "what", "titles": titles}
        study = CaseStudy(quick=True, clicks=own_file, **columns, most_clicked=12, at_least=5, remove=2)
        return study.reproduce(tmp_path, n_workers=n_workers, progress=False)

    page = run(2 if deep else 1)
    text = page.read_text()
    assert "my-clicks" in text
    assert "NRK data set" not in text
    assert "eshop" not in text
    assert table(page, "rare_hits")["item"].str.startswith("Film ").all()
    before = files_of(tmp_path)
    removed = [tmp_path / "results" / "my-clicks" / f"{name}.json" for name in (Fit(2).name, "ALS", "held-out-3")]
    kept = [json.loads(file.read_text())["result"] for file in removed]
    for file in removed:
        file.unlink()
    run(1)
    assert [json.loads(file.read_text())["result"] for file in removed] == kept
    results = {str(file.relative_to(tmp_path)) for file in removed}
    after = files_of(tmp_path)
    assert {k: v for k, v in after.items() if k not in results} == {
        k: v for k, v in before.items() if k not in results
    }


def test_too_few_clicks_are_refused_with_numbers(own_file, tmp_path):
    options = {"clicks": own_file, "user": "who", "item": "what"}
    with pytest.raises(bmcd.ClicksError, match=r"my clicks\.csv: 0 of 60 users have 13 clicks or more") as caught:
        CaseStudy(**options)
    assert "The most clicks of a user are 7" in str(caught.value)
    with pytest.raises(bmcd.ClicksError, match=r"my clicks\.csv: 5 clicks of users with at least 5"):
        CaseStudy(at_least=5, remove=5, **options)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        CaseStudy(clicks=tmp_path / "nowhere.csv")


def test_unknown_data_and_data_given_twice_are_refused(own_file):
    with pytest.raises(StudyError, match=r"no data set 'nrk'.*eshop-1, eshop-2, msweb"):
        CaseStudy(data=["nrk"])
    with pytest.raises(StudyError, match="not both"):
        CaseStudy(data=["msweb"], clicks=own_file)
    with pytest.raises(StudyError, match="--at-least: only for your own clicks"):
        CaseStudy(at_least=20)


def test_other_clicks_in_the_same_file_are_other_data(own_file, tmp_path):
    copy = tmp_path / own_file.name
    copy.write_bytes(own_file.read_bytes())
    protocol = {"most_clicked": 12, "at_least": 5, "remove": 2, "n_popular": None}
    before = own_data(copy, **protocol)
    copy.write_bytes(own_file.read_bytes() + b"p1,i99\n")
    assert own_data(copy, **protocol) != before


@pytest.mark.parametrize(
    ("name", "users", "clicks"), [("eshop-1", 2877, 61363), ("eshop-2", 852, None), ("msweb", 4127, None)]
)
def test_the_full_data_sets_are_those_of_the_protocol(name, users, clicks):
    data = DATA_SETS[name]
    kept, train, test = prepare(data)
    assert (kept.n_users, kept.n_items) == (users, 200)
    assert clicks is None or kept.n_clicks == clicks
    assert set(np.diff(test.matrix.indptr)) == {data.remove}
    assert np.diff(train.matrix.indptr).min() == data.at_least - data.remove == 3
    assert (train.matrix.multiply(test.matrix)).nnz == 0


def test_seeds_remove_other_clicks(rotating_seed):
    data = quick_part(DATA_SETS["msweb"])
    first, again, other = (prepare(replace(data, seed=seed)).test for seed in (rotating_seed, rotating_seed, 0))
    assert first == again
    assert first != other


def test_the_papers_numbers_fit_together():
    for name in ("eshop-1", "eshop-2"):
        numbers = paper_numbers("experiments.case_study")[name]
        n_users, k = numbers["description"]["n_users"], numbers["description"]["k"]
        for method in ("BMCD", "CF"):
            measures = numbers[method]
            share = measures["n_users_with_rare"] / n_users
            assert share == pytest.approx(measures["users_with_rare_share"], abs=6e-4)
            for measure in ("coverage", "correct_coverage"):
                assert (200 * measures[measure]) == pytest.approx(round(200 * measures[measure]))
            misprint = 10 if (name, method) == ("eshop-2", "CF") else 1
            assert misprint * measures["n_rare"] / (n_users * k) == pytest.approx(measures["rare_share"], abs=6e-4)
