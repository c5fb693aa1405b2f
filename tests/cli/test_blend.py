"""`bmcd fit` with its default, Blend, and every other command on such a model."""

import json

import pytest

import bmcd
from bmcd.cli import fit_checks as costs

pytestmark = pytest.mark.xdist_group("blend")  # the model is fitted once


@pytest.fixture(scope="module")
def log(folder):
    """A file with the first visits to the shop, in order, and one with later histories."""
    visits = bmcd.load_dataset("eshop").split_users(0.08)[0]
    earlier, later = visits.split_users(0.8)
    earlier.to_frame("pandas").to_csv(folder / "visits.csv", index=False)
    histories, _ = later.moments(2, seed=1)
    histories.to_frame("pandas").to_csv(folder / "histories.csv", index=False)
    return folder / "visits.csv", folder / "histories.csv"


@pytest.fixture(scope="module")
def blend(folder, run, log):
    path = folder / "blend.bmcd"
    result = run("fit", log[0], "-o", path, "--order", "rows", "--title-column", "title")
    assert result.code == 0, (result.err, result.exception)
    (folder / "blend.log").write_text(result.out, encoding="utf-8")
    return path


def test_the_default_is_a_blend_of_the_log_as_it_is(blend, log, folder):
    model, said = bmcd.load(blend), (folder / "blend.log").read_text(encoding="utf-8")
    assert isinstance(model, bmcd.Blend)
    assert f"{model.clicks_.n_users:,} users" in said
    assert f"Fitted a blend of {', '.join(model.members_)}, " in said
    assert "past window" in said
    assert "predicted" in said
    assert "observed" in said
    assert model.verdict_.text in said
    assert f"Next: bmcd recommend {blend}" in said
    assert not (folder / "blend.bmcd.checkpoint").exists()
    same = bmcd.Blend().fit(bmcd.read_clicks(log[0], title_column="title", order="rows"))
    assert same.recommend(3).equals(model.recommend(3))


def test_every_other_command_takes_it(run, blend, log, tmp_path):
    recommended = run("recommend", blend, "-k", "2", "--horizon", "1", "--json")
    assert recommended.code == 0, recommended.err
    row = recommended.json()["recommendations"][0]
    commands = (
        ("recommend", blend, "-k", "2", "-o", tmp_path / "r.csv"),
        ("recommend", blend, "-k", "2", "--histories", log[1]),
        ("explain", blend, row["user"], row["item"], "-k", "2", "--horizon", "1"),
        ("explain", blend, "someone", "A2", "--history", "A4,A11"),
        ("doctor", blend),
    )
    said = {}
    for command in commands:
        result = run(*command)
        assert result.code == 0, (command, result.err, result.exception)
        said[command[:2]] = result.out
    told = said["explain", blend]
    assert "is among the next 10 clicks of user someone" in told
    assert "It " in told  # a reason
    assert "times the rate of the average candidate" in told
    one = run("explain", blend, row["user"], row["item"], "-k", "2", "--horizon", "1", "--json").json()
    assert one["k"] == 1
    assert one["probability"] == pytest.approx(row["probability"], abs=1e-9)
    assert "a blend of Trending" in " ".join(said["doctor", blend].split())


def test_refresh_repeats_and_an_earlier_model(run, folder, tmp_path):
    frame = bmcd.load_dataset("eshop").split_users(0.05)[0].to_frame("pandas")[["user", "item"]]
    frame["at"] = 1_700_000_000 + 60 * frame.index
    frame.to_csv(tmp_path / "timed.csv", index=False)
    path = tmp_path / "m.bmcd"
    command = ("fit", tmp_path / "timed.csv", "-o", path, "--time-column", "at", "--refresh", "4h", "--repeats")
    first = run(*command, "--json")
    assert first.code == 0, (first.err, first.exception)
    model = bmcd.load(path)
    assert (model.refresh, model.repeats) == ("4h", True)
    told = first.json()
    assert told["members"] == list(model.members_)
    assert told["as_of"] == str(model.as_of_)
    assert [row["label"] for row in told["windows"]] == model.windows_["label"].tolist()
    again = run(*command[:3], tmp_path / "next.bmcd", *command[4:], "--start", path)
    assert again.code == 0, (again.err, again.exception)
    assert f"As of {model.as_of_}" in again.out


def test_a_log_without_order_is_fitted_with_a_hint(run, folder, tmp_path):
    path = tmp_path / "m.bmcd"
    result = run("fit", folder / "numbers.csv", "-o", path)
    assert result.code == 0, (result.err, result.exception)
    assert "--time-column" in result.out
    assert bmcd.load(path).clicks_.order is None


def test_named_models_and_options_of_their_chains(run, folder, tmp_path):
    path, kept = tmp_path / "m.bmcd", tmp_path / "kept"
    kept.mkdir()
    chains = ("--tastes", 3, "--draws", 4, "--warmup", 5, "--thin", 2, "--chains", 2)
    command = ("fit", folder / "numbers.csv", "-o", path, "--blend", "tastes, EASE", *chains)
    result = run(*command, "--checkpoint", kept, "--json")
    assert result.code == 0, (result.err, result.exception)
    assert result.json()["members"] == ["Tastes", "EASE"]
    assert (result.json()["n_clusters"], result.json()["chains"], result.json()["draws"]) == (3, 2, 4)
    assert any(kept.iterdir())
    clicks = bmcd.read_clicks(folder / "numbers.csv")
    same = bmcd.Blend({"Tastes": bmcd.Tastes(3), "EASE": bmcd.baselines.EASE()})
    same.fit(clicks, fit_options={"Tastes": {"draws": 4, "warmup": 5, "thin": 2, "chains": 2}})
    assert same.recommend(3).equals(bmcd.load(path).recommend(3))
    again = run(*command)  # with a checkpoint beside the model, which goes when it is finished
    assert again.code == 0, (again.err, again.exception)
    assert "a blend of Tastes (3 tastes: 2 chains x 4 draws), EASE" in again.out
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kept", "m.bmcd"]
    assert run("clusters", path).code == 0


def test_clusters_of_a_blend_without_any_is_one_line(refused, blend):
    assert "no member of this blend has clusters: Trending" in refused("clusters", blend)


def test_a_config_of_a_comparison_may_name_its_file_or_fit_one(run, folder, tmp_path):
    clicks = bmcd.read_clicks(folder / "numbers.csv")
    train, _ = clicks.at_least(4).hold_out(2, seed=0)
    assert (train.per_item == 0).any()  # which the models of a blend are not asked for
    bmcd.Blend(bmcd.baselines.EASE()).fit(train).save(tmp_path / "b.bmcd")
    clicks.to_frame().to_csv(tmp_path / "clicks.csv", index=False)
    config = {"data": {"file": "clicks.csv", "at_least": 4, "hold_out": 2}, "k": 2}
    config["models"] = {"mine": {"file": "b.bmcd"}, "Blend": {}}
    (tmp_path / "c.json").write_text(json.dumps(config))
    first = run("compare", tmp_path / "c.json", "-o", tmp_path / "out", "--json")
    assert first.code == 0, (first.err, first.exception)
    assert first.json()["models"]["mine"]["fit_seconds"] is None
    again = run("compare", tmp_path / "out" / "config.json", "--json")
    assert again.json()["models"]["mine"]["evaluation"] == first.json()["models"]["mine"]["evaluation"]
    config["models"]["mine"]["grid"] = {"repeats": [True]}
    (tmp_path / "c.json").write_text(json.dumps(config))
    assert "leave out grid" in run("compare", tmp_path / "c.json").err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--blend", "Tastes,Magic"), "not 'Magic'"),
        (("--blend", "EASE,ease"), "EASE twice"),
        (("--blend", ""), "--blend must be names of"),
        (("--blend", "UserKNN", "--no-clicks"), "UserKNN needs the clicks of users"),
        (("--blend", "BMCD", "--clusters", "4-9"), "a number of --clusters"),
        (("--blend", "BMCD", "--distance", "kendall"), "--distance footrule only"),
        (("--blend", "EASE", "--draws", 5), "--draws is for --model tastes, --model bmcd, --blend with BMCD"),
        (("--clusters", 3), "--clusters is for --model bmcd, --blend with BMCD; this is --model blend"),
        (("--max-users", 20), "--max-users is for --model tastes, --model bmcd; this"),
        (("--sampler", "paper"), "--sampler is for --model bmcd; this"),
        (("--start", "kmeans"), "--start must be a model file"),
        (("--start", "m.bmcd", "--blend", "EASE"), "leave out --blend"),
        (("--refresh", "often"), "--refresh must be a duration"),
        (("--model", "tastes", "--refresh", "1h"), "--refresh is for --model blend; this is --model tastes"),
        (("--model", "bmcd", "--repeats"), "--repeats is for --model blend"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(run, folder, tmp_path, options, message):
    result = run("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", *options)
    assert result.code == 2
    assert message in " ".join(result.err.replace("│", " ").split())


def test_what_the_log_cannot_do_is_one_line(refused, folder, number_model, tmp_path):
    command = ("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", "--json")
    assert "no clock" in refused(*command, "--refresh", "1h")
    assert "needs a log with order" in refused(*command, "--repeats")
    assert "--start has a BMCD" in refused(*command, "--start", number_model)


@pytest.mark.parametrize("model", ["bmcd", "tastes"])
def test_chains_that_would_take_hours_are_refused_at_once(refused, tmp_path, model):
    sizes = ("--draws", 800, "--chains", 4) if model == "bmcd" else ("--draws", 1_000)
    command = ("fit", "eshop", "-o", tmp_path / "m.bmcd", "--model", model, "--json", *sizes)
    said = refused(*command)
    for part in ("24,026 users, 217 items and 148,345 clicks", " hours on ", "B. ", "--max-users", "--max-time"):
        assert part in said


def test_chains_that_do_not_fit_are_refused_even_with_a_time_limit(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("bmcd.cli.fit_checks.free_memory", lambda: 1e8)
    command = ("fit", "eshop", "-o", tmp_path / "m.bmcd", "--model", "bmcd", "--max-time", 10, "--json")
    assert "only 100.0 MB of memory are free" in refused(*command)


def test_costs_grow_as_measured():
    one = costs.cost_of_bmcd(1_000, 400, 8, 100, 4, 2)
    two = costs.cost_of_bmcd(2_000, 800, 8, 100, 4, 2)
    assert two.cpu_seconds / one.cpu_seconds == pytest.approx(2 * 2**1.7)
    assert two.memory > 3 * (one.memory - costs.FIXED)
    some = costs.cost_of_tastes(10_000, 1_000, 200, 40, 200, 10, 16, 2)
    assert some.cpu_seconds == pytest.approx(12e-9 * 10_000 * 40 * 200 * 16)
