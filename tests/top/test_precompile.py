"""scripts/precompile.sh leaves nothing to be compiled for what it promises."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "scripts" / "precompile.sh"


@pytest.mark.deep
@pytest.mark.skipif(sys.platform == "win32", reason="the script is for images of Linux")
def test_nothing_is_left_to_compile(tmp_path):
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    subprocess.run(["sh", str(SCRIPT)], env=environment, cwd=tmp_path, check=True, timeout=3600)
    doctor = subprocess.run(
        ["bmcd", "doctor"], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=3600
    )
    from_disk, now = map(
        int, re.search(r"(\d+) kernels came from disk, (\d+) were compiled", doctor.stdout).groups()
    )
    assert from_disk > 0
    assert now == 0
