"""Comparisons described by a file: run, saved so that they can be run again, and refused with what to change."""

import json

import pandas as pd
import pytest

import bmcd
from bmcd.baselines import ItemKNN
from bmcd.cli.compare import read_config, run_config
from bmcd.errors import ConfigError
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
class = "ItemKNN"
options = {neighbours = 5}
"""


def without_seconds(table):
    return table.drop(columns=["fit_seconds", "recommend_seconds"])


def test_a_config_is_run_tuned_and_saved_so_that_it_can_be_run_again(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(CONFIG)
    first = run_config(path, tmp_path / "out")
    assert list(first.entries) == ["Popularity", "EASE", "heat"]
    assert isinstance(first.entries["heat"].model, ItemKNN)
    assert (first.k, first.seed, first.against) == (3, 5, "EASE")
    assert (tmp_path / "out" / "compare.toml").read_text() == CONFIG
    tuning = pd.read_csv(tmp_path / "out" / "tuning_EASE.csv")
    assert first.entries["EASE"].model.regularization == tuning["regularization"][0]
    again = run_config(tmp_path / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(first.table))
    assert first.train == bmcd.simulate(n_users=80, seed=5).clicks


def test_a_config_may_name_a_file_beside_it(tmp_path):
    clicks = example_clicks().at_least(4)
    clicks.to_frame("pandas").rename(columns={"user": "who"}).to_csv(tmp_path / "clicks.csv", index=False)
    data = {"file": "clicks.csv", "user": "who", "hold_out": 2, "at_least": 4, "most_clicked": 11, "seed": 3}
    (tmp_path / "study.json").write_text(json.dumps({"k": 2, "data": data, "models": {"Popularity": {}}}))
    first = run_config(tmp_path / "study.json", tmp_path / "elsewhere" / "out")
    assert first.train.n_items == 11
    again = run_config(tmp_path / "elsewhere" / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(first.table))
    with (tmp_path / "clicks.csv").open("a") as file:
        file.writelines(f"new,{item}\n" for item in clicks.items[:6])
    with pytest.raises(ConfigError, match="not those that this config was written for"):
        run_config(tmp_path / "elsewhere" / "out" / "config.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k =", "is not valid TOML"),
        ("[models.EASE]", r"has no \[data\]"),
        ("[data]\ndataset='eshop'", r"has no \[models\]"),
        ("kk = 3", "unknown key 'kk'; there are k, seed"),
        ("[data]\nsimulat={}\n[models.EASE]", r"\[data\] has the unknown key 'simulat'"),
        ("[data]\nsimulate={}\n[models.EASE]\nsetting={}", r"\[models.EASE\] has the unknown key 'setting'"),
        ("[data]\nsimulate={}\n[models.MyALS]", "has the class 'MyALS'; there are Blend, Tastes, BMCD, ALS"),
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
    first = run_config(tmp_path / "a.toml", tmp_path / "out")
    assert first.entries["BMCD"].model.priors == bmcd.Priors(rate=0.1)
    assert read_config(tmp_path / "out" / "config.json")["models"]["BMCD"]["options"]["priors"]["rate"] == 0.1
    again = run_config(tmp_path / "out" / "config.json")
    pd.testing.assert_frame_equal(without_seconds(again.table), without_seconds(first.table))


def test_a_file_is_read_and_split_as_the_config_says(tmp_path, run):
    clicks = example_clicks().at_least(4)
    frame = clicks.to_frame("pandas")
    frame["when"] = range(len(frame), 0, -1)
    text = frame.to_csv(sep="|", index=False) + "|i01|5\n"
    (tmp_path / "log.txt").write_text(text.replace("item", "artículo"), encoding="latin-1")
    data = {"file": "log.txt", "item": "artículo", "delimiter": "|", "encoding": "latin-1", "time_column": "when"}
    data |= {"hold_out": 2, "by": "time", "keep": 2, "too_few": "drop"}
    path = tmp_path / "study.json"
    path.write_text(json.dumps({"k": 2, "data": data, "models": {"Popularity": {}}}))
    refused = run("compare", path)
    assert refused.code == 1
    assert "Leave out those without it with missing='drop'." in refused.err  # a key of the config
    path.write_text(json.dumps({"k": 2, "data": data | {"missing": "drop"}, "models": {"Popularity": {}}}))
    first = run_config(path)
    want = bmcd.Clicks.from_frame(frame, time_column="when").hold_out(2, by="time", keep=2, too_few="drop")
    assert (first.train, first.test) == want
