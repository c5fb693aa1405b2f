"""kill -9 at random moments: the checkpoint always opens, loses at most one interval, and the end is the same."""

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bmcd.inference.checkpoint import read_checkpoint

SCRIPT = Path(__file__).parent / "toy.py"
_spec = importlib.util.spec_from_file_location("toy", SCRIPT)
toy = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(toy)


@pytest.mark.chance(0)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no kill -9")
def test_kill_at_random_moments(tmp_path, rotating_seed, deep):
    rng = np.random.default_rng(rotating_seed)
    whole, n_killed = toy.run(), 0
    for kill in range(200 if deep else 5):
        path, log = tmp_path / f"{kill}.ckpt", tmp_path / f"{kill}.log"
        n_threads = 1 + kill % 2
        # Two kills of the same run in a row, so that a resumed run is killed too.
        for _ in range(2 if kill % 2 else 1):
            n_killed += killed_after(rng.uniform(0, 0.8), path, log, n_threads)
            lines = log.read_text().splitlines()
            stored = read_checkpoint(path)  # whole, or a warning, which is an error here
            finished = [int(line.split()[1]) for line in lines if line.startswith("checkpoint")]
            # The first line of the log is that of the first checkpoint; the last may be later than the log.
            assert stored is not None
            assert sum(stored.header["run"]["next_sweep"]) >= max(finished)
        assert toy.same(whole, toy.run(checkpoint=path, n_threads=3 - n_threads))
        assert sorted(file.name for file in tmp_path.glob(f"{kill}.ckpt*")) == [f"{kill}.ckpt", f"{kill}.ckpt.1"]
    assert n_killed > 0  # a run takes longer than the longest wait, so most are killed in the middle


def killed_after(seconds, path, log, n_threads):
    """Start the run, kill it some time after its first sweep, and return whether it was still running."""
    before = log.read_text().count("sweep") if log.exists() else 0
    command = [sys.executable, str(SCRIPT), str(path), str(log), "0.005", str(n_threads)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and (not log.exists() or log.read_text().count("sweep") == before):
            time.sleep(0.002)
        time.sleep(seconds)
        was_running = process.poll() is None
        process.kill()
    assert process.returncode in (0, -9)
    return was_running
