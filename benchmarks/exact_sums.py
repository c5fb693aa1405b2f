"""How long the exact sums take: `make bench`, or python -m benchmarks.exact_sums.

Every figure is the best of several runs on one thread, which is what a quiet machine would give. The ratios compare
things measured in the same run, and mean more than the seconds.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from tests.reference.mallows import slow_log_likelihood

import bmcd
from bmcd.mallows.footrule_scan import sample_scan
from bmcd.mallows.latent.scan import cluster_tables, shared_tables
from bmcd.mallows.latent.users import ClickedItems, log_likelihoods, redraw, top_probabilities
from bmcd.mallows.rank_scale import scale_values
from bmcd.rng import stream_key

USERS = 1024


def best(function: Callable[[], object], repeats: int = 7) -> float:
    """Return the seconds of the fastest of several calls, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def users(n: int, alpha: float, typical: bool, mean_clicks: float) -> ClickedItems:
    """Return clicks of users drawn from the model itself (typical), or at random, as of another cluster."""
    rng = np.random.default_rng(0)
    n_clicked = np.clip(rng.poisson(mean_clicks, USERS), 1, n)
    ranks = sample_scan(np.diff(scale_values(n)), alpha / n if typical else 0.0, USERS, rng)
    clicked = [np.flatnonzero(row <= c) for row, c in zip(ranks, n_clicked, strict=True)]
    return ClickedItems(np.concatenate([[0], np.cumsum([c.size for c in clicked])]), np.concatenate(clicked))


def per_user(n: int, alpha: float, typical: bool, scale: str = "linear", mean_clicks: float = 9) -> list[float]:
    """Return microseconds per user and cluster: log-likelihood, top-10 probabilities, draw of a ranking."""
    clicks = users(n, alpha, typical, mean_clicks)
    shared, rho = shared_tables(np.diff(scale_values(n, scale))), np.arange(1, n + 1)
    cluster = cluster_tables(shared, alpha)
    likelihood, top, draws = np.empty(USERS), np.empty((USERS, n)), np.empty((USERS, n), np.int64)
    everyone, key = np.arange(USERS), stream_key(0)
    calls: list[Callable[[], object]] = [
        lambda: log_likelihoods(everyone, clicks, rho, shared, cluster, likelihood),
        lambda: top_probabilities(everyone, clicks, rho, 10, shared, cluster, top),
        lambda: redraw(everyone, clicks, rho, shared, cluster, key, 0, 0, 0, draws),
    ]
    return [best(call) / USERS * 1e6 for call in calls]


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, one thread\n")
    print("microseconds per user and cluster   n  alpha   likelihood    top 10     draw")
    for n in (50, 100, 200, 400):
        for alpha in (3.0, 20.0):
            for typical in (True, False):
                a, b, c = per_user(n, alpha, typical)
                who = "of the cluster" if typical else "of another"
                print(f"  users {who:<24} {n:5d} {alpha:6.0f} {a:12.1f} {b:9.1f} {c:8.1f}")
    a, b, c = per_user(200, 3.0, False, "sqrt")
    print(f"  users of another, sqrt scale     {200:5d} {3:6d} {a:12.1f} {b:9.1f} {c:8.1f}")
    a, b, c = per_user(200, 3.0, False, "linear", 60)
    print(f"  users of another, 60 clicks      {200:5d} {3:6d} {a:12.1f} {b:9.1f} {c:8.1f}")

    small, large = per_user(200, 3.0, False), per_user(800, 3.0, False)
    ratios = ", ".join(f"{y / x:.1f}" for x, y in zip(small, large, strict=True))
    print(f"\nfour times the items (800 against 200): {ratios} times as long (16 would be n^2)")
    start, items = users(200, 3.0, False, 9)
    slow = best(lambda: slow_log_likelihood(set((items[: start[1]] + 1).tolist()), scale_values(200), 3.0), 3)
    print(f"slow twin in plain Python against compiled, n = 200: {slow * 1e6 / small[0]:.0f} times")

    print("\nlog_partition      n    milliseconds")
    for n in (50, 200, 1000, 5000, 10_000):
        print(f"             {n:7d} {best(lambda n=n: bmcd.mallows.log_partition(n, 3.0)) * 1e3:12.3f}")
    rho = np.arange(1, 51)
    draws = best(lambda: bmcd.mallows.sample(rho, 3.0, 3000))
    print(f"3,000 exact draws at n = 50: {draws * 1e3:.1f} ms")
    for what, code in {
        "import bmcd": "import bmcd",
        "import and touch every name": "import bmcd; [getattr(bmcd, n) for n in bmcd.__all__]",
        "start to first log_likelihood, cached": "import bmcd; bmcd.mallows.log_likelihood([[1, 0]], [1, 2], 1.0)",
        "python alone": "pass",
    }.items():
        seconds = best(lambda code=code: subprocess.run([sys.executable, "-c", code], check=True), 3)
        print(f"{what}: {seconds:.2f} s")


if __name__ == "__main__":
    main()
