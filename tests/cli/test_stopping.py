"""Ctrl-C, kill and closed pipes, in real processes."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


def fit_arguments(folder, path, draws=1500, warmup=50):
    options = ("--model", "bmcd", "--clusters", 2, "--chains", 2, "--draws", draws, "--warmup", warmup)
    return ("fit", folder / "numbers.csv", "-o", path, *options)


def stopped(process, checkpoint, how):
    """Wait until the chains run, then send the signal."""
    while not checkpoint.exists():
        time.sleep(0.02)
        assert process.poll() is None, process.stderr.read()
    time.sleep(0.2)
    process.send_signal(how)
    return process.communicate(timeout=120)


def test_a_stopped_fit_run_again_gives_the_same_model(start, run, folder, tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "stopped").mkdir()
    whole, path = tmp_path / "whole" / "m.bmcd", tmp_path / "stopped" / "m.bmcd"
    assert run(*fit_arguments(folder, whole)).code == 0
    checkpoint = path.with_name("m.bmcd.checkpoint")
    with start(*fit_arguments(folder, path)) as process:
        _, err = stopped(process, checkpoint, signal.SIGINT)
    assert process.returncode == 130, err
    line = next(line for line in err.splitlines() if line.startswith("bmcd: stopped by Ctrl-C"))
    assert "No model was written yet" in line
    command = " ".join(map(str, fit_arguments(folder, path)))
    assert line.endswith(f"To resume, run again: bmcd {command}")
    assert "Traceback" not in err
    assert checkpoint.exists()
    assert not path.exists()
    with start(*fit_arguments(folder, path)) as process:
        stopped(process, checkpoint, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not path.exists()
    found = run(*fit_arguments(folder, path))
    assert found.code == 0, found.err
    assert f"Resuming from {checkpoint}" in found.out
    assert path.read_bytes() == whole.read_bytes()
    assert [file.name for file in path.parent.iterdir()] == ["m.bmcd"]


def test_a_reader_that_has_seen_enough(start, number_model):
    with start("recommend", number_model, "-k", 3, "--json") as process:
        assert process.stdout.readline() == "{\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.wait() in (0, 141)  # 0 if all of it was in the pipe already


def test_a_closed_pipe_leaves_no_traceback(start, number_model):
    for arguments in (("recommend", number_model), ("clusters", number_model, "--json"), ("doctor", "--help")):
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-m", "bmcd", *map(str, arguments)]
        found = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
        os.close(write)
        assert "Traceback" not in found.stderr
        assert "BrokenPipeError" not in found.stderr
        assert found.returncode != 0


def test_no_colour_and_no_bar_unless_at_a_terminal(start, number_model, folder, tmp_path, tiny):
    with start("fit", folder / "numbers.csv", "-o", tmp_path / "m.bmcd", *tiny) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "\x1b" not in out + err
    assert "sweeps" not in err


def test_an_encoding_that_lacks_the_letters(start, text_model):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with start("recommend", text_model, "-k", "12", env=environment) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "\\u88e4" in out


# Ctrl-C in the process itself, at a moment that a person could only hit by chance.
AT_A_MOMENT = """
import os, signal, sys
import bmcd.models.bmcd as module
real = module.{name}
def interrupted(*arguments, **options):
    if {before}:
        os.kill(os.getpid(), signal.SIGINT)
    found = real(*arguments, **options)
    os.kill(os.getpid(), signal.SIGINT)
    return found
module.{name} = interrupted
from bmcd.cli import app
app(sys.argv[1:], prog_name="bmcd")
"""


def interrupted_at(code, arguments):
    signals = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=signals)


def test_ctrl_c_while_the_model_is_written_comes_too_late(folder, tmp_path, run):
    """Everything is written, the checkpoint is gone, and it says so."""
    path = tmp_path / "m.bmcd"
    code = AT_A_MOMENT.format(name="pack_mixture", before=True)
    found = interrupted_at(code, fit_arguments(folder, path, 20, 5))
    assert found.returncode == 0, found.stderr
    assert f"bmcd: Ctrl-C came while the model was written: it is complete, in {path}." in found.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["m.bmcd"]
    (tmp_path / "other").mkdir()
    assert run(*fit_arguments(folder, tmp_path / "other" / "m.bmcd", 20, 5)).code == 0
    assert path.read_bytes() == (tmp_path / "other" / "m.bmcd").read_bytes()


def test_ctrl_c_before_the_model_is_written_writes_nothing(folder, tmp_path, run):
    """All is drawn, and then Ctrl-C comes: no model, the checkpoint stays, and the same command goes on."""
    path = tmp_path / "m.bmcd"
    code = AT_A_MOMENT.format(name="sample_posterior", before=False)
    found = interrupted_at(code, fit_arguments(folder, path, 20, 5))
    assert found.returncode == 130, found.stderr
    assert "No model was written yet" in found.stderr
    assert "To resume, run again" in found.stderr
    assert not path.exists()
    assert (tmp_path / "m.bmcd.checkpoint").exists()
    assert run(*fit_arguments(folder, path, 20, 5)).code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["m.bmcd"]
