"""`bmcd compare`."""

import pandas as pd
import pytest

CONFIG = """
k = 3
against = "Popularity"
[data]
simulate = {n_users = 80, n_items = 12, consensuses = 2, mean_clicks = 3, seed = 1}
[models.Popularity]
[models.EASE]
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "comparison.toml"
    path.write_text(CONFIG)
    return path


def test_models_are_compared_and_the_result_can_be_made_again(run, config, tmp_path):
    first, again = tmp_path / "first", tmp_path / "again"
    result = run("compare", config, "-o", first)
    assert result.code == 0, result.err
    assert "Popularity" in result.out
    assert {"config.json", "table.csv", "table.md", "comparison.json"} <= {file.name for file in first.iterdir()}
    assert run("compare", first / "config.json", "-o", again).code == 0

    def accuracies(folder):
        return pd.read_csv(folder / "table.csv").set_index("model")["accuracy"].to_dict()

    assert accuracies(first) == accuracies(again)
    assert run("compare", config, "--json").json()["config"] == str(config)


def test_names_of_models_are_no_formulas(run, config, tmp_path):
    grid = """[models."=1+1"]
class = "EASE"
grid = {regularization = [1.0, 5.0]}
[models."-0.5"]
class = "EASE"
"""
    config.write_text(CONFIG + grid)
    result = run("compare", config, "-o", tmp_path / "out")
    assert result.code == 0, result.err
    names = ["Popularity", "EASE", "'=1+1", "-0.5"]
    read = pd.read_csv(tmp_path / "out" / "table.csv", dtype={"model": str})
    assert sorted(read["model"]) == sorted(names)
    assert "regularization" in pd.read_csv(tmp_path / "out" / "tuning_=1+1.csv")


def test_bad_configs_are_one_line(refused, config, tmp_path):
    config.write_text(CONFIG + "[models.Oracle]\n")
    assert "Oracle" in refused("compare", config)
    config.write_text("k = = 3")
    assert str(config) in refused("compare", config)
    assert "No such file" in refused("compare", tmp_path / "nothing.toml")
    config.write_text(CONFIG)
    assert "is a file" in refused("compare", config, "-o", config)
