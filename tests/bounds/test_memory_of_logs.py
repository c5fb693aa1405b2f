"""What each step of a large log allocates, as multiples of the log itself: 24 bytes per click (user, item, time).

Each step runs in a process of its own, first with a small log and then with one of four times the size; what counts
is how much its peak memory grows by per click, so that imports, compiled code and the moments that weights are
learnt from do not.
"""

import subprocess
import sys

import pandas as pd
import pytest

import bmcd

ROW = 24
# A fit took 36 times the log from 12,000 to 48,000 users; the limit is a quarter higher, to catch another copy
# of the counts.
STEPS = {
    # step: what it does with a log and a model, and the largest multiple of the log
    "read": ("import bmcd\ndef step(log, model):\n    bmcd.read_clicks(log)\n", 8),
    "fit": (
        "import bmcd\ndef step(log, model):\n    bmcd.Blend(refresh='1d').fit(bmcd.read_clicks(log)).save(model)\n",
        45,
    ),
    "recommend": (
        "from bmcd.cli import app\n"
        "def step(log, model):\n"
        "    sys.argv = ['bmcd', 'recommend', model, '-k', '10', '-o', model + '.parquet', '--quiet']\n"
        "    app(standalone_mode=False)\n",
        12,
    ),
}
# Not ru_maxrss, which begins with the memory of the process that started this one.
PEAK = """
def peak():
    status = open("/proc/self/status").read()
    print("peak", 1024 * int(status.split("VmHWM:")[1].split()[0]))
"""
BOTH = """
given = sys.argv[1:]
for log, model in zip(given[::2], given[1::2]):
    step(log, model)
    peak()
"""


def peaks_of(program, *arguments):
    """Run a program in a process of its own, and return the peaks of its memory that it prints, in bytes."""
    command = [sys.executable, "-c", "import sys\n" + PEAK + program, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [int(line.split()[1]) for line in ended.stdout.splitlines() if line.startswith("peak ")]


@pytest.fixture(scope="module", params=[pytest.param(12_000), pytest.param(100_000, marks=pytest.mark.deep)])
def peaks(request, tmp_path_factory):
    """Peak memory of each step at two sizes, and the clicks by which these differ."""
    folder, given, sizes = tmp_path_factory.mktemp("logs"), [], []
    for users in (request.param, 4 * request.param):
        log = folder / f"{users}.parquet"
        hours = bmcd.simulate_log(users, users // 4, mean_clicks=12.0)
        rows = pd.concat([pd.DataFrame(hour) for hour in hours])
        rows.to_parquet(log)
        sizes.append(len(rows))
        given += [log, folder / f"{users}.bmcd"]
    return {step: peaks_of(program + BOTH, *given) for step, (program, _) in STEPS.items()}, sizes


@pytest.mark.parametrize("step", STEPS)
def test_no_step_allocates_more_than_a_multiple_of_the_log(peaks, step):
    found, (few, many) = peaks
    small, large = found[step]
    multiple = (large - small) / ((many - few) * ROW)
    print(f"{step}: {multiple:.1f} times the log")
    assert multiple < STEPS[step][1], (
        f"{step}: {multiple:.1f} times the log, {small / 1e6:.0f} to {large / 1e6:.0f} MB"
    )


def test_the_measure_sees_an_allocation():
    """Ten times a log of a million clicks, allocated and let go, shows in the peak."""
    plain, grown = peaks_of("import numpy as np\npeak()\nnp.ones(10 * 1_000_000 * 24 // 8)\npeak()\n")
    assert 0.9 < (grown - plain) / (10 * 1_000_000 * ROW) < 1.2
