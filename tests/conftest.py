import importlib
import os
from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import settings

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
