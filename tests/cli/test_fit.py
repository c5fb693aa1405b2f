import json
import os
import shutil

import pytest

import bmcd

BMCD = ("--model", "bmcd")


def test_clicks_as_a_newcomer_has_them(text_model, folder):
    said = (folder / "text.log").read_text(encoding="utf-8")
    assert "60 users x 12 items" in said
    assert "repeated clicks collapsed: 7" in said
    assert "items with a title: 6" in said
    assert "Fitted 2 clusters: 2 chains x 5 draws" in said
    assert "onverged" in said
    assert f"Next: bmcd recommend {text_model}" in said
    model = bmcd.load(text_model)
    assert "user 00" in model.clicks_.users.tolist()
    assert not list(folder.glob("*.checkpoint*"))


def test_json_is_one_object_and_the_model_is_that_of_python(number_model, folder):
    found = json.loads((folder / "numbers.json").read_text())
    assert found["model"] == str(number_model)
    assert found["data"]["n_users"] == 60
    assert (found["n_clusters"], found["chains"], found["draws"], found["stopped"]) == (2, 2, 5, "finished")
    assert found["checkpoint"] is None
    clicks = bmcd.read_clicks(folder / "numbers.csv")
    bmcd.BMCD(2).fit(clicks, draws=5, warmup=5, chains=2, progress=False).save(folder / "python.bmcd")
    assert (folder / "python.bmcd").read_bytes() == number_model.read_bytes()


def test_clusters_are_chosen_and_the_choice_is_told(run, folder, tmp_path):
    arguments = (
        "fit",
        folder / "numbers.csv",
        "-o",
        tmp_path / "m.bmcd",
        "--model",
        "bmcd",
        "--draws",
        4,
        "--warmup",
        2,
        "--chains",
        2,
    )
    found = run(*arguments, "--clusters", "2-3", "--json")
    assert found.code == 0, found.err
    choice = found.json()["choice"]
    assert choice["recommended"] == found.json()["n_clusters"] == bmcd.load(tmp_path / "m.bmcd").n_clusters_
    assert [row["n_clusters"] for row in choice["table"]] == [2, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["m.bmcd"]


def test_a_choice_is_remembered_only_for_the_same_question(folder, tmp_path, monkeypatch):
    from bmcd.cli.fit import _chosen_clusters

    clicks, kept = bmcd.read_clicks(folder / "numbers.csv"), tmp_path / "m"
    run = {"seed": 1, "n_threads": 1}
    first = _chosen_clusters(clicks, range(2, 3), kept, "linear", run)

    def not_again(*arguments, **options):
        raise RuntimeError("asked again")

    monkeypatch.setattr("bmcd.models.choose.choose_n_clusters", not_again)
    assert str(_chosen_clusters(clicks, range(2, 3), kept, "linear", run)) == str(first)
    for other in ((clicks, range(2, 4), kept, "linear", run), (clicks, range(2, 3), kept, "log", run)):
        with pytest.raises(RuntimeError, match="asked again"):
            _chosen_clusters(*other)
    for junk in ("", "[]", '{"of": 1}', "\x00", "[" * 5000):
        (tmp_path / "m.choice").write_text(junk)
        with pytest.raises(RuntimeError, match="asked again"):
            _chosen_clusters(clicks, range(2, 3), kept, "linear", run)


def test_bundled_data_by_name(run, tmp_path, tiny):
    size = ("--most-clicked", 12, "--at-least", 9)
    found = run("fit", "eshop", "-o", tmp_path / "m.bmcd", *size, *tiny)
    assert found.code == 0, found.err
    assert "40 users x 12 items" in found.out
    assert "dropped 23986 of 24026 users" in found.out


@pytest.mark.deep
def test_other_distances(run, folder, tmp_path, tiny):
    path = tmp_path / "m.bmcd"
    options = ("--distance", "kendall", "--sampler", "paper", "--count-k", "3, 5", *tiny)
    assert run("fit", folder / "numbers.csv", "-o", path, *options).code == 0
    assert run("recommend", path, "-k", 3, "--json").json()["n_rows"] > 0
    found = run("recommend", path, "-k", 4)
    assert found.code == 1
    assert "for k = 3, 5, not for 4: fit again with bmcd fit --count-k 4, or the footrule." in found.err
    refused = run("fit", folder / "numbers.csv", "-o", path, *options, "--rank-scale", "log")
    assert "leave --rank-scale linear or use --distance footrule" in refused.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "user,item\nann,7\n,8\n",
            "line 3, column 1 (user): the user id is empty. Every row needs a user and an item. Leave out those "
            "without it with --missing drop.",
        ),
        ("user,item\nann,7\nbob\n", "line 3: there are 1 fields"),
        ("user item\nann 7\n", 'say what stands between them: --delimiter "|".'),
        ("user,item\nann,7\nzo\udce9,8\n", "or say what it is: --encoding latin-1 is common."),
        ("user,item\n", "there are no rows"),
        ("", "the file is empty"),
        (
            "what,who\nann,7\n",
            "there is no column 'user'; the columns are 'what', 'who'. Say which one it is: --user-column who.",
        ),
        ("user,item\nann,\x1b[31m\nann,8\n", "n_clusters must lie between 1 and the number of users, 1"),
    ],
)
def test_bad_clicks_are_one_line(refused, tmp_path, text, said, tiny):
    (tmp_path / "clicks.csv").write_text(text, errors="surrogateescape")
    if "n_clusters" in said:  # found out by the fit itself, when the summary stands on standard output already
        said, tiny = "no user has at least 9 clicks", (*tiny, "--at-least", "9")
    assert said in refused("fit", tmp_path / "clicks.csv", "-o", tmp_path / "m.bmcd", *tiny)


def test_no_such_file(refused, tmp_path):
    assert "no such file" in refused("fit", tmp_path / "clicks.csv", "-o", tmp_path / "m.bmcd")
    (tmp_path / "clicks.csv").write_text("user,item\na,1\na,2\nb,1\n")
    titles = ("--titles", tmp_path / "titles.csv")
    assert "titles.csv" in refused("fit", tmp_path / "clicks.csv", "-o", tmp_path / "m.bmcd", *titles)


def test_an_unwritable_place_is_found_out_before_anything_is_read(refused, tmp_path, monkeypatch):
    def not_yet(*arguments, **options):
        raise RuntimeError("read before the output was checked")

    monkeypatch.setattr("bmcd.clicks.reading.read_clicks", not_yet)
    clicks = tmp_path / "clicks.csv"
    clicks.write_text("user,item\na,1\n")
    assert "does not exist" in refused("fit", clicks, "-o", tmp_path / "no" / "m.bmcd")
    (tmp_path / "m.bmcd").mkdir()
    assert "is a folder" in refused("fit", clicks, "-o", tmp_path / "m.bmcd")
    assert "does not exist" in refused(
        "fit", clicks, "-o", tmp_path / "n.bmcd", *BMCD, "--checkpoint", tmp_path / "no" / "c"
    )
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0o500)
    if not os.access(closed, os.W_OK):  # not so for root
        assert "nothing can be written" in refused("fit", clicks, "-o", closed / "m.bmcd")


def test_the_input_is_never_overwritten(run, tmp_path, folder):
    clicks = tmp_path / "clicks.bmcd"  # a careless name
    shutil.copy(folder / "numbers.csv", clicks)
    before = clicks.read_bytes()
    (tmp_path / "link.bmcd").symlink_to(clicks)
    for output in (clicks, tmp_path / "." / "clicks.bmcd", tmp_path / "link.bmcd"):
        assert run("fit", clicks, "-o", output).code == 2
    assert run("fit", clicks, "-o", tmp_path / "m.bmcd", *BMCD, "--checkpoint", clicks).code == 2
    assert clicks.read_bytes() == before


def test_time_is_up_but_there_are_draws(run, folder, tmp_path):
    path = tmp_path / "m.bmcd"
    arguments = ("fit", folder / "numbers.csv", "-o", path, *BMCD, "--clusters", 2, "--chains", 2, "--warmup", 0)
    found = run(*arguments, "--draws", 100000, "--max-time", 1)
    assert found.code == 0, found.err
    assert "stopped by the time budget of 1 s" in found.out
    assert f"Checkpoint: {path}.checkpoint" in found.out
    drawn = bmcd.load(path).draws_.n_draws
    assert 0 < drawn < 100000
    found = run(*arguments, "--draws", 100000, "--max-time", 1, "--json").json()  # goes on
    assert found["stopped"] == "time"
    assert found["draws"] > drawn
    assert found["checkpoint"] == f"{path}.checkpoint"


def test_time_is_up_before_the_first_draw(run, folder, tmp_path):
    arguments = ("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", *BMCD, "--clusters", 2, "--chains", 2)
    found = run(*arguments, "--warmup", 100000, "--max-time", 0.5)
    assert found.code == 1
    assert "before the first draw" in found.err
    assert not (tmp_path / "m.bmcd").exists()


def test_a_checkpoint_of_another_run_is_refused_and_one_of_ones_own_can_grow(run, folder, tmp_path, tiny):
    path, kept = tmp_path / "m.bmcd", tmp_path / "kept"
    chains = (*BMCD, "--chains", 2, "--warmup", 5)
    arguments = ("fit", folder / "numbers.csv", "-o", path, "--checkpoint", kept, *chains)
    assert run(*arguments, "--clusters", 2, "--draws", 5).code == 0
    assert kept.exists()
    before = path.read_bytes()
    found = run(*arguments, "--clusters", 3, "--draws", 5)
    assert found.code == 1
    assert "is the checkpoint of another run" in found.err
    assert path.read_bytes() == before
    assert run(*arguments, "--clusters", 2, "--draws", 8).code == 0
    assert bmcd.load(path).draws_.n_draws == 8


def test_a_nightly_fit_is_not_stopped_by_the_checkpoint_of_the_night_before(run, folder, tmp_path, tiny):
    """A run refused by --require-converged leaves its checkpoint, and the next night's log is another one."""
    path, log = tmp_path / "m.bmcd", tmp_path / "log.csv"
    kept, aside = tmp_path / "m.bmcd.checkpoint", tmp_path / "m.bmcd.checkpoint.set-aside"
    rows = (folder / "numbers.csv").read_text().splitlines(keepends=True)
    command = ("fit", log, "-o", path, *tiny)
    for night in range(3):
        log.write_text("".join(rows[: len(rows) - night]))
        found = run(*command, "--require-converged")
        assert found.code == 3, found.err
        assert kept.exists()
        assert ("warning: " in found.err) == ("set aside as" in found.err) == aside.exists() == (night > 0)
    for damaged in (kept, tmp_path / "m.bmcd.checkpoint.1"):
        damaged.write_bytes(damaged.read_bytes()[:1000])
    assert run(*command).code == 0
    assert not kept.exists()  # finished
    bmcd.BMCD(2).fit(bmcd.read_clicks(log), draws=5, warmup=5, chains=2, progress=False).save(tmp_path / "p.bmcd")
    assert path.read_bytes() == (tmp_path / "p.bmcd").read_bytes()  # from scratch


def test_a_checkpoint_of_another_version_is_set_aside(run, folder, tmp_path, tiny, monkeypatch):
    command = ("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", *tiny)
    monkeypatch.setattr("bmcd.inference.checkpoint.__version__", "0.0.1")
    assert run(*command, "--require-converged").code == 3
    monkeypatch.undo()
    found = run(*command)
    assert found.code == 0, found.err
    assert "0.0.1" in found.err
    assert (tmp_path / "m.bmcd.checkpoint.set-aside").exists()


def test_a_model_without_users(run, folder, tmp_path, tiny):
    path = tmp_path / "m.bmcd"
    found = run("fit", folder / "numbers.csv", "-o", path, "--no-clicks", *tiny)
    assert found.code == 0, found.err
    assert "--histories" in found.out
    bare = bmcd.load(path).clicks_
    assert bare.n_users == len(bare.sequence) == 0
    assert bare.items.tolist() == sorted(bare.items.tolist())  # not in the order of the first user's clicks
    assert bare.items.tolist() != bmcd.read_clicks(folder / "numbers.csv").items.tolist()
    found = run("recommend", path)
    assert found.code == 1
    assert "--histories" in found.err
    assert run("recommend", path, "--histories", folder / "numbers.csv", "-k", 2).code == 0


def test_convergence_can_be_required(run, folder, tmp_path, tiny, number_model):
    """Exit code 3, a reason and advice; the model that was there stays, and so does what was drawn."""
    path = tmp_path / "m.bmcd"
    path.write_bytes(number_model.read_bytes())
    found = run("fit", folder / "numbers.csv", "-o", path, *tiny, "--require-converged")
    assert found.code == 3
    assert found.err.startswith("bmcd: Not converged")
    assert "--warmup" in found.err
    assert f"No model was written to {path}; {path}.checkpoint has the draws: a run with" in found.err
    assert path.read_bytes() == number_model.read_bytes()
    options = (*BMCD, "--draws", 1500, "--warmup", 5, "--chains", 2, "--clusters", 1)
    found = run("fit", folder / "numbers.csv", "-o", tmp_path / "n.bmcd", *options, "--require-converged", "--json")
    assert found.code == 0, found.err
    assert found.json()["converged"]


def test_a_model_fitted_here_has_its_choice(run, folder, tmp_path):
    path = tmp_path / "m.bmcd"
    options = (*BMCD, "--draws", 4, "--warmup", 2, "--chains", 2)
    found = run("fit", folder / "numbers.csv", "-o", path, *options, "--json")
    assert found.code == 0, found.err
    model = bmcd.load(path)
    assert model.n_clusters == "auto"
    assert model.choice_.recommended == model.n_clusters_ == found.json()["choice"]["recommended"]
    assert model.choice_.reason == found.json()["choice"]["reason"]


def test_quiet_silences_notes_and_progress_but_no_result(run, folder, tmp_path, tiny, monkeypatch):
    monkeypatch.setattr("bmcd.progress.LOG_SECONDS", 0.0)
    arguments = ("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", *tiny)
    assert "bmcd: drawing: " in run(*arguments).err
    quiet = run(*arguments, "--quiet")
    assert (quiet.code, quiet.err) == (0, "")
    assert "Model: " in quiet.out


def test_a_fit_starts_from_an_earlier_model(run, folder, number_model, tmp_path, tiny):
    file = tmp_path / "next.bmcd"
    short = (*BMCD, "--draws", 4, "--warmup", 2, "--chains", 2)
    said = run("fit", folder / "numbers.csv", "-o", file, "--start", number_model, *short)
    assert said.code == 0, said.err
    assert "Fitted 2 clusters" in said.out
    earlier = bmcd.load(number_model)
    want = bmcd.BMCD(2).fit(earlier.clicks_, start=earlier, draws=4, warmup=2, chains=2)
    assert bmcd.load(file).draws_.rho.tobytes() == want.draws_.rho.tobytes()
    assert run("fit", folder / "numbers.csv", "-o", file, "--start", "nowhere", *tiny).code == 2
    assert run("fit", folder / "numbers.csv", "-o", number_model, "--start", number_model, *tiny).code == 2
