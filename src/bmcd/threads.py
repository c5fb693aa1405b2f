"""How many threads to use: as many as the caller asks for, or as the scheduler and the container allow."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

from bmcd.errors import InputError

CGROUP = Path("/sys/fs/cgroup")
LIMIT = "BMCD_THREADS"


def thread_count(n_threads: int | None = None) -> int:
    """Return the number of threads asked for, or, if there is none, one for each core that may be used.

    >>> thread_count(3)
    3
    """
    if n_threads is None:
        return n_cores()
    if isinstance(n_threads, bool) or not isinstance(n_threads, int) or n_threads < 1:
        raise InputError(f"n_threads must be a whole number, 1 or more, but it is {n_threads!r}.")
    return n_threads


def n_cores() -> int:
    """Return how many cores this process may use.

    Not more than its affinity, than its container's share, nor than the environment variable BMCD_THREADS says.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get(LIMIT, "")
    wanted = int(limit) if limit.isascii() and limit.isdigit() and int(limit) > 0 else allowed
    return max(1, min(allowed, wanted, container_cores()))


@cache
def container_cores(folder: Path = CGROUP) -> int:
    """Return the cores that a container may use, rounded up; more than any machine has if there is no limit."""
    for quota_file, period_file in (("cpu.max", None), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, *period = (folder / quota_file).read_text().split()
            if period_file is not None:
                period = (folder / period_file).read_text().split()
            if quota != "max" and int(quota) > 0:
                return math.ceil(int(quota) / int(period[0]))
        except (OSError, ValueError, IndexError):  # no such limit on this system
            continue
    return 2**16
