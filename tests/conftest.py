import importlib
import os
import shutil
import time
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from hypothesis import settings
from scipy import stats

DEEP = os.environ.get("BMCD_DEEP") == "1"

settings.register_profile("quick", max_examples=100, deadline=None, derandomize=False, print_blob=True)
settings.register_profile("deep", max_examples=20_000, deadline=None, derandomize=False, print_blob=True)
settings.load_profile("deep" if DEEP else "quick")


@pytest.fixture
def deep() -> bool:
    """Whether this run may take long."""
    return DEEP


@pytest.fixture
def require() -> Callable[[str], ModuleType]:
    """Import a module, or skip the test; with BMCD_REQUIRE_ALL=1 a skipped test fails (see conftest.py above)."""

    def imported(name: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"extra missing: {name}: {error}")

    return imported


# A statistical test that fails is repeated once, with this many times the draws and a new seed.
AGAIN = 10


def _new_seed() -> int:
    return time.time_ns() % 2**32


@pytest.fixture
def rotating_seed() -> int:
    """A new seed on every run, so that no test depends on a lucky one; set BMCD_SEED to repeat a run.

    A test with it has the mark ``chance(rate)``, see `pytest_pyfunc_call`.
    """
    seed = int(os.environ.get("BMCD_SEED") or _new_seed())
    print(f"repeat with BMCD_SEED={seed}")  # pytest shows it when the test fails
    return seed


@pytest.fixture
def times() -> int:
    """By how much a statistical test multiplies its number of draws: 1, and `AGAIN` when it is repeated."""
    return int(os.environ.get("BMCD_TIMES") or 1)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function):
    """Repeat a statistical test that failed, before it counts.

    ``@pytest.mark.chance(rate)`` states the probability that one attempt fails although all is well: 0 for tests
    that hold for any seed. The repeat has the same limits, in standard errors, so both fail with at most rate ** 2.
    tests/test_chance.py adds them up. With BMCD_SEED there is one attempt, of that seed.
    """
    try:
        return (yield)
    except AssertionError as first:
        mark = pyfuncitem.get_closest_marker("chance")
        names = pyfuncitem._fixtureinfo.argnames
        if not (mark and mark.args[0] and "rotating_seed" in names) or os.environ.get("BMCD_SEED"):
            raise
        again = {"rotating_seed": _new_seed(), "times": AGAIN}
        print(f"failed: {str(first)[:2000]}")
        print(f"once more, with BMCD_SEED={again['rotating_seed']} BMCD_TIMES={AGAIN}")
        pyfuncitem.obj(**{name: again.get(name, pyfuncitem.funcargs[name]) for name in names})
        return True


@pytest.fixture
def p_value() -> Callable[..., float]:
    """Chi-square goodness of fit of drawn rankings to a law; those expected under 5 times count together."""

    def of(draws, law):
        seen = dict.fromkeys(law, 0)
        for row in draws.tolist():
            seen[tuple(row)] += 1
        observed, expected = np.array(list(seen.values())), np.array(list(law.values())) * len(draws)
        rare = expected < 5
        if rare.any():
            observed = np.append(observed[~rare], observed[rare].sum())
            expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] < 1:  # too rare to weigh, even together
            observed, expected = observed[:-1], expected[:-1]
            expected = expected * observed.sum() / expected.sum()
        return stats.chisquare(observed, expected).pvalue

    return of


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Debian's chromium, driven by selenium; it keeps what the pages complain of."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        pytest.skip("missing: selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("missing: chromium with chromedriver; scripts/need_chromium.sh gets it")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        *("headless", "no-sandbox", "disable-gpu", "no-first-run", "disable-background-networking"),
        *("disable-component-update", "disable-sync", "disable-dev-shm-usage"),
        f"user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()
