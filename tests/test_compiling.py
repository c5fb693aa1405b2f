import os
import subprocess
import sys
import time

from bmcd.compiling import forget_stale_kernels


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_says_once_that_it_compiles_and_then_never_again(tmp_path):
    code = "import bmcd; print(bmcd.mallows.log_partition(5, 1.0)); print(bmcd.mallows.log_partition(6, 1.0))"
    first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path), BMCD_QUIET="") for _ in range(2))
    assert first[0] == second[0]
    assert first[1].count("compiling") == 1
    assert second[1] == ""


def test_can_be_told_to_keep_quiet(tmp_path):
    code = "import bmcd; bmcd.mallows.log_partition(5, 1.0)"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path), BMCD_QUIET="1") == ("", "")


def test_importing_bmcd_loads_nothing_heavy():
    loaded = run("import bmcd, sys; print(*sys.modules)")[0].split()
    assert not {"numba", "numpy", "scipy", "pandas", "pyarrow"} & set(loaded)


def test_kernels_older_than_a_source_are_forgotten(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    index, source = tmp_path / "__pycache__" / "kernel.nbi", tmp_path / "callee.py"
    source.touch()
    index.touch()
    now = time.time_ns()
    os.utime(source, ns=(now, now))
    os.utime(index, ns=(now + 1, now + 1))
    assert forget_stale_kernels(tmp_path) == 0
    os.utime(source, ns=(now + 2, now + 2))
    assert forget_stale_kernels(tmp_path) == 1
    assert not index.exists()
