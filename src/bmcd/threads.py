"""The number of threads: as many as the caller asks for, or one for each core that this process may use."""

from __future__ import annotations

import os
from functools import cache

from bmcd.checks import check_count

LIMIT = "BMCD_THREADS"


def thread_count(n_threads: int | None = None) -> int:
    """Return the number of threads asked for; None for one on each core that may be used.

    >>> thread_count(3)
    3
    """
    return n_cores() if n_threads is None else check_count("n_threads", n_threads)


def n_cores() -> int:
    """Return the number of cores this process may use: its affinity, its container's share, BMCD_THREADS."""
    limit = os.environ.get(LIMIT, "")
    cores = _allowed_cores()
    return min(cores, int(limit)) if limit.isascii() and limit.isdigit() and int(limit) > 0 else cores


@cache
def _allowed_cores() -> int:
    from joblib import cpu_count

    return int(cpu_count())
