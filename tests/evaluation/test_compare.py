"""compare: the table, its texts, its plot and its folder."""

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import bmcd
from bmcd.baselines import EASE, ItemKNN, Popularity
from bmcd.evaluation.intervals import paired_difference, paired_differences
from bmcd.testing import example_clicks


@pytest.fixture(scope="module")
def train_and_test():
    return example_clicks().at_least(3).hold_out(1, seed=0)


@pytest.fixture(scope="module")
def comparison(train_and_test):
    train, test = train_and_test
    models = {"popular": Popularity(), "[b]EASE|": EASE(5.0), "items": ItemKNN(3).fit(train)}
    return bmcd.compare(models, train, test, k=2, against="items", seed=3)


def test_the_table_holds_what_evaluate_says(comparison, train_and_test):
    train, test = train_and_test
    table = comparison.table.set_index("model")
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


def test_differences_are_paired_and_against_the_chosen_one(comparison):
    table = comparison.table.set_index("model")
    one, other = (comparison.entries[name].evaluation for name in ("popular", "items"))
    alone = paired_difference(one, other, "recall", seed=3)
    assert table.loc["popular", "recall_difference"] == alone.difference
    assert table.loc["popular", "recall_difference_low"] == alone.low
    assert table.loc["popular", "recall_p_value"] == alone.p_value
    assert table.loc["items", ["recall_difference", "recall_p_value"]].isna().all()


def test_several_differences_at_once_are_those_one_by_one(comparison):
    one, other = (comparison.entries[name].evaluation for name in ("popular", "items"))
    together = paired_differences(one, other, ["accuracy", "mrr"])
    assert together == {name: paired_difference(one, other, name) for name in ("accuracy", "mrr")}


def test_fitted_models_are_used_as_they_are(comparison):
    table = comparison.table.set_index("model")
    assert math.isnan(table.loc["items", "fit_seconds"])
    assert table.loc["popular", "fit_seconds"] >= 0
    assert (table["recommend_seconds"] > 0).all()
    assert [entry.fitted_before for entry in comparison.entries.values()] == [False, False, True]


def test_models_are_fitted_with_their_options(train_and_test):
    seen = []

    class Spy(Popularity):
        def fit(self, clicks, **options):
            seen.append(options)
            return super().fit(clicks)

    bmcd.compare({"a": Spy(), "b": Spy()}, *train_and_test, k=1, seed=7, fit={"b": {"n_threads": 1, "seed": 9}})
    assert seen == [{"seed": 7}, {"seed": 9, "n_threads": 1}]


def test_a_model_fitted_to_other_clicks_is_refused(train_and_test):
    train, test = train_and_test
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
def test_what_cannot_be_is_an_error(train_and_test, options, message):
    with pytest.raises(ValueError, match=message):
        bmcd.compare({"popular": Popularity()}, *train_and_test, **options)


def test_no_models_are_an_error(train_and_test):
    with pytest.raises(ValueError, match="no models"):
        bmcd.compare({}, *train_and_test)


def test_a_model_with_probabilities_has_calibration(train_and_test):
    model = bmcd.BMCD(2).fit(train_and_test[0], draws=5, warmup=5, chains=2)
    table = bmcd.compare({"BMCD": model, "popular": Popularity()}, *train_and_test, k=2).table.set_index("model")
    assert 0 < table.loc["BMCD", "brier"] < 1
    assert math.isnan(table.loc["popular", "brier"])
    assert math.isnan(table.loc["popular", "brier_difference"])


def test_one_model_alone_needs_no_differences(train_and_test):
    comparison = bmcd.compare({"popular": Popularity()}, *train_and_test, k=2)
    assert not [name for name in comparison.table if "difference" in name]
    assert "minus" not in str(comparison)


def test_text_markdown_and_rich_show_every_model(comparison):
    for text in (str(comparison), repr(comparison), comparison.to_markdown()):
        assert "popular" in text
        assert "minus items" in text
    assert "\\|" in comparison.to_markdown()
    assert len({line.count("|") - line.count("\\|") for line in comparison.to_markdown().splitlines()}) == 1
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(comparison)
    shown = console.export_text()
    assert "[b]EASE|" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_plot_has_a_point_for_each_model(comparison):
    axes = comparison.plot("novelty", "accuracy").axes[0]
    assert axes.get_legend_handles_labels()[1] == list(comparison.entries)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("novelty", "accuracy")
    with pytest.raises(ValueError, match="'beauty' is not a measure; choose from accuracy"):
        comparison.plot("beauty")


def test_all_is_saved(comparison, tmp_path):
    folder = comparison.save(tmp_path / "new" / "folder")
    assert {path.name for path in folder.iterdir()} == {
        *("table.csv", "table.md", "comparison.json", "config.json"),
        *("accuracy_coverage.png", "accuracy_novelty.png"),
    }
    read = pd.read_csv(folder / "table.csv")
    pd.testing.assert_frame_equal(read, comparison.table)
    numbers = json.loads((folder / "comparison.json").read_text())
    assert numbers["models"]["items"]["fit_seconds"] is None
    assert (
        numbers["models"]["popular"]["differences"]["accuracy"]["b"]
        == numbers["models"]["items"]["evaluation"]["accuracy"]
    )
    config = json.loads((folder / "config.json").read_text())
    assert config["models"]["[b]EASE|"] == {
        "class": "EASE",
        "options": {"regularization": 5.0, "decay": None, "most_clicked": None},
        "fit": {"seed": 3},
    }
    assert config["train"]["fingerprint"] == comparison.train.fingerprint()
    assert config["versions"]["numpy"] == np.__version__


def test_compare_is_the_function_and_not_its_module():
    assert bmcd.compare is bmcd.evaluation.compare
