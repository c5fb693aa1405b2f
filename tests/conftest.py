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
    """Import a module, or skip the test; with BMCD_REQUIRE_ALL=1 nothing may be skipped."""

    def imported(name: str) -> ModuleType:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            if os.environ.get("BMCD_REQUIRE_ALL") == "1":
                pytest.fail(f"{name} is required, but cannot be imported: {error}")
            pytest.skip(f"extra missing: {name}")

    return imported


@pytest.fixture
def rotating_seed() -> int:
    """A new seed on every run, so that no test lives on a lucky one; set BMCD_SEED to repeat a run."""
    seed = int(os.environ.get("BMCD_SEED") or time.time_ns() % 2**32)
    print(f"repeat with BMCD_SEED={seed}")  # pytest shows it when the test fails
    return seed


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


def _skip_or_fail(what):
    if os.environ.get("BMCD_REQUIRE_ALL") == "1":
        pytest.fail(f"{what} is required: scripts/need_chromium.sh gets it")
    pytest.skip(f"missing: {what}")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Debian's chromium, driven by selenium; it keeps what the pages complain of."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        _skip_or_fail("selenium")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not chromium or not driver:
        _skip_or_fail("chromium with chromedriver")
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
