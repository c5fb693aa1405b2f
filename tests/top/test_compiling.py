import os
import subprocess
import sys
import time

import pytest

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


def test_kernels_older_than_their_sources_are_forgotten(tmp_path):
    """A callee's file counts, also one without kernels beside it; a file at the top without kernels does not."""
    sub = tmp_path / "sub"
    for folder in (tmp_path, sub):
        (folder / "__pycache__").mkdir(parents=True)
    kernels = [
        tmp_path / "__pycache__" / "streams.draw-1.py311.nbi",
        sub / "__pycache__" / "moves.move-7.py311.nbi",
    ]
    files = [tmp_path / "streams.py", tmp_path / "cli.py", sub / "moves.py", sub / "constants.py"]
    now = time.time_ns()
    for file in (*files, *kernels):
        file.touch()
        os.utime(file, ns=(now, now))
    assert forget_stale_kernels(tmp_path) == 0
    os.utime(tmp_path / "cli.py", ns=(now + 1, now + 1))
    assert forget_stale_kernels(tmp_path) == 0
    os.utime(sub / "constants.py", ns=(now + 1, now + 1))
    assert forget_stale_kernels(tmp_path) == 2
    assert not any(kernel.exists() for kernel in kernels)


@pytest.mark.deep  # two minutes of compiling
def test_kernels_compiled_just_now_and_those_read_from_disk_give_the_same_bytes(tmp_path):
    """Sums that may be reordered are reordered otherwise where they are compiled into their callers."""
    code = """
import hashlib, warnings, bmcd
warnings.simplefilter("ignore")
clicks = bmcd.simulate(100, 30, consensuses=2, alpha=5.0, mean_clicks=6.0, seed=3).clicks
for model in (bmcd.BMCD(2), bmcd.Tastes(4)):
    model.fit(clicks, draws=3, warmup=4, chains=2, progress=False)
    print(hashlib.sha256(model.probabilities(5).tobytes() + model.draws_.alpha.tobytes()).hexdigest())
"""
    first, second = (run(code, NUMBA_CACHE_DIR=str(tmp_path))[0] for _ in range(2))
    assert first == second
