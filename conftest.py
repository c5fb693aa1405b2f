"""Examples write their files into a folder of their own; with BMCD_REQUIRE_ALL=1 nothing may be skipped."""

import os

import pytest


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request, tmp_path_factory, monkeypatch):
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(tmp_path_factory.mktemp("example"))


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
