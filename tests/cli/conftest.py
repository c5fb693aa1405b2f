import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import bmcd
from bmcd.cli import app

TINY = ("--model", "bmcd", "--draws", "5", "--warmup", "5", "--chains", "2", "--clusters", "2")


@pytest.fixture(scope="session")
def tiny():
    """Options that make a fit take next to nothing."""
    return TINY


@pytest.fixture(scope="session")
def run():
    """Run a command in this process; `json` reads what it printed."""

    def invoke(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "120"})
        return SimpleNamespace(
            code=result.exit_code,
            out=result.stdout,
            err=result.stderr,
            exception=result.exception,
            json=lambda: json.loads(result.stdout),
        )

    return invoke


@pytest.fixture
def refused(run, tmp_path):
    """Run a command that must end with exit code 1 and one line on standard error, and leave the files alone."""

    def invoke(*arguments):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        result = run(*arguments)
        assert (result.code, result.out) == (1, ""), result.err + result.out
        assert result.err.startswith("bmcd: error: ")
        assert result.err.count("\n") == 1
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        return result.err

    return invoke


@pytest.fixture(scope="session")
def start():
    """Start a command in a process of its own, in which Ctrl-C means what it means to a person."""

    def popen(*arguments, **options):
        # A test run started in the background ignores SIGINT, and its children would too.
        terminal = (lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) if os.name == "posix" else None
        return subprocess.Popen(
            [sys.executable, "-m", "bmcd", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=terminal,
            **options,
        )

    return popen


def clicks(n_users=60, n_items=12):
    return bmcd.simulate(n_users, n_items, consensuses=2, alpha=5.0, mean_clicks=4.0, seed=3).clicks.to_frame()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Clicks as a newcomer has them, with text ids and titles, and others with numbers; and a model of each."""
    folder = tmp_path_factory.mktemp("cli")
    frame = clicks()
    frame.to_csv(folder / "numbers.csv", index=False)
    rows = [f"user {u:02},art-{i}" for u, i in zip(frame["user"], frame["item"], strict=True)]
    dirty = "\ufeff customer , article ,when\n\n" + "".join(f"{row},monday\r\n" for row in rows)
    dirty += "\n" + "".join(f"{row},tuesday\n" for row in rows[:7]) + "\n\n"
    (folder / "dirty.csv").write_text(dirty, encoding="utf-8", newline="")
    titles = ["\x1b]0;owned\x07Bell", "[red]Not red[/red]", "Trousers", "Müller's 裤子", '"quoted", comma', "=1+1"]
    lines = "".join('art-{},"{}"\n'.format(i, title.replace('"', '""')) for i, title in enumerate(titles))
    (folder / "titles.csv").write_text("article,title\n" + lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def text_model(folder, run):
    path = folder / "text.bmcd"
    columns = ("--user-column", "customer", "--item-column", "article", "--titles", folder / "titles.csv")
    result = run("fit", folder / "dirty.csv", "-o", path, *columns, *TINY)
    assert result.code == 0, result.err
    (folder / "text.log").write_text(result.out, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def number_model(folder, run):
    path = folder / "numbers.bmcd"
    result = run("fit", folder / "numbers.csv", "-o", path, *TINY, "--json")
    assert result.code == 0, result.err
    (folder / "numbers.json").write_text(result.out, encoding="utf-8")
    return path
