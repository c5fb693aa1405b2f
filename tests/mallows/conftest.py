import os
import time

import pytest


@pytest.fixture
def rotating_seed() -> int:
    """A new seed on every run, so that no test lives on a lucky one; set BMCD_SEED to repeat a run."""
    seed = int(os.environ.get("BMCD_SEED") or time.time_ns() % 2**32)
    print(f"repeat with BMCD_SEED={seed}")  # pytest shows it when the test fails
    return seed
