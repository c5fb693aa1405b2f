"""`bmcd fit --model tastes`, and every other command on such a model."""

import pytest

import bmcd

SHORT = ("--model", "tastes", "--draws", "4", "--warmup", "5", "--thin", "2", "--chains", "2")


@pytest.fixture(scope="module")
def split(folder):
    """The clicks without two of each user, and those two."""
    clicks = bmcd.read_clicks(folder / "numbers.csv").at_least(4)
    train, test = clicks.hold_out(2, seed=0)
    for name, part in (("train", train), ("test", test)):
        part.to_frame().to_csv(folder / f"tastes-{name}.csv", index=False)
    return folder / "tastes-train.csv", folder / "tastes-test.csv"


@pytest.fixture(scope="module")
def tastes_model(folder, run, split):
    path = folder / "tastes.bmcd"
    result = run("fit", split[0], "-o", path, *SHORT, "--tastes", "3")
    assert result.code == 0, result.err
    assert "Fitted 3 tastes: 2 chains x 4 draws" in result.out
    return path


def test_fit_tells_what_it_made(run, split, tmp_path):
    result = run("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, "--tastes", "2", "--json")
    assert result.code == 0, result.err
    told = result.json()
    assert (told["n_clusters"], told["chains"], told["draws"], told["stopped"]) == (2, 2, 4, "finished")
    assert isinstance(bmcd.load(tmp_path / "m.bmcd"), bmcd.Tastes)
    assert not (tmp_path / "m.bmcd.checkpoint").exists()


def test_auto_says_why(run, split, tmp_path):
    result = run("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, "--tastes", "auto", "--json")
    assert result.code == 0, result.err
    assert "held-out clicks" in result.json()["choice"]["reason"]


def test_every_other_command_takes_it(run, tastes_model, split, tmp_path):
    recommended = run("recommend", tastes_model, "-k", "2", "--json")
    assert recommended.code == 0, recommended.err
    row = recommended.json()["recommendations"][0]
    commands = (
        ("recommend", tastes_model, "-k", "2", "-o", tmp_path / "r.csv"),
        ("evaluate", tastes_model, split[1], "-k", "2"),
        ("clusters", tastes_model),
        ("explain", tastes_model, row["user"], row["item"], "-k", "2"),
        ("report", tastes_model, "--test", split[1], "-k", "2", "-o", tmp_path / "report.html"),
        ("doctor", tastes_model),
    )
    for command in commands:
        result = run(*command)
        assert result.code == 0, (command, result.err, result.exception)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Tastes of the users" in page
    assert "BMCD" not in page.replace("bmcd", "")  # neither in words nor in the legends of figures


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--tastes", "few"), "--tastes must be auto or a number"),
        (("--sampler", "paper"), "--sampler is for --model bmcd"),
        (("--count-k", "5"), "--count-k is for --model bmcd"),
        (("--clusters", "5"), "--clusters is for --model bmcd"),
    ],
)
def test_bad_options_are_usage_errors(run, split, tmp_path, more, message):
    result = run("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, *more)
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_a_distance_that_tastes_do_not_have_is_refused(refused, split, tmp_path):
    error = refused("fit", split[0], "-o", tmp_path / "m.bmcd", *SHORT, "--distance", "ulam", "--json")
    assert "footrule, kendall, cayley, hamming" in error


def test_max_users_gives_each_chain_a_sample(run, folder, tmp_path):
    model = tmp_path / "model.bmcd"
    options = ("--model", "tastes", "--tastes", 2, "--draws", 4, "--warmup", 5, "--chains", 2, "--max-users")
    found = run("fit", folder / "numbers.csv", "-o", model, *options, 20)
    assert found.code == 0, found.err
    assert "Users: each chain was given 20 of 60 users, as asked for." in found.out
    facts = run("fit", folder / "numbers.csv", "-o", model, *options, "auto", "--json").json()["user_sample"]
    assert facts["max_users"] == 60
    assert facts["table"][0]["n_users"] == 48
    assert run("fit", folder / "numbers.csv", "-o", model, *options, "few").code == 2
