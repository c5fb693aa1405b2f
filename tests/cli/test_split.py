"""`bmcd split`, and files as shops have them in every command that reads one."""

import json
from collections import defaultdict

import pandas as pd
import pytest

import bmcd
from bmcd.cli import app, errors
from bmcd.errors import Message, Option
from bmcd.testing import example_clicks


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A log with times, titles and other names, as a German spreadsheet writes it."""
    folder = tmp_path_factory.mktemp("split")
    frame = example_clicks().at_least(4).to_frame("pandas").assign(title=lambda frame: "Größe " + frame["item"])
    frame["time"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(range(len(frame), 0, -1), unit="h")
    names = {"user": "customer", "item": "article", "title": "name", "time": "when"}
    frame = frame.rename(columns=names)
    path = folder / "log.csv"
    rows = frame.to_csv(sep=";", index=False) + ";i01;Größe i01;2024-01-01\n" + "u000; ;;2024-01-01\n"
    path.write_text(rows.replace("i05;", "i05 ;"), encoding="latin-1")
    return path


COLUMNS = ("--user-column", "customer", "--item-column", "article")
MESSY = (*COLUMNS, "--encoding", "latin-1", "--missing", "drop")


def pairs(path):
    frame = pd.read_csv(path)
    return set(zip(frame["customer"], frame["article"], strict=True))


def test_all_the_way_without_python(run, log, tmp_path, tiny):
    train, test, model = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "m.bmcd"
    timed = ("--by", "time", "--time-column", "when", "--title-column", "name")
    found = run("split", log, "--train", train, "--test", test, "-k", 2, *timed, *MESSY)
    assert found.code == 0, found.err
    assert "columns separated by ';'" in found.out
    assert "dropped 2 of" in found.out
    assert "blanks around 1 item ids stripped: 'i05 '" in found.out
    assert "held out the last 2 clicks of each user by time" in found.out
    assert (
        list(pd.read_csv(train).columns)
        == list(pd.read_csv(test).columns)
        == ["customer", "article", "name", "when"]
    )
    times = defaultdict(lambda: ([], []))
    for place, path in enumerate((train, test)):
        for user, _, _, when in pd.read_csv(path).itertuples(index=False):
            times[user][place].append(when)
    assert all(len(last) == 2 and max(first) < min(last) for first, last in times.values())
    whole = example_clicks().at_least(4).to_frame("pandas")
    assert pairs(train) | pairs(test) == set(zip(whole["user"], whole["item"], strict=True))
    assert not pairs(train) & pairs(test)
    advised = [line.split("bmcd ", 1)[1].split() for line in found.out.splitlines() if "bmcd " in line]
    assert [words[0] for words in advised] == ["fit", "evaluate"]
    fit = [model if word == "model.bmcd" else word for word in advised[0]]
    evaluate = [model if word == "model.bmcd" else word for word in advised[1]]
    assert run(*fit, *tiny).code == 0
    assert bmcd.load(model).clicks_.titles[0].startswith("Größe")
    assert run(*evaluate).code == 0


def test_chance_is_that_of_python(run, log, tmp_path):
    train, test = tmp_path / "train.parquet", tmp_path / "test.csv"
    found = run("split", log, "--train", train, "--test", test, "-k", 2, "--seed", 7, *MESSY, "--json")
    assert found.code == 0, found.err
    options = {"encoding": "latin-1", "missing": "drop"}
    want = bmcd.read_clicks(log, "customer", "article", **options).hold_out(2, seed=7)
    assert bmcd.read_clicks(train, "customer", "article").n_clicks == want[0].n_clicks == found.json()["n_train"]
    frame = want[1].to_frame()
    assert pairs(test) == set(zip(frame["user"], frame["item"], strict=True))
    assert found.json()["data"]["n_dropped"] == 2


def test_bundled_data(run, tmp_path):
    size = ("--most-clicked", 12, "--at-least", 9)
    paths = tmp_path / "a.csv", tmp_path / "b.csv"
    found = run("split", "eshop", "--train", paths[0], "--test", paths[1], "-k", 3, *size, "--json").json()
    assert (found["n_users"], found["n_test"]) == (40, 120)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("-k", 2, *COLUMNS), "is not UTF-8 (0xf6). Save the file as UTF-8, or say what it is: --encoding latin-1"),
        (("-k", 2, *COLUMNS, "--encoding", "latin-1"), "Leave out those without it with --missing drop."),
        (("-k", 2, *MESSY, "--by", "time"), "there is no column 'time'; the columns are"),
        (("-k", 2, *MESSY, "--by", "time"), "Say which one it is: --time-column when."),
        (("-k", 99, *MESSY), "Use --at-least 100 first, or --too-few drop."),
        (("-k", 2, "--encoding", "latin-1"), "there is no column 'user'"),
        (("-k", 2, "--encoding", "martian"), "the encoding 'martian' is not known"),
    ],
)
def test_what_is_wrong_is_said_in_options(refused, log, tmp_path, options, said):
    (tmp_path / "train.csv").write_text("precious")
    assert said in refused("split", log, "--train", tmp_path / "train.csv", "--test", tmp_path / "t.csv", *options)


def test_both_files_are_written_or_none(run, log, tmp_path, monkeypatch):
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("precious")
    arguments = ("split", log, "--train", train, "--test", test, "-k", 2, *MESSY)
    written = pd.DataFrame.to_csv

    def full_disk(frame, file, **options):
        if "test" in file.name:
            raise OSError(28, "No space left on device", file.name)
        return written(frame, file, **options)

    monkeypatch.setattr(pd.DataFrame, "to_csv", full_disk)
    assert run(*arguments).code == 1
    assert train.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]
    for same in (("--train", train, "--test", train), ("--train", log, "--test", test)):
        assert run("split", log, *same, *MESSY).code == 2
    assert run("split", log, "--train", tmp_path / "t.json", "--test", test, *MESSY).code == 2


def test_every_command_that_reads_clicks_has_the_same_options(run, number_model, folder, tmp_path):
    rows = pd.read_csv(folder / "numbers.csv")
    known = set(zip(rows["user"], rows["item"], strict=True))
    new = [(user, item) for user in range(60) for item in range(12) if (user, item) not in known][:40]
    lines = "".join(f"{user}|{item}\n" for user, item in new)
    messy = tmp_path / "test.csv"
    messy.write_text("kündé|item\n" + lines + "|3\n", encoding="latin-1")
    options = ("--user-column", "kündé", "--delimiter", "|", "--encoding", "latin-1")
    for arguments in (
        ("recommend", number_model, "--histories", messy),
        ("evaluate", number_model, messy),
        ("report", number_model, "--test", messy, "-o", tmp_path / "r.html", "--no-rivals"),
    ):
        stopped = run(*arguments, *options)
        assert stopped.code == 1
        assert "line 42, column 1 (kündé): the kündé id is empty" in stopped.err
        assert "--missing drop" in stopped.err
        done = run(*arguments, *options, "--missing", "drop", "--json")
        assert done.code == 0, done.err
        assert f"bmcd: note: {messy}: dropped 1 of 41 rows: 1 without a user.\n" in done.err
        json.loads(done.out)


def test_test_clicks_that_no_model_can_know(run, number_model, folder, tmp_path):
    rows = pd.read_csv(folder / "numbers.csv")
    known = set(zip(rows["user"], rows["item"], strict=True))
    new = [(user, item) for user in range(60) for item in range(12) if (user, item) not in known][:40]
    clean, odd = tmp_path / "clean.csv", tmp_path / "odd.csv"
    clean.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in new))
    odd.write_text(clean.read_text() + f"{new[0][0]},99\nnobody,{new[0][1]}\n")
    stopped = run("evaluate", number_model, odd)
    assert stopped.code == 1
    assert "or say --ignore-unknown." in stopped.err
    found = run("evaluate", number_model, odd, "--ignore-unknown", "--json")
    assert "2 of 42 test clicks are of 1 users or 1 items that the model does not know: left out" in found.err
    want = run("evaluate", number_model, clean, "--json").json()
    assert found.json() | {"test": "", "n_new_users": 0} == want | {"test": ""}
    assert found.json()["n_new_users"] == 1
    odd.write_text("user,item\nnobody,99\n")
    nothing = run("evaluate", number_model, odd, "--ignore-unknown")
    assert (nothing.code, "nothing left to test on" in nothing.err) == (1, True)


def test_histories_speak_of_the_option(run, number_model, tmp_path):
    (tmp_path / "new.csv").write_text("user,item\nzoe,3\nzoe,unheard\n")
    found = run("recommend", number_model, "--histories", tmp_path / "new.csv")
    assert found.err.endswith("Leave them out, or say --ignore-unknown.\n")


def test_ids_of_files_in_other_encodings(run, folder, text_model, tmp_path):
    users = tmp_path / "users.csv"
    users.write_bytes("name;user\nZoé;user 03\n".encode("utf-16"))
    options = ("--users-file", users, "--delimiter", ";")
    assert run("recommend", text_model, *options, "--json").json()["n_users"] == 1
    users.write_bytes("name\tuser\nZoé\tuser 03\n".encode("latin-1"))
    options = ("--users-file", users, "--delimiter", "tab", "--encoding", "latin-1")
    assert run("recommend", text_model, *options, "--json").json()["n_users"] == 1


def told(option, own=(), of_fit=()):
    before = errors.known.set((frozenset(own), frozenset(of_fit)))
    try:
        return errors.as_options(Message("say ", option, "."))
    finally:
        errors.known.reset(before)


@pytest.mark.parametrize(
    ("option", "own", "said"),
    [
        (Option("draws", 200), "--draws", "say --draws 200."),
        (Option("max_time"), "--max-time", "say --max-time."),
        (Option("unknown", "ignore"), "--ignore-unknown", "say --ignore-unknown."),
        (Option("user", "the who"), "--user-column", 'say --user-column "the who".'),
        (Option("delimiter", ";"), "--delimiter", 'say --delimiter ";".'),
        (Option("delimiter", "\t"), "--delimiter", "say --delimiter tab."),
        (Option("count_k", [4, 5]), "--count-k", "say --count-k 4,5."),
        (Option("at_least", 6, call=True), "--at-least", "say --at-least 6."),
    ],
)
def test_options_are_told_in_the_words_of_the_command(option, own, said):
    assert told(option, own=[own]) == said
    assert told(option, of_fit=[own]) == said.replace("say ", "say bmcd fit ")
    assert told(option) == f"say {option}."


def test_text_of_the_user_is_never_taken_for_an_option():
    assert errors.as_options("the item id 'draws=200' is empty") == "the item id 'draws=200' is empty"


def test_the_names_of_options_are_there():
    import typer.main

    commands = typer.main.get_command(app).commands
    there = {name for command in commands.values() for param in command.params for name in param.opts}
    assert set(errors.NAMES.values()) <= there
    assert set(errors.FLAGS) <= there
    for name in ("fit", "split", "recommend", "evaluate", "report"):
        own = {option for param in commands[name].params for option in param.opts}
        assert {"--delimiter", "--encoding", "--missing", "--user-column", "--item-column"} <= own


def test_order_and_sessions_are_options_of_every_command_that_reads_a_log(run, folder, capsys):
    rows = [
        ("ann", "a", 5, "x"),
        ("ann", "b", 3, "x"),
        ("ann", "c", 9, "y"),
        ("bob", "a", 1, "z"),
        ("bob", "c", 2, "z"),
    ]
    log = folder / "ordered.csv"
    log.write_text("user,item,time,visit\n" + "".join(f"{u},{i},{t},{v}\n" for u, i, t, v in rows))
    train, test = folder / "first.csv", folder / "last.csv"
    for options, last in (
        ((), {"c"}),
        (("--time-column", "time"), {"c"}),
        (("--order", "rows"), {"c"}),
        (("--order", "rows", "--item-column", "time"), {"9", "2"}),
        (("--session-column", "visit", "--session-gap", "10s"), {"c"}),
    ):
        run("split", log, "--train", train, "--test", test, "-k", 1, "--by", "time", *options)
        assert {line.split(",")[1] for line in test.read_text().splitlines()[1:]} == last
    from typer.main import get_command

    from bmcd.cli import app

    wanted = {"--time-column", "--order", "--session-column", "--session-gap", "--user-column", "--delimiter"}
    for name in ("split", "fit", "evaluate", "recommend", "report", "serve"):
        options = {option for param in get_command(app).commands[name].params for option in param.opts}
        assert wanted <= options, name
