"""Progress at a terminal, in a notebook, in a log, and nowhere."""

import io
import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

from bmcd import progress
from bmcd.progress import counting, open_display, surface, tell


@pytest.fixture
def notebook(monkeypatch):
    """Put a notebook around the test; return what it shows: the updates of its outputs."""
    shown = []

    def display(thing, display_id):
        shown.append((repr(thing), thing._repr_html_()))
        return SimpleNamespace(update=lambda thing: shown.append((repr(thing), thing._repr_html_())))

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_where_progress_is_shown(monkeypatch):
    assert [surface(wanted) for wanted in (None, True, False)] == ["log", "bar", "none"]
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True))
    assert surface(None) == "bar"
    monkeypatch.setenv("BMCD_QUIET", "1")
    assert [surface(wanted) for wanted in (None, True, False)] == ["none", "bar", "none"]


def test_a_notebook_has_one_line_that_changes_and_is_escaped(notebook, monkeypatch):
    assert [surface(wanted) for wanted in (None, True, False)] == ["notebook", "notebook", "none"]
    monkeypatch.setattr(progress, "NOTEBOOK_SECONDS", 0.0)
    with open_display(None) as line:
        line.show("<b>", 1, 4, "1/4")
        line.show("drawing", 4, 4, "4/4")
    assert [text for text, _ in notebook] == ["<b>: 1/4", "drawing: 4/4"]
    assert notebook[0][1] == '<div>&lt;b&gt; <progress value="1" max="4"></progress> 1/4</div>'


def test_short_work_shows_nothing_in_a_notebook_and_counting_leaves_nothing(notebook, monkeypatch):
    with counting(None, "users", 3) as show:
        show(3)
    assert notebook == []
    monkeypatch.setattr(progress, "NOTEBOOK_SECONDS", 0.0)
    with counting(None, "users", 3) as show:
        show(3)
    assert [text for text, _ in notebook] == ["users: 0/3", "users: 3/3 · 0:00:00 left", ""]


def test_a_shell_without_a_kernel_is_no_notebook(notebook):
    sys.modules["IPython"].get_ipython = lambda: SimpleNamespace()
    assert surface(None) == "log"
    sys.modules["IPython"].get_ipython = lambda: None
    assert surface(None) == "log"


def test_a_line_of_the_log_now_and_then(caplog, monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with caplog.at_level(logging.INFO, "bmcd"), open_display(None) as line:
        for clock[0] in range(0, 100, 10):
            line.show("drawing", clock[0], 100, f"{clock[0]}/100 sweeps")
        tell(None, "8 clusters")
    assert caplog.messages == [*(f"drawing: {n}/100 sweeps" for n in (30, 60, 90)), "8 clusters"]
    assert capsys.readouterr() == ("", "")


def test_a_bar_at_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with counting(True, "users", 3) as show:
        show(3)
    assert "3/3" in sys.stderr.getvalue()
