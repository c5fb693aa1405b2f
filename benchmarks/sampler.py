"""What the samplers reach: python benchmarks/sampler.py [simulation] [paper] [nrk] [scaling] [eshop] [ess]

Without arguments everything is run, which takes about half an hour on two cores. Compilation is done beforehand and
not counted. Seconds are of this machine; ratios within one run mean more.
"""

from __future__ import annotations

import platform
import resource
import sys
import time

import numpy as np

import bmcd
from bmcd.diagnostics import table, verdict
from bmcd.draws import Draws
from bmcd.exact_sampler import ExactSampler
from bmcd.initial import initial_state
from bmcd.kernels.state import make_data
from bmcd.paper_sampler import PaperSampler
from bmcd.posterior import posterior_probabilities, sample_posterior
from bmcd.priors import Priors


def accuracy(probability: np.ndarray, truth: np.ndarray, k: int) -> float:
    best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(truth, best, axis=1).mean())


def compile_everything() -> None:
    clicks = bmcd.simulate(n_users=60, seed=0).clicks
    posterior_probabilities(clicks, sample_posterior(clicks, 2, draws=2, warmup=2, chains=2), 5)
    sample_posterior(clicks, 2, draws=2, warmup=2, chains=2, sampler="paper", count_k=(5,))


def simulation(seeds: int = 5) -> None:
    """The paper's simulation: seconds from `fit` to probabilities, and accuracy below the limit."""
    print(
        "\nPaper's simulation: N = 3000, n = 50, C = 3; 2 chains of 15 + 20 sweeps, probabilities from 2 x 10 draws"
    )
    rows = []
    for seed in range(seeds):
        data = bmcd.simulate(seed=seed)
        began = time.perf_counter()
        draws = sample_posterior(data.clicks, 3, draws=20, warmup=15, chains=2, seed=seed, progress=False)
        found = {k: posterior_probabilities(data.clicks, draws, k, max_draws=10).mean(axis=0) for k in (5, 10)}
        seconds = time.perf_counter() - began
        row = [seconds]
        for k, probability in found.items():
            truth = data.next_items(k).matrix.toarray()
            row += [accuracy(probability, truth, k), accuracy(data.true_probabilities(k), truth, k)]
        rows.append(row)
        print(f"  seed {seed}: {row[0]:5.1f} s   next-5 {row[1]:.2%} limit {row[2]:.2%}   "
              f"next-10 {row[3]:.2%} limit {row[4]:.2%}")  # fmt: skip
    mean = np.mean(rows, axis=0)
    print(f"  mean  : {mean[0]:5.1f} s   next-5 {mean[1]:.2%} limit {mean[2]:.2%}   "
          f"next-10 {mean[3]:.2%} limit {mean[4]:.2%}")  # fmt: skip


def paper() -> None:
    """Iterations of the paper's algorithm per CPU second, one thread."""
    clicks = bmcd.simulate(seed=0).clicks
    print("\nPaper's Algorithm 2 on the same problem, iterations per CPU second (BayesMallows: 70-90)")
    for distance in ("footrule", "hamming", "kendall", "spearman"):
        sampler = PaperSampler(make_data(clicks.matrix), 3, Priors(), distance=distance)
        state = initial_state(clicks, 3, "popularity")
        sampler.run(state, 0, 0, 50, True)
        rates = []
        for part in range(5):
            began = time.process_time()
            sampler.run(state, 0, 50 + 1000 * part, 1000, False)
            rates.append(1000 / (time.process_time() - began))
        print(f"  {distance:<9} {max(rates):7.0f} (median {np.median(rates):.0f})")


def nrk_like(n_users: int = 7872, n_items: int = 200, n_clusters: int = 17) -> bmcd.Simulation:
    return bmcd.simulate(n_users, n_items, consensuses=n_clusters, alpha=10.0, mean_clicks=8.0, seed=0)


def nrk() -> None:
    """The shape of the paper's data set 1: converged, in how long, in how much memory."""
    data = nrk_like()
    print("\nNRK-1 shape: N = 7872, n = 200, C = 17, Poisson(8) clicks, alpha = 10; 2 chains of 80 + 270 sweeps")
    began = time.perf_counter()
    draws = sample_posterior(data.clicks, 17, draws=270, warmup=80, chains=2, seed=1, progress=False)
    print(f"  {time.perf_counter() - began:.0f} s; {verdict(draws).text}")
    print(table(draws).to_string())
    print(f"  most memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def scaling() -> None:
    """Seconds per sweep, one thread."""
    print("\nSeconds per sweep, one thread:      N     n    C   seconds")
    for n_users, n_items, n_clusters in (
        (2000, 100, 5), (4000, 100, 5), (8000, 100, 5), (2000, 100, 10), (2000, 100, 20),
        (2000, 200, 5), (2000, 400, 5),
    ):  # fmt: skip
        clicks = nrk_like(n_users, n_items, n_clusters).clicks
        sampler = ExactSampler(make_data(clicks.matrix), n_clusters, Priors())
        state = initial_state(clicks, n_clusters, em_rounds=1)
        seconds = []
        for sweep in range(6):
            began = time.perf_counter()
            sampler.sweep(state, 0, sweep, True)
            seconds.append(time.perf_counter() - began)
        print(f"                               {n_users:6d} {n_items:5d} {n_clusters:4d} {min(seconds):9.3f}")


def eshop(n_chains: int = 4) -> None:
    """Held-out accuracy on real clicks: each chain alone, and their average."""
    train, test = bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)
    truth = test.matrix.toarray()
    print(f"\neshop: {train.n_users} users, 200 items, 10 held out, C = 17; {n_chains} chains of 100 + 60 sweeps")
    for scale in ("linear", "sqrt"):
        began = time.perf_counter()
        draws = sample_posterior(
            train, 17, draws=60, warmup=100, chains=n_chains, rank_scale=scale, seed=1, progress=False
        )
        found = posterior_probabilities(train, draws, 10, max_draws=20)
        seconds = time.perf_counter() - began
        singles = ", ".join(f"{accuracy(p, truth, 10):.2%}" for p in found)
        averaged = accuracy(found.mean(axis=0), truth, 10)
        print(f"  {scale}: {seconds:.0f} s; single chains {singles}; averaged {averaged:.2%}")
        print(f"    {verdict(draws).text}")


def ess_per_second(draws: Draws, seconds: float) -> tuple[float, float]:
    rows = table(draws)["ess_bulk"]
    return rows["log joint"] / seconds, rows[[name for name in rows.index if "alpha" in name]].min() / seconds


def ess() -> None:
    """Effective samples per second, exact sampler against the paper's, same problem, same number of seconds."""
    train = bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)[0]
    problems = {"simulation": (bmcd.simulate(seed=0).clicks, 3), "eshop": (train, 17)}
    print("\nEffective samples per second          log joint   slowest alpha")
    for name, (clicks, n_clusters) in problems.items():
        found = {}
        for sampler, thin in (("exact", 1), ("paper", 100)):
            budget = {"draws": 100_000, "warmup": 20 * thin, "thin": thin, "chains": 2, "max_time": 90.0}
            began = time.perf_counter()
            draws = sample_posterior(clicks, n_clusters, sampler=sampler, seed=1, progress=False, **budget)
            found[sampler] = ess_per_second(draws, time.perf_counter() - began)
            joint, alpha = found[sampler]
            print(f"  {name:<12} {sampler:<8} {draws.n_draws:6d} draws {joint:9.3f} {alpha:13.3f}")
        ratios = [a / b for a, b in zip(found["exact"], found["paper"], strict=True)]
        print(f"  {name:<12} exact / paper          {ratios[0]:9.0f} {ratios[1]:13.0f}")


if __name__ == "__main__":
    sections = {f.__name__: f for f in (simulation, paper, nrk, scaling, eshop, ess)}
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    compile_everything()
    for section in sys.argv[1:] or sections:
        sections[section]()
