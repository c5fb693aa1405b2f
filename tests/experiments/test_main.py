"""The command line of the studies: its help, its errors in one line, and its exit codes."""

import json

import pytest
from experiments.__main__ import app
from experiments.simulation import SimulationStudy
from experiments.tasks import StudyError
from typer.testing import CliRunner


def run(*arguments, **options):
    return CliRunner().invoke(app, arguments, **options)


@pytest.mark.parametrize("study", ["simulation", "case_study", "pseudo_mallows", "next_clicks"])
def test_help_has_an_example(study):
    assert f"Example: python -m experiments {study}" in run(study, "--help", env={"COLUMNS": "120"}).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "nrk"], "give one of eshop-1, eshop-2, msweb"),
        (["--clicks", "nowhere.csv"], "nowhere.csv"),
        (["--clicks", "clicks.csv", "--quick"], "clicks or more"),
        (["--at-least", "5"], "--clicks"),
        (["--data", "msweb", "--clicks", "clicks.csv"], "not both"),
    ],
)
def test_bad_options_are_refused_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text("user,item\nann,a\nbob,b\n")
    result = run("case_study", "-o", "out", *arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    result = run("simulation", "-o", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert "is a file" in result.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (
            KeyboardInterrupt("stopped by Ctrl-C: 3 of 9 tasks are done and kept."),
            130,
            "3 of 9 tasks are done and kept",
        ),
        (StudyError("2 of 9 tasks failed;\nals: ValueError"), 1, "error: 2 of 9 tasks failed; als: ValueError"),
    ],
)
def test_a_stopped_study_says_what_is_kept(tmp_path, monkeypatch, error, exit_code, message):
    def stop(*arguments, **options):
        raise error

    monkeypatch.setattr(SimulationStudy, "run", stop)
    result = run("simulation", "-o", str(tmp_path / "out"))
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_bug_keeps_its_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(SimulationStudy, "run", lambda *arguments, **options: {}["missing"])
    assert isinstance(run("simulation", "-o", str(tmp_path / "out")).exception, KeyError)


def test_json_names_all_files(tmp_path, monkeypatch):
    def reproduce(study, folder, *, n_workers):
        for name in ("README.md", "tables/a.csv", "figures/b.png"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(f"{study.quick} {n_workers}")
        return folder / "README.md"

    monkeypatch.setattr(SimulationStudy, "reproduce", reproduce)
    result = run("simulation", "--quick", "--workers", "3", "--json", "-o", str(tmp_path))
    files = [str(tmp_path / "tables/a.csv"), str(tmp_path / "figures/b.png")]
    assert json.loads(result.stdout) == {"page": str(tmp_path / "README.md"), "files": files}
    assert (tmp_path / "README.md").read_text() == "True 3"
