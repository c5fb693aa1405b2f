"""The bar over several numbers of clusters. The line of a single run: test_sampler_loop.py."""

from types import SimpleNamespace

import pytest

from bmcd.inference import loop as progress
from bmcd.inference.loop import open_candidate_progress, open_progress


def chains(*next_sweeps):
    return [SimpleNamespace(next_sweep=number, plan=SimpleNamespace(n_sweeps=60)) for number in next_sweeps]


def test_the_bar_goes_on_with_the_sweeps_of_each_candidate(monkeypatch, capsys):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with open_candidate_progress(True, [5, 10]) as shown:
        for c, sweeps, seconds, completed, total in (
            (5, (0, 0), 3, 0, 35),  # 10 + 5 and 10 + 10
            (5, (60, 30), 8, 11.25, 35),
            (10, (0, 0), 4, 15, 35),
            (10, (30, 30), 20, 25, 35),
            (20, (0, 0), 1, 35, 65),  # one more than was known
        ):
            shown.start(c)
            clock[0] += seconds
            shown.update(chains(*sweeps), None)
            (task,) = shown.display.bar.tasks
            assert task.completed == pytest.approx(completed)
            assert task.total == total
            assert task.description == f"{c} clusters"
        # 35 of 65 took 36 seconds.
        assert task.fields["text"] == "2/3 candidates · 0:00:30 left"
        clock[0] += 0.1
        shown.update(chains(60, 60), None)
        assert task.completed == 35  # too soon to be shown again
    assert task.completed == 65
    assert "3 candidates" in capsys.readouterr().err


def test_no_bar_where_there_is_no_terminal(capsys):
    for wanted in (None, False):
        with open_candidate_progress(wanted, [2]) as shown:
            shown.start(2)
    assert capsys.readouterr() == ("", "")


def test_a_run_may_tell_somebody_else():
    other = SimpleNamespace(update=None)
    with open_progress(other, chains(0)) as shown:
        assert shown is other
