"""Blend: seconds to fit, to learn again, and to answer, and how they grow with the number of items.

    python benchmarks/blend.py shop                 # the bundled visits, beside SessionKNN and EASE
    python benchmarks/blend.py growth 2000 1000000  # numbers of items
    python benchmarks/blend.py log clicks.parquet 1h  # a log with a column "time"; how long a fit is in use

CPU seconds after compiling. Absolute figures depend on the machine; the ratio to SessionKNN and EASE in the same
run travels better.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bmcd
from bmcd.baselines import EASE, SessionKNN

K, ASKED = 10, 2_000
# Clicks for each item, and at least; of each session on average.
CLICKS_PER_ITEM, FEWEST_CLICKS, LENGTH = 2, 300_000, 5
# The next item is one of this number of neighbours of the last one, or a popular one.
NEIGHBOURS, POPULAR = 20, 0.3
# SessionKNN, which returns a score for every item, takes part up to this size.
DENSE_ITEMS = 20_000


def cpu_seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of all threads that a call takes, and what it returns."""
    began = time.process_time()
    found = function()
    return time.process_time() - began, found


def simulated(n_items: int, seed: int = 0) -> bmcd.Clicks:
    """Return sessions in order: the next item is near the last one, or a popular one."""
    rng = np.random.default_rng(seed)
    n_clicks = max(CLICKS_PER_ITEM * n_items, FEWEST_CLICKS)
    users = np.sort(rng.integers(n_clicks // LENGTH, size=n_clicks))
    first = np.concatenate(([True], np.diff(users) > 0))
    popular = np.minimum((n_items ** rng.random(n_clicks)).astype(np.int64) - 1, n_items - 1)  # log-uniform
    step = rng.integers(1, NEIGHBOURS, n_clicks)
    jump = first | (rng.random(n_clicks) < POPULAR)
    start = np.maximum.accumulate(np.where(jump, np.arange(n_clicks), 0))  # where the latest jump was
    walked = np.cumsum(np.where(jump, 0, step))
    items = (popular[start] + walked - walked[start]) % n_items
    ids, codes = np.unique(users, return_inverse=True)
    return bmcd.Clicks.from_codes(codes, items, ids, np.arange(n_items), order="rows")


def report(name: str, clicks: bmcd.Clicks, models: dict[str, Any]) -> None:
    """Print CPU seconds of each model: to fit, to fit with a warm start, and of each answer."""
    rng = np.random.default_rng(1)
    rows = rng.permutation(clicks.n_users)[:ASKED]
    histories = clicks.of_users(np.sort(rows))
    print(f"{name}: {clicks.n_users:,} users, {clicks.n_items:,} items, {clicks.n_clicks:,} clicks")
    for label, model in models.items():
        fitting, fitted = cpu_seconds(lambda model=model: model.fit(clicks, seed=0))
        line = f"  {label:<12} fit {fitting:7.1f} s"
        if isinstance(fitted, bmcd.Blend):
            again = bmcd.Blend(refresh=fitted.refresh)
            warm, _ = cpu_seconds(lambda again=again, fitted=fitted: again.fit(clicks, seed=0, start=fitted))
            line += f", warm {warm:6.1f} s"
        fitted.recommend_for(histories.of_users(np.arange(20)), K)
        asking, _ = cpu_seconds(lambda fitted=fitted: fitted.recommend_for(histories, K))
        line += f", {1e3 * asking / histories.n_users:7.3f} ms per user"
        if isinstance(fitted, bmcd.Blend):
            line += f"; members {', '.join(fitted.members_)}"
        print(line, flush=True)
    print(f"  peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB", flush=True)


def models_for(clicks: bmcd.Clicks, refresh: str | None = None) -> dict[str, Any]:
    """Return Blend and, on catalogues that they can score, SessionKNN and EASE."""
    models: dict[str, Any] = {"Blend": bmcd.Blend(refresh=refresh)}
    if clicks.n_items <= DENSE_ITEMS:
        models["SessionKNN"] = SessionKNN()
    if clicks.n_items <= 5_000:
        models["EASE"] = EASE()
    return models


def main(arguments: list[str]) -> None:
    """Run one part."""
    part, *rest = arguments or ["shop"]
    small = simulated(500).of_users(np.arange(3_000))
    for model in models_for(small).values():  # compile
        model.fit(small, seed=0).recommend_for([[1, 2]], K)
    if part == "shop":
        clicks = bmcd.load_dataset("eshop")
        report("shop", clicks, models_for(clicks))
    elif part == "growth":
        for n_items in map(int, rest or ["2000", "20000", "200000", "1000000"]):
            clicks = simulated(n_items)
            report("simulated", clicks, models_for(clicks))
    elif part == "log":
        clicks = bmcd.read_clicks(rest[0])
        report("log", clicks, models_for(clicks, rest[1] if len(rest) > 1 else None))
    else:
        sys.exit(f"unknown part {part!r}: shop, growth or log.")


if __name__ == "__main__":
    main(sys.argv[1:])
