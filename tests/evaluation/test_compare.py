import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bmcd
from bmcd import Clicks, baselines
from bmcd.baselines import EASE, Diffusion, ItemKNN, Popularity
from bmcd.cli.compare_config import read_config, run_config
from bmcd.errors import ConfigError
from bmcd.evaluation.comparison_files import clicks_hash
from bmcd.evaluation.intervals import paired_difference, paired_differences
from bmcd.testing import example_clicks

CONFIG = """
k = 3
seed = 5
against = "EASE"

[data]
simulate = {n_users = 80}

[tuning]
folds = 2

[models.Popularity]

[models.EASE]
grid = {regularization = [1.0, 100.0]}

[models.heat]
class = "Diffusion"
options = {mixing = 0.1}
"""


@pytest.fixture(scope="module")
def split():
    return example_clicks().at_least(3).hold_out(1, seed=0)


@pytest.fixture(scope="module")
def found(split):
    train, test = split
    models = {"popular": Popularity(), "[b]EASE|": EASE(5.0), "items": ItemKNN(3).fit(train)}
    return bmcd.compare(models, train, test, k=2, against="items", seed=3)


def test_the_table_holds_what_evaluate_says(found, split):
    train, test = split
    table = found.table.set_index("model")
    assert list(table.index) == ["popular", "[b]EASE|", "items"]
    for name, model in (("popular", Popularity()), ("[b]EASE|", EASE(5.0)), ("items", ItemKNN(3))):
        alone = bmcd.evaluate(model.fit(train).recommend(2), train, test, k=2)
        interval = alone.interval("ndcg", seed=3)
        assert table.loc[name, "accuracy"] == alone.accuracy
        assert table.loc[name, "coverage"] == alone.coverage
        assert table.loc[name, "ndcg_low"] == interval.low
        assert table.loc[name, "ndcg_high"] == interval.high
    assert "coverage_low" not in table
    assert "brier" not in table


def test_differences_are_paired_and_against_the_chosen_one(found):
    table = found.table.set_index("model")
    one, other = (found.entries[name].evaluation for name in ("popular", "items"))
    alone = paired_difference(one, other, "recall", seed=3)
    assert table.loc["popular", "recall_difference"] == alone.difference
    assert table.loc["popular", "recall_difference_low"] == alone.low
    assert table.loc["popular", "recall_p_value"] == alone.p_value
    assert table.loc["items", ["recall_difference", "recall_p_value"]].isna().all()


def test_several_differences_at_once_are_those_one_by_one(found):
    one, other = (found.entries[name].evaluation for name in ("popular", "items"))
    together = paired_differences(one, other, ["accuracy", "mrr"])
    assert together == {name: paired_difference(one, other, name) for name in ("accuracy", "mrr")}


def test_fitted_models_are_used_as_they_are(found):
    table = found.table.set_index("model")
    assert math.isnan(table.loc["items", "fit_seconds"])
    assert table.loc["popular", "fit_seconds"] >= 0
    assert (table["recommend_seconds"] > 0).all()
    assert [entry.fitted_before for entry in found.entries.values()] == [False, False, True]


def test_models_are_fitted_with_their_options(split):
    seen = []

    class Spy(Popularity):
        def fit(self, clicks, **options):
            seen.append(options)
            return super().fit(clicks)

    bmcd.compare({"a": Spy(), "b": Spy()}, *split, k=1, seed=7, fit={"b": {"n_threads": 1, "seed": 9}})
    assert seen == [{"seed": 7}, {"seed": 9, "n_threads": 1}]


def test_a_model_fitted_to_other_clicks_is_refused(split):
    train, test = split
    with pytest.raises(ValueError, match="EASE is fitted to other clicks than train"):
        bmcd.compare({"EASE": EASE().fit(example_clicks())}, train, test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"against": "nobody"}, "against is 'nobody', but the models are"),
        ({"fit": {"nobody": {}}}, "fit has options for"),
        ({"k": 0}, "k must be"),
    ],
)
def test_what_cannot_be_is_an_error(split, options, message):
    with pytest.raises(ValueError, match=message):
        bmcd.compare({"popular": Popularity()}, *split, **options)


def test_no_models_are_an_error(split):
    with pytest.raises(ValueError, match="no models"):
        bmcd.compare({}, *split)


def test_a_model_with_probabilities_has_calibration(split):
    model = bmcd.BMCD(2).fit(split[0], draws=5, warmup=5, chains=2)
    table = bmcd.compare({"BMCD": model, "popular": Popularity()}, *split, k=2).table.set_index("model")
    assert 0 < table.loc["BMCD", "brier"] < 1
    assert math.isnan(table.loc["popular", "brier"])
    assert math.isnan(table.loc["popular", "brier_difference"])


def test_one_model_alone_needs_no_differences(split):
    found = bmcd.compare({"popular": Popularity()}, *split, k=2)
    assert not [name for name in found.table if "difference" in name]
    assert "minus" not in str(found)


def test_text_markdown_and_rich_show_every_model(found):
    for text in (str(found), repr(found), found.to_markdown()):
        assert "popular" in text
        assert "minus items" in text
    assert "\\|" in found.to_markdown()
    assert len({line.count("|") - line.count("\\|") for line in found.to_markdown().splitlines()}) == 1
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(found)
    shown = console.export_text()
    assert "[b]EASE|" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_plot_has_a_point_for_each_model(found):
    axes = found.plot("novelty", "accuracy").axes[0]
    assert axes.get_legend_handles_labels()[1] == list(found.entries)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("novelty", "accuracy")
    with pytest.raises(ValueError, match="'beauty' is no measure; there are accuracy"):
        found.plot("beauty")


def test_all_is_saved(found, tmp_path):
    folder = found.save(tmp_path / "new" / "folder")
    assert {path.name for path in folder.iterdir()} == {
        *("table.csv", "table.md", "comparison.json", "config.json"),
        *("accuracy_coverage.png", "accuracy_novelty.png"),
    }
    read = pd.read_csv(folder / "table.csv")
    pd.testing.assert_frame_equal(read, found.table)
    numbers = json.loads((folder / "comparison.json").read_text())
    assert numbers["models"]["items"]["fit_seconds"] is None
    assert (
        numbers["models"]["popular"]["differences"]["accuracy"]["b"]
        == numbers["models"]["items"]["evaluation"]["accuracy"]
    )
    config = json.loads((folder / "config.json").read_text())
    assert config["models"]["[b]EASE|"] == {"class": "EASE", "options": {"regularization": 5.0}, "fit": {"seed": 3}}
    assert config["train"]["sha256"] == clicks_hash(found.train)
    assert config["versions"]["numpy"] == np.__version__


def test_the_hash_is_of_who_clicked_what():
    one = Clicks.from_matrix([[1, 0], [1, 1]])
    assert clicks_hash(one) == clicks_hash(one.with_titles({0: "Zero"}))
    assert clicks_hash(one) != clicks_hash(Clicks.from_matrix([[1, 1], [1, 0]]))
    assert clicks_hash(one) != clicks_hash(Clicks.from_matrix([[1, 0], [1, 1]], users=["a", "b"]))


def without_seconds(table):
    return table.drop(columns=["fit_seconds", "recommend_seconds"])


def test_a_config_is_run_tuned_and_saved_so_that_it_can_be_run_again(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(CONFIG)
    one = run_config(path, tmp_path / "out")
    assert list(one.entries) == ["Popularity", "EASE", "heat"]
    assert isinstance(one.entries["heat"].model, Diffusion)
    assert (one.k, one.seed, one.against) == (3, 5, "EASE")
    assert (tmp_path / "out" / "compare.toml").read_text() == CONFIG
    tuning = pd.read_csv(tmp_path / "out" / "tuning_EASE.csv")
    assert one.entries["EASE"].model.regularization == tuning["regularization"][0]
    again = run_config(tmp_path / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(one.table))
    assert one.train == bmcd.simulate(n_users=80, seed=5).clicks


def test_a_config_may_name_a_file_beside_it(tmp_path):
    clicks = example_clicks().at_least(4)
    clicks.to_frame("pandas").rename(columns={"user": "who"}).to_csv(tmp_path / "clicks.csv", index=False)
    data = {"file": "clicks.csv", "user": "who", "hold_out": 2, "at_least": 4, "most_clicked": 11, "seed": 3}
    (tmp_path / "study.json").write_text(json.dumps({"k": 2, "data": data, "models": {"Popularity": {}}}))
    one = run_config(tmp_path / "study.json", tmp_path / "elsewhere" / "out")
    assert one.train.n_items == 11
    again = run_config(tmp_path / "elsewhere" / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(one.table))
    with (tmp_path / "clicks.csv").open("a") as file:
        file.writelines(f"new,{item}\n" for item in clicks.items[:6])
    with pytest.raises(ConfigError, match="not those that this config was written for"):
        run_config(tmp_path / "elsewhere" / "out" / "config.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k =", "is no TOML"),
        ("[models.EASE]", r"has no \[data\]"),
        ("[data]\ndataset='eshop'", r"has no \[models\]"),
        ("kk = 3", "unknown key 'kk'; there are k, seed"),
        ("[data]\nsimulat={}\n[models.EASE]", r"\[data\] has the unknown key 'simulat'"),
        ("[data]\nsimulate={}\n[models.EASE]\nsetting={}", r"\[models.EASE\] has the unknown key 'setting'"),
        ("[data]\nsimulate={}\n[models.MyALS]", "has the class 'MyALS'; there are BMCD, ALS"),
        ("[data]\nmost_clicked=3\n[models.EASE]", "must have one of dataset, simulate and file"),
        ("[data]\ndataset='eshop'\n[models.EASE]", "no hold_out"),
    ],
)
def test_a_bad_config_says_what_to_change(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        run_config(path)


def test_priors_can_be_written_down(tmp_path):
    text = "k = 2\n[data]\nsimulate={n_users=30}\n[models.BMCD]\n"
    text += "options={n_clusters=2, priors={rate=0.1}}\nfit={draws=2, warmup=2, chains=1}\n"
    (tmp_path / "a.toml").write_text(text)
    one = run_config(tmp_path / "a.toml", tmp_path / "out")
    assert one.entries["BMCD"].model.priors == bmcd.Priors(rate=0.1)
    assert read_config(tmp_path / "out" / "config.json")["models"]["BMCD"]["options"]["priors"]["rate"] == 0.1
    again = run_config(tmp_path / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(one.table))


def test_compare_is_the_function():
    assert bmcd.compare is bmcd.evaluation.compare
    assert callable(bmcd.compare)
    assert set(baselines.__all__) >= {"ALS", "EASE", "Popularity"}
