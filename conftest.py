"""What holds for all tests and examples: how they are shared between workers, skipped and ended."""

import contextlib
import faulthandler
import os
import signal
import sys
from pathlib import Path

import pytest

# Groups of tests that take longest come first. Others that take long follow when their kernels have been compiled.
FIRST, LONG, COMPILED = ("blend", "spark"), ("live", "site"), "tests/p"
# Seconds until a process that has run its tests is ended, if it does not end by itself.
LINGERING = 120


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request, tmp_path_factory, monkeypatch):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Run the tests of a file on one worker, so that its fixtures are made and its kernels compiled once."""
    if not config.pluginmanager.hasplugin("xdist"):
        return

    def place(item):
        mark = item.get_closest_marker("xdist_group")
        name = mark.args[0] if mark else ""
        if name in FIRST:
            return FIRST.index(name)
        return len(FIRST) + (1 if name in LONG else 0 if item.nodeid < COMPILED else 2)

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def _failed_if_skipped(report, name):
    if (
        report.outcome == "skipped"
        and not hasattr(report, "wasxfail")
        and os.environ.get("BMCD_REQUIRE_ALL") == "1"
    ):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{name} may not be skipped (BMCD_REQUIRE_ALL=1): {why}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Fail tests that are skipped, for whatever reason."""
    return _failed_if_skipped((yield), item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Fail files that are skipped as a whole."""
    return _failed_if_skipped((yield), collector.nodeid)


def child_processes():
    """Return {process: command} of the children of this process; empty where there is no /proc."""
    found = {}
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for process in map(int, file.read_text().split()):
                command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ")
                found[process] = command.decode(errors="replace").strip()
    return found


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """End what tests have left running, which could keep this process or its output open for ever.

    A process that still does not end, because of a thread, prints where its threads are and exits.
    """
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        return  # the children are workers, which end their own
    for process, command in child_processes().items():
        print(f"killed, since a test left it running: {command[:200]}", file=sys.__stderr__)
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)
    with contextlib.suppress(Exception):  # no standard error to write to
        faulthandler.dump_traceback_later(LINGERING, exit=True, file=sys.__stderr__)
