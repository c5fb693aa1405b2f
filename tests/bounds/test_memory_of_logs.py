"""What each step of a large log allocates, as multiples of the log itself: 24 bytes per click (user, item, time).

Each step runs in a process of its own at two sizes, four times apart; what counts is how much its peak memory grows
by per click, so that imports, compiled code and the moments that weights are learnt from do not.
"""

import subprocess
import sys

import pytest

ROW = 24
# Fits of small logs took 28 to 35 times the log; the limit is a third higher, to catch another copy of the counts.
STEPS = {
    # step: program (its arguments are the log and a model), and the largest multiple of the log
    "read": ("import bmcd\nclicks = bmcd.read_clicks(sys.argv[1])\n", 8),
    "fit": ("import bmcd\nbmcd.Blend(refresh='1d').fit(bmcd.read_clicks(sys.argv[1])).save(sys.argv[2])\n", 45),
    "recommend": (
        "from bmcd.cli import app\n"
        "sys.argv = ['bmcd', 'recommend', sys.argv[2], '-k', '10', '-o', sys.argv[2] + '.parquet', '--quiet']\n"
        "app(standalone_mode=False)\n",
        12,
    ),
}
# Not ru_maxrss, which begins with the memory of the process that started this one.
PEAK = """
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print("peak", 1024 * int(line.split()[1]))
"""


def peak_of(program, *arguments):
    """Run a program in a process of its own, and return its peak memory in bytes."""
    command = [sys.executable, "-c", "import sys\n" + program + PEAK, *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return int(ended.stdout.split()[-1])


@pytest.fixture(scope="module", params=[pytest.param(12_000), pytest.param(100_000, marks=pytest.mark.deep)])
def peaks(request, tmp_path_factory):
    """Peak memory of each step at two sizes, and the clicks by which these differ."""
    folder, found, sizes = tmp_path_factory.mktemp("logs"), {}, []
    import pandas as pd

    for users in (request.param, 4 * request.param):
        log, model = folder / f"{users}.parquet", folder / f"{users}.bmcd"
        command = ("simulate", "--model", "log", "--users", users, "--items", users // 4, "--mean-clicks", 12)
        subprocess.run(
            [sys.executable, "-m", "bmcd", *map(str, command), "-o", str(log)], check=True, capture_output=True
        )
        sizes.append(len(pd.read_parquet(log, columns=["user"])))
        for step, (program, _) in STEPS.items():
            found.setdefault(step, []).append(peak_of(program, log, model))
    return found, sizes


@pytest.mark.parametrize("step", STEPS)
def test_no_step_allocates_more_than_a_multiple_of_the_log(peaks, step):
    found, (few, many) = peaks
    small, large = found[step]
    multiple = (large - small) / ((many - few) * ROW)
    assert multiple < STEPS[step][1], (
        f"{step}: {multiple:.1f} times the log, {small / 1e6:.0f} to {large / 1e6:.0f} MB"
    )


def test_the_measure_sees_an_allocation():
    """Ten times a log of a million clicks, allocated and let go, shows in the peak."""
    plain = peak_of("import numpy as np\n")
    grown = peak_of("import numpy as np\nnp.ones(10 * 1_000_000 * 24 // 8)\n")
    assert 0.9 < (grown - plain) / (10 * 1_000_000 * ROW) < 1.2
