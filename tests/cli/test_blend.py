"""`bmcd fit --model blend`, and every other command on such a model."""

import json

import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("blend")  # the model is fitted once

SHORT = (
    *("--model", "blend", "--tastes", "3", "--folds", "2"),
    *("--draws", "4", "--warmup", "5", "--thin", "2", "--chains", "2"),
)


@pytest.fixture(scope="module")
def split(folder):
    """The clicks without two of each user, and those two."""
    clicks = bmcd.read_clicks(folder / "numbers.csv").at_least(4)
    for name, part in zip(("train", "test"), clicks.hold_out(2, seed=0), strict=True):
        part.to_frame().to_csv(folder / f"blend-{name}.csv", index=False)
    return folder / "blend-train.csv", folder / "blend-test.csv"


@pytest.fixture(scope="module")
def blend(folder, run, split):
    path = folder / "blend.bmcd"
    result = run("fit", split[0], "-o", path, *SHORT)
    assert result.code == 0, result.err
    (folder / "blend.log").write_text(result.out, encoding="utf-8")
    return path


def test_the_default_is_tastes_and_a_tuned_ease(blend, folder):
    model, said = bmcd.load(blend), (folder / "blend.log").read_text(encoding="utf-8")
    assert list(model.models_) == ["Tastes", "EASE"]
    assert (model.folds, model.models_["Tastes"].n_tastes_) == (2, 3)
    tuned = model.models_["EASE"].regularization
    assert f"EASE: regularization {tuned:g}, the best of 30, 100, 300, 1000, 3000 on the training clicks" in said
    assert "a blend of Tastes (3 tastes: 2 chains x 4 draws) and EASE, weighed on 2 folds" in said
    assert f"bmcd clusters {blend}" in said
    assert "- Tastes: " in said
    assert "such as --" in said
    assert "chains=" not in said  # advice in options that can be typed
    assert not (folder / "blend.bmcd.checkpoint").exists()


def test_it_is_the_blend_that_python_fits(blend, split):
    stored = bmcd.load(blend)
    ease = bmcd.baselines.EASE(stored.models_["EASE"].regularization)
    chains = {"draws": 4, "warmup": 5, "thin": 2, "chains": 2}
    same = bmcd.Blend({"Tastes": bmcd.Tastes(3), "EASE": ease}, folds=2)
    same.fit(bmcd.read_clicks(split[0]), fit_options={"Tastes": chains})
    assert same.recommend(3).equals(stored.recommend(3))


def test_other_models_may_be_named_and_json_has_the_weights(run, split, tmp_path):
    path = tmp_path / "m.bmcd"
    result = run("fit", split[0], "-o", path, "--model", "blend", "--blend", "itemknn, Popularity", "--json")
    assert result.code == 0, result.err
    told = result.json()
    assert told["blend"] == ["ItemKNN", "Popularity"]
    assert {row["model"] for row in told["weights"]} == {"ItemKNN", "Popularity"}
    assert (told["n_clusters"], told["chains"], told["stopped"]) == (None, None, "finished")


def test_every_other_command_takes_it(run, blend, split, tmp_path):
    recommended = run("recommend", blend, "-k", "2", "--json")
    assert recommended.code == 0, recommended.err
    row = recommended.json()["recommendations"][0]
    commands = (
        ("recommend", blend, "-k", "2", "-o", tmp_path / "r.csv"),
        ("recommend", blend, "-k", "2", "--histories", split[1]),
        ("evaluate", blend, split[1], "-k", "2"),
        ("clusters", blend),
        ("explain", blend, row["user"], row["item"], "-k", "2"),
        ("report", blend, "--test", split[1], "-k", "2", "-o", tmp_path / "report.html"),
        ("doctor", blend),
    )
    said = {}
    for command in commands:
        result = run(*command)
        assert result.code == 0, (command, result.err, result.exception)
        said[command[0]] = result.out
    assert "EASE has it at rank" in said["explain"]
    assert "Blend of Tastes (3 tastes" in " ".join(said["doctor"].split())


def test_a_config_of_a_comparison_may_name_its_file(run, folder, tmp_path):
    clicks = bmcd.read_clicks(folder / "numbers.csv")
    train, _ = clicks.at_least(4).hold_out(2, seed=0)
    bmcd.Blend(bmcd.baselines.EASE(), folds=2).fit(train).save(tmp_path / "b.bmcd")
    clicks.to_frame().to_csv(tmp_path / "clicks.csv", index=False)
    config = {"data": {"file": "clicks.csv", "at_least": 4, "hold_out": 2}, "k": 2}
    config["models"] = {"mine": {"file": "b.bmcd"}, "EASE": {}}
    (tmp_path / "c.json").write_text(json.dumps(config))
    first = run("compare", tmp_path / "c.json", "-o", tmp_path / "out", "--json")
    assert first.code == 0, first.err
    assert first.json()["models"]["mine"]["fit_seconds"] is None
    again = run("compare", tmp_path / "out" / "config.json", "--json")
    assert again.json()["models"]["mine"]["evaluation"] == first.json()["models"]["mine"]["evaluation"]
    config["models"]["mine"]["grid"] = {"folds": [2]}
    (tmp_path / "c.json").write_text(json.dumps(config))
    assert "leave out grid" in run("compare", tmp_path / "c.json").err


def test_clusters_of_a_blend_without_any_is_one_line(run, refused, split, tmp_path):
    path = tmp_path / "m.bmcd"
    fitted = run("fit", split[0], "-o", path, "--model", "blend", "--blend", "EASE", "--folds", "2")
    assert fitted.code == 0, fitted.err
    assert "bmcd clusters" not in fitted.out
    assert "no model of this blend has clusters: EASE" in refused("clusters", path)
    result = run("report", path, "--test", split[1], "-k", "2", "-o", tmp_path / "r.html")
    assert result.code == 0, (result.err, result.exception)
    assert run("doctor", path).code == 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--blend", "Tastes,Magic"), "not 'Magic'"),
        (("--blend", "EASE,ease"), "EASE twice"),
        (("--blend", ""), "--blend must be names of"),
        (("--blend", "UserKNN", "--no-clicks"), "UserKNN needs everybody's clicks"),
        (("--blend", "BMCD", "--clusters", "4-9"), "a number of --clusters"),
        (("--blend", "BMCD", "--distance", "kendall"), "--distance footrule only"),
        (("--sampler", "paper"), "--sampler paper"),
        (("--model", "tastes"), "--blend and --folds are for --model blend"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(run, split, tmp_path, more, message):
    result = run("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, *more)
    assert result.code == 2
    assert message in " ".join(result.err.replace("│", " ").split())


def test_a_checkpoint_of_ones_own_stays_and_is_gone_on_from(run, split, tmp_path):
    folder = tmp_path / "kept"
    command = ("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, "--checkpoint", folder)
    assert run(*command).code == 0
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "Tastes-without-1.scores" in kept
    first = bmcd.load(tmp_path / "m.bmcd").recommend(2)
    again = run(*command)
    assert again.code == 0, again.err
    assert f"Resuming from {folder}" in again.out
    assert bmcd.load(tmp_path / "m.bmcd").recommend(2).equals(first)
    refused = run(*command, "--seed", "5")
    assert refused.code == 1
    assert "belongs to another" in refused.err or "another" in refused.err
