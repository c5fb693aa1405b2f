"""How much a log gains from fitting more often: back-tests of Blend at several intervals, over the same days.

    python benchmarks/freshness.py clicks.parquet --days 2 --each 12 -o freshness.json

Each interval ("15min", "1h", "1d") is a `refresh` of Blend and the window of `bmcd.backtest`: a model is fitted to
the clicks before each window and asked for ten items for the next click, at a random moment of each user active in
it. The last --days days are tested. Of short windows --each are taken, evenly spread over these days, so that all
hours count; a day is tested whole. Only totals are written, nothing about single users or items.
"""

from __future__ import annotations

import argparse
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np

import bmcd
from bmcd.clicks.times import read_duration

DAY = read_duration("1d", "day")


def begins(times: Any, days: int, window: str, each: int) -> list[Any]:
    """Return the times at which windows with clicks begin; windows follow each other and end with the log."""
    length, end = read_duration(window, "window"), int(times.max()) + 1
    number = days * DAY // length
    back = np.unique((end - 1 - times[times >= end - number * length]) // length)[::-1]
    chosen = back if len(back) <= each else back[np.unique(np.linspace(0, len(back) - 1, each).round().astype(int))]
    return [np.datetime64(end - (int(i) + 1) * length, "us") for i in chosen]


def measure(clicks: bmcd.Clicks, days: int, windows: list[str], each: int, k: int) -> dict[str, Any]:
    """Return the totals of a back-test of each interval."""
    times = clicks.times.view(np.int64)  # type: ignore[union-attr]
    found = {}
    for window in windows:
        before = resource.getrusage(resource.RUSAGE_SELF)
        tested = bmcd.backtest(
            bmcd.Blend(refresh=window), clicks, begins(times, days, window, each), window=window, k=k, horizon=1,
            progress=False,
        )  # fmt: skip
        after, row = resource.getrusage(resource.RUSAGE_SELF), tested.row()
        found[window] = {
            "windows": len(tested.cuts),
            "moments": row.n_users,
            "observed": round(k * row.hit_rate, 4),
            "low": round(k * row.hit_rate_low, 4),
            "high": round(k * row.hit_rate_high, 4),
            "predicted": round(k * row.predicted, 4),
            "outside": round(row.observed_outside, 4),
            "outside_expected": round(row.expected_outside, 4),
            "cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        }
        print(window, json.dumps(found[window]), flush=True)
    return found


def main() -> None:
    """Read the arguments, measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("clicks", type=Path)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--windows", default="15min,1h,1d")
    parser.add_argument("--each", type=int, default=12)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--time-column", default=None)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    clicks = bmcd.read_clicks(given.clicks, time_column=given.time_column)
    found = measure(clicks, given.days, given.windows.split(","), given.each, given.k)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
