"""The case study's quick form from end to end, and that its numbers are those of the package."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from experiments.case_study import reproduce_case_study
from experiments.case_study.data import DataSet, all_clicks, own_data, split
from experiments.case_study.plan import DATA_SETS, QUICK, Fit, quick_part, sizes_for
from experiments.case_study.reproducing import run_studies
from experiments.case_study.study import MAIN
from experiments.case_study.tables import expected
from experiments.case_study.words import in_short
from typer.testing import CliRunner

import bmcd
from bmcd.cli import app

TABLES = {
    *("data_sets", "cluster_choice", "accuracy_by_clusters", "accuracy", "probabilities", "cutoffs", "coverage"),
    *("rare", "similarity", "rare_hits", "settings"),
}
FIGURES = ("calibration", "cutoff", "exposure", "alpha", "kmeans", "accuracy_by_clusters")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """All three data sets, a small part of each."""
    folder = tmp_path_factory.mktemp("case-study")
    return reproduce_case_study(folder, quick=True, n_workers=1, progress=False)


@pytest.fixture(scope="module")
def studies(page):
    """What the page was made from: everything is done, so this only reads."""
    sizes = {quick_part(one): sizes_for(one, quick=True) for one in DATA_SETS.values()}
    return {one.name: one for one in run_studies(sizes, page.parent / "results", n_workers=1, progress=False)}


@pytest.fixture(scope="module")
def own_file(tmp_path_factory):
    """Clicks of two kinds of people, with titles, in columns of other names."""
    rng = np.random.default_rng(3)
    rows = []
    for person in range(60):
        likes = np.where(np.arange(12) % 2 == person % 2, 4.0, 1.0)
        chosen = rng.choice(12, size=rng.integers(5, 8), replace=False, p=likes / likes.sum())
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


def test_numbers_agree_with_each_other(page, studies):
    found = table(page, "accuracy").merge(table(page, "rare"), on=["data set", "method"])
    found = found.merge(table(page, "coverage"), on=["data set", "method"]).set_index(["data set", "method"])
    for name, study in studies.items():
        shown = study.description["n_users"] * study.k
        own = found.loc[name]
        np.testing.assert_allclose(own["hits"], own["accuracy %"] / 100 * shown, atol=0.5 + 0.005 / 100 * shown)
        np.testing.assert_allclose(own["rare recommendations"], own["% of all"] / 100 * shown, atol=0.1)
        np.testing.assert_allclose(own["coverage, items"], own["coverage"] * 24, atol=0.01)
        others = own.drop(index=MAIN)
        gap = others["accuracy %"] - own.loc[MAIN, "accuracy %"]
        np.testing.assert_allclose(others["minus BMCD"], gap, atol=0.011)
        assert ((others["from"] <= others["minus BMCD"]) & (others["minus BMCD"] <= others["to"])).all()
        assert (own["correct coverage"] <= own["coverage"]).all()
        for method in study.methods:
            counts = study.item_counts(method)
            assert counts.recommended.sum() == shown
            assert counts.hits.sum() == own.loc[method, "hits"] == sum(study.methods[method]["user_hits"])
        calibration = study.calibration
        assert len(calibration.hit) == shown
        assert calibration.hit.sum() == own.loc[MAIN, "hits"]


def test_the_table_over_clusters_has_the_main_result(page, studies):
    found = table(page, "accuracy_by_clusters")
    for name, study in studies.items():
        rows = found[(found["data set"] == name) & (found["chains are"] == "as planned")].set_index("C")
        assert set(QUICK.clusters) <= set(rows.index)
        main = rows.loc[study.roles.main.n_clusters]
        assert main["2 chains, %"] == pytest.approx(100 * study.measure(MAIN, "accuracy"), abs=0.006)
        assert main["worst"] <= main["1 chain, %"] <= main["best"]


def test_cutoffs_do_what_they_say(page, studies):
    for row in table(page, "cutoffs").dropna().itertuples(index=False):
        if row[0] in studies:
            of = studies[row[0]].calibration
            kept = of.probability >= row[3]
            assert of.hit[kept].mean() == pytest.approx(row[5] / 100, abs=1e-4)
            assert kept.mean() == pytest.approx(row[4] / 100, abs=1e-4)
            # In percent with two digits, so a rival may seem to have up to half of the last one more.
            assert row[5] >= row[2] - 0.01
            below = of.probability >= row[3] - 0.01
            assert row[3] == 0 or of.hit[below].mean() < row[2] / 100 + 1e-4


@pytest.mark.parametrize("name", ["EASE", "Popularity"])
def test_a_rival_is_what_evaluate_says(studies, name):
    study = studies["msweb"]
    train, test = split(study.data)
    tuned = study.rivals[name]["tuning"]
    model = getattr(bmcd.baselines, name)(**(tuned["best"] if tuned else {}))
    found = bmcd.evaluate(model.fit(train).recommend(study.k), train, test, k=study.k, n_popular=5)
    for measure in ("accuracy", "coverage", "correct_coverage", "novelty", "intra_list_similarity", "n_rare"):
        assert study.measure(name, measure) == pytest.approx(getattr(found, measure), abs=1e-12)


def test_bmcd_is_what_the_estimator_recommends(studies):
    study = studies["eshop-1"]
    train, test = split(study.data)
    model = bmcd.BMCD(study.roles.main.n_clusters)
    model.fit(train, draws=QUICK.draws, warmup=QUICK.warmup, chains=QUICK.chains, seed=0, progress=False)
    recommended = model.recommend(study.k, max_draws=QUICK.used * QUICK.chains)
    found = bmcd.evaluate(recommended, train, test, k=study.k, n_popular=5)
    for measure in ("accuracy", "coverage", "novelty", "n_users_with_rare"):
        assert study.measure(MAIN, measure) == pytest.approx(getattr(found, measure), abs=1e-12)
    assert study.calibration.mean_probability == pytest.approx(found.calibration.mean_probability, abs=1e-4)


def test_clusters_are_chosen_as_by_choose_n_clusters(studies):
    study = studies["eshop-2"]
    choice = bmcd.choose_n_clusters(
        split(study.data)[0], QUICK.clusters, holdout=QUICK.holdout, chains=QUICK.choice_chains,
        warmup=QUICK.choice_warmup, draws=QUICK.choice_draws, n_threads=1, progress=False,
    )  # fmt: skip
    assert study.choice.recommended == choice.recommended
    columns = ["held_out", "held_out_se", "behind", "behind_se", "chain_gap"]
    np.testing.assert_allclose(study.choice.held_out[columns], choice.table[columns], atol=1e-5)


def test_words_say_who_is_ahead(studies):
    for study in studies.values():
        said = in_short(study)
        parts = {1: "It loses to", 0: "It cannot be told apart from", -1: "It beats"}
        sentence = {sign: re.search(rf"{start}.*?\.(?= [A-Z]|$)", said) for sign, start in parts.items()}
        for name in study.rivals:
            gap = study.differences[name]
            right = sentence[gap.sign]
            assert right is not None
            assert name in right[0]
            assert f"{abs(100 * gap.value):.2f} points" in right[0]
            assert all(name not in other[0] for sign, other in sentence.items() if sign != gap.sign and other)


def test_a_second_run_does_nothing_again(page):
    before, times = files_of(page.parent), [p.stat().st_mtime_ns for p in sorted(page.parent.rglob("*.json"))]
    assert reproduce_case_study(page.parent, quick=True, n_workers=1, progress=False) == page
    assert files_of(page.parent) == before
    assert [p.stat().st_mtime_ns for p in sorted(page.parent.rglob("*.json"))] == times


def test_own_clicks_by_two_workers_and_again_by_one(own_file, tmp_path):
    titles = own_file.with_name("titles.csv")

    def run(n_workers):
        return reproduce_case_study(
            tmp_path, quick=True, clicks=own_file, user="who", item="what", titles=titles, most_clicked=12,
            at_least=5, remove=2, n_workers=n_workers, progress=False,
        )  # fmt: skip

    page = run(2)
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
    options = {"clicks": own_file, "user": "who", "item": "what", "progress": False}
    with pytest.raises(bmcd.ClicksError, match=r"my clicks\.csv: 0 of 60 users have 13 clicks or more") as caught:
        reproduce_case_study(tmp_path, **options)
    assert "The most clicks of a user are 7" in str(caught.value)
    with pytest.raises(bmcd.ClicksError, match=r"my clicks\.csv: 5 clicks of users with at least 5"):
        reproduce_case_study(tmp_path, at_least=5, remove=5, **options)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        reproduce_case_study(tmp_path, clicks=tmp_path / "nowhere.csv")
    assert not list(tmp_path.iterdir())


def test_unknown_data_and_data_given_twice_are_refused(own_file, tmp_path):
    with pytest.raises(ValueError, match=r"no data set 'nrk'.*eshop-1, eshop-2, msweb"):
        reproduce_case_study(tmp_path, data=["nrk"])
    with pytest.raises(ValueError, match="not both"):
        reproduce_case_study(tmp_path, data=["msweb"], clicks=own_file)
    with pytest.raises(ValueError, match="at_least can be chosen for clicks of your own only"):
        reproduce_case_study(tmp_path, at_least=20)


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
    every, (train, test) = all_clicks(data), split(data)
    assert (every.n_users, every.n_items) == (users, 200)
    assert clicks is None or every.n_clicks == clicks
    assert set(np.diff(test.matrix.indptr)) == {data.remove}
    assert np.diff(train.matrix.indptr).min() == data.at_least - data.remove == 3
    assert (train.matrix.multiply(test.matrix)).nnz == 0


def test_seeds_remove_other_clicks():
    data = quick_part(DATA_SETS["msweb"])
    first, second = (split(DataSet(**{**vars(data), "seed": seed}))[1] for seed in (0, 1))
    assert first != second


def test_the_papers_numbers_fit_together():
    for name in ("eshop-1", "eshop-2"):
        told = expected()[name]
        n_users, k = told["description"]["n_users"], told["description"]["k"]
        for method in ("BMCD", "CF"):
            of = told[method]
            assert of["n_users_with_rare"] / n_users == pytest.approx(of["users_with_rare_share"], abs=6e-4)
            for measure in ("coverage", "correct_coverage"):
                assert (200 * of[measure]) == pytest.approx(round(200 * of[measure]))
            misprint = 10 if (name, method) == ("eshop-2", "CF") else 1
            assert misprint * of["n_rare"] / (n_users * k) == pytest.approx(of["rare_share"], abs=6e-4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "nrk"], "eshop-1, eshop-2, msweb"),
        (["--clicks", "nowhere.csv"], "nowhere.csv"),
        (["--clicks", "clicks.csv", "--quick"], "clicks or more"),
    ],
)
def test_the_command_refuses_in_one_line(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text("user,item\nann,a\nbob,b\n")
    result = CliRunner().invoke(app, ["reproduce", "case-study", "-o", "out", *arguments])
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "README.md").exists()
