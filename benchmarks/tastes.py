"""What Tastes reaches: python benchmarks/tastes.py [fit] [people] [catalogue]

fit        16 chains of 200 sweeps, 40 tastes, on the shop's clicks, beside implicit's ALS with tuned settings
people     one new person, and 100,000 people in one call
catalogue  2,500 items, 6,000 users, 760,000 clicks, 60 tastes, one chain
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bmcd
from bmcd.inference.tastes.priors import TastePriors
from bmcd.inference.tastes.sampler import TasteSampler
from bmcd.inference.tastes.start import make_taste_data


def cpu_seconds(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[float, Any]:
    began = time.process_time()
    result = function(*arguments, **options)
    return time.process_time() - began, result


def shop() -> tuple[bmcd.Clicks, bmcd.Clicks]:
    return bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)


def warm_up(train: bmcd.Clicks) -> None:
    small = train.of_users(np.arange(40))
    bmcd.Tastes(3, chains=2).fit(small, draws=1, warmup=1, progress=False).recommend(2)
    bmcd.baselines.ALS(factors=2, iterations=1).fit(small)


def fit() -> None:
    train, test = shop()
    warm_up(train)
    taken, model = cpu_seconds(bmcd.Tastes(40).fit, train, draws=10, warmup=100, thin=10, seed=0, progress=False)
    accuracy = bmcd.evaluate(model.recommend(10), train, test, k=10).accuracy
    print(f"Tastes, 16 chains x 200 sweeps, 40 tastes: {taken:.1f} CPU s with the starts, {accuracy:.2%} hits")
    rival = bmcd.baselines.ALS(factors=32, alpha=5.0, regularization=60.0)  # as tuned in the case study
    taken_by_rival, als = cpu_seconds(rival.fit, train)
    accuracy = bmcd.evaluate(als.recommend(10), train, test, k=10).accuracy
    ratio = taken / taken_by_rival
    print(f"ALS (implicit), 32 factors: {taken_by_rival:.1f} CPU s, {accuracy:.2%} hits; ratio {ratio:.1f}")
    sampler = TasteSampler(make_taste_data(train.matrix), 40, TastePriors(), seed=0)
    state = sampler.start(0)
    times = [cpu_seconds(sampler.sweep, state, 0, sweep, False)[0] for sweep in range(60)]
    work = train.n_clicks * 40
    best, median = 1e9 * min(times) / work, 1e9 * float(np.median(times)) / work
    print(f"a sweep: {best:.1f} ns per click and taste at best, {median:.1f} in the median")


def people() -> None:
    train, _ = shop()
    model = bmcd.Tastes(40).fit(train, progress=False)
    rng = np.random.default_rng(0)
    histories = [rng.choice(train.items, 10, replace=False).tolist() for _ in range(300)]
    model.recommend_for(histories[:1])
    alone = []
    for history in histories:
        began = time.perf_counter()
        model.recommend_for([history], 10)
        alone.append(time.perf_counter() - began)
    median, most = 1e3 * np.quantile(alone, [0.5, 0.9])
    print(f"one new person, 10 clicks: median {median:.2f} ms, 90 % within {most:.2f} ms")
    rows = rng.integers(0, train.n_users, 100_000)
    many = bmcd.Clicks.from_matrix(train.matrix[rows], items=train.items)
    taken, _ = cpu_seconds(model.recommend_for, many, 10, n_threads=1)
    print(
        f"100,000 people in one call, one thread: {1e3 * taken / 100_000:.3f} ms each; peak {peak_memory():,.0f} MB"
    )


def catalogue() -> None:
    rng = np.random.default_rng(0)
    n_users, n_items, n_tastes = 6_000, 2_500, 60
    laws = rng.dirichlet(np.full(n_items, 0.02), n_tastes)
    rows = []
    for _ in range(n_users):
        p = rng.dirichlet(np.full(n_tastes, 0.1)) @ laws + 1e-6
        row = np.zeros(n_items, bool)
        row[rng.choice(n_items, 127, replace=False, p=p / p.sum())] = True
        rows.append(row)
    clicks = bmcd.Clicks.from_matrix(np.array(rows))
    before = peak_memory()
    began = time.perf_counter()
    bmcd.Tastes(n_tastes, chains=1).fit(clicks, progress=False)
    taken = time.perf_counter() - began
    print(f"{clicks!r}, {n_tastes} tastes, one chain of 200 sweeps: {taken:.0f} s, peak {peak_memory():,.0f} MB")
    print(f"(of which {before:,.0f} MB before the fit)")


def peak_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    for name in sys.argv[1:] or ("fit", "people", "catalogue"):
        {"fit": fit, "people": people, "catalogue": catalogue}[name]()
