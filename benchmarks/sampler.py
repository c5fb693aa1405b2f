"""What the samplers reach: python benchmarks/sampler.py [simulation] [paper] [nrk] [scaling] [eshop] [ess]

Without arguments everything is run, which takes about half an hour on two cores (`ess` alone: 5 minutes).
Compilation is done beforehand and not counted. Seconds are of this machine; ratios within one run mean more.
"""

from __future__ import annotations

import platform
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import bmcd
from bmcd.inference.bmcd.initial import initial_state
from bmcd.inference.bmcd.sampler import ExactSampler
from bmcd.inference.diagnostics import table, verdict
from bmcd.inference.draws import FitSpec
from bmcd.inference.loop import Sampler, sweeps
from bmcd.inference.mixture import ChainState, Priors, make_data
from bmcd.inference.paper.sampler import PaperSampler
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.record import ChainRecord, Recording, draws_of
from bmcd.inference.run import Plan, Run
from bmcd.models.bmcd_predictor import PreparedDraws


def accuracy(probability: np.ndarray, truth: np.ndarray, k: int) -> float:
    best = np.argsort(-probability, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(truth, best, axis=1).mean())


def compile_everything() -> None:
    clicks = bmcd.simulate(n_users=60, seed=0).clicks
    PreparedDraws(sample_posterior(clicks, 2, Run(draws=2, warmup=2, chains=2))).predict(clicks.matrix, 5)
    sample_posterior(clicks, 2, Run(draws=2, warmup=2, chains=2), sampler="paper", count_k=(5,))


def simulation(seeds: int = 5) -> None:
    """The paper's simulation: seconds from `fit` to probabilities, and accuracy below the limit."""
    print(
        "\nPaper's simulation: N = 3000, n = 50, C = 3; 2 chains of 15 + 20 sweeps, probabilities from 2 x 10 draws"
    )
    rows = []
    for seed in range(seeds):
        data = bmcd.simulate(seed=seed)
        began = time.perf_counter()
        draws = sample_posterior(data.clicks, 3, Run(draws=20, warmup=15, chains=2, seed=seed, progress=False))
        predictor = PreparedDraws(draws, max_draws=20)
        found = {k: predictor.predict(data.clicks.matrix, k).probability for k in (5, 10)}
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
        sampler.stretch(state, 0, 0, 50, True)
        rates = []
        for part in range(5):
            began = time.process_time()
            sampler.stretch(state, 0, 50 + 1000 * part, 1000, False)
            rates.append(1000 / (time.process_time() - began))
        print(f"  {distance:<9} {max(rates):7.0f} (median {np.median(rates):.0f})")


def nrk_like(n_users: int = 7872, n_items: int = 200, n_clusters: int = 17) -> bmcd.Simulation:
    return bmcd.simulate(n_users, n_items, consensuses=n_clusters, alpha=10.0, mean_clicks=8.0, seed=0)


def nrk() -> None:
    """The shape of the paper's data set 1: converged, in how long, in how much memory."""
    data = nrk_like()
    print("\nNRK-1 shape: N = 7872, n = 200, C = 17, Poisson(8) clicks, alpha = 10; 2 chains of 80 + 270 sweeps")
    began = time.perf_counter()
    draws = sample_posterior(data.clicks, 17, Run(draws=270, warmup=80, chains=2, seed=1, progress=False))
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
            train, 17, Run(draws=60, warmup=100, chains=n_chains, seed=1, progress=False), rank_scale=scale
        )
        found = [
            PreparedDraws(draws.of_chain(chain), max_draws=20).predict(train.matrix, 10).probability
            for chain in range(n_chains)
        ]
        seconds = time.perf_counter() - began
        singles = ", ".join(f"{accuracy(p, truth, 10):.2%}" for p in found)
        averaged = accuracy(np.mean(found, axis=0), truth, 10)
        print(f"  {scale}: {seconds:.0f} s; single chains {singles}; averaged {averaged:.2%}")
        print(f"    {verdict(draws).text}")


def chains_in(
    seconds: float, sampler: Sampler, starts: list[ChainState], problem: FitSpec, thin: int
) -> list[ChainRecord]:
    """Chains of so many CPU seconds each, two at a time; a third is warm-up, the draws are those of the rest."""

    def run(chain: int) -> ChainRecord:
        state = starts[chain]
        for plan, share in ((Plan(1, 1, 10**6), 1 / 3), (Plan(1, 8000, 0, thin), 2 / 3)):
            # Another number for the second part, so that it has random numbers of its own.
            record = ChainRecord(chain + len(starts) * (plan.warmup == 0), state, Recording(problem), plan)
            began = time.thread_time()
            for _ in sweeps(sampler, record):
                if time.thread_time() - began >= share * seconds:
                    break
            state = record.state
        return record

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run, range(len(starts))))


def ess(chosen: tuple[str, ...] = ("simulation", "eshop"), n_chains: int = 4, of_budget: float = 1.0) -> None:
    """Effective samples in the same CPU time from the same starts, exact sampler against the paper's."""
    train = bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)[0]
    problems = {"simulation": (bmcd.simulate(seed=0).clicks, 3, 24.0), "eshop": (train, 17, 36.0)}
    print(
        f"\nEffective samples (bulk) of {n_chains} chains from k-means: all together, and summed over single ones."
    )
    print("An R-hat, of all or of the worst single one, well above 1 means that they say little.")
    for name in chosen:
        clicks, n_clusters, budget = problems[name]
        data, seconds = make_data(clicks.matrix), budget * of_budget
        problem = FitSpec(clicks.n_users, clicks.n_items, n_clusters, "", {})
        starts = [initial_state(clicks, n_clusters, seed=1, chain=chain) for chain in range(n_chains)]
        print(f"  {name}, {seconds:g} CPU s a chain         draws   all: R-hat ESS   single: R-hat ESS   mean (sd)")
        found: dict[str, list[tuple[float, float]]] = {"log joint": [], "slowest alpha": []}
        for kind, thin in ((ExactSampler, 1), (PaperSampler, 10)):
            records = chains_in(seconds, kind(data, n_clusters, Priors(), seed=1), starts, problem, thin)
            draws = draws_of(records, 1, "", "time", "")
            every, single = table(draws), [table(draws_of([record], 1, "", "time", "")) for record in records]
            slowest = every[every.index.str.startswith("alpha")].ess_bulk.idxmin()
            for what, row in zip(found, (every.loc["log joint"], every.loc[slowest]), strict=True):
                rhat = max(chain.rhat[row.name] for chain in single)
                within = sum(chain.ess_bulk[row.name] for chain in single)
                found[what].append((row.ess_bulk, within))
                print(
                    f"    {kind.__name__} {row.name:<14} {draws.n_draws:5d} / {thin:<3d} {row.rhat:8.2f} "
                    f"{row.ess_bulk:7.0f} {rhat:9.2f} {within:6.0f} "
                    f"{row['mean']:9.7g} ({row.sd:.2g})"
                )
        for what, (exact, paper) in found.items():
            together, single = (a / b for a, b in zip(exact, paper, strict=True))
            print(f"    exact / paper, {what}: {together:.1f} together, {single:.1f} single chains")


if __name__ == "__main__":
    sections = {f.__name__: f for f in (simulation, paper, nrk, scaling, eshop, ess)}
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    compile_everything()
    for section in sys.argv[1:] or sections:
        sections[section]()
