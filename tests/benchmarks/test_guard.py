"""The guard fails where new code is slower than old by more than a third, and measures again before it does."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "guard.py"
_spec = importlib.util.spec_from_file_location("guard", FILE)
guard = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(guard)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the guard on made-up CPU seconds: the old code takes 1 s, the new one what a list says in turn."""

    def with_seconds(new, *arguments):
        taken = iter(new)

        class Made(guard.Worker):
            def __init__(self, source):
                self.is_old = source == "old"
                self.process = type("Process", (), {"kill": lambda _: None, "wait": lambda _: None})()

            def seconds(self, figure):
                return 1.0 if self.is_old else next(taken)

        monkeypatch.setattr(guard, "Worker", Made)
        monkeypatch.setattr(guard, "check_out", lambda revision, folder: "old")
        monkeypatch.setattr(sys, "argv", ["guard.py", "--rounds", "2", "--only", "reading", *arguments])
        guard.main()
        return capsys.readouterr().out

    return with_seconds


def test_a_third_longer_is_let_through(run):
    assert "1.30" in run([1.6, 1.3])


def test_what_is_slower_is_measured_again(run):
    assert "1.10" in run([1.5, 1.5, 1.4, 1.4, 1.1, 1.4, 1.4, 1.4])
    with pytest.raises(SystemExit, match="slower by more than a third: reading"):
        run([1.4] * 8)


def test_every_figure_has_a_name_and_a_line():
    assert len({figure.__name__ for figure in guard.FIGURES}) == len(guard.FIGURES)
    assert all(figure.__doc__ for figure in guard.FIGURES)


def test_an_unknown_revision_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="not in this clone"):
        guard.check_out("no-such-revision", tmp_path)
    assert (FILE.parent / "reference_revision.txt").read_text().split()[0].isalnum()
