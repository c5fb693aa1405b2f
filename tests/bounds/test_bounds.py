import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.deep
def test_no_kernel_leaves_its_arrays(tmp_path):
    """Compiled kernels do not check indices; here they do (numba must compile everything anew: minutes)."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("every_kernel.py"))],
        env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path), "BMCD_QUIET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "stayed inside" in done.stdout
