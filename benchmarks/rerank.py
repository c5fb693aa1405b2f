"""How long reranking takes: python benchmarks/rerank.py.

Probabilities as BMCD gives them, with its many exact ties: those of the true parameters of a simulation, for the
paper's 3,000 users x 50 items, and for 7,872 x 200 (the size of its case study). CPU seconds of one thread, without
the time the model takes for its probabilities.
"""

from __future__ import annotations

import resource
import time

import numpy as np

import bmcd

K = 10


def spent(**limits: object) -> tuple[float, object]:
    start = time.process_time()
    found = bmcd.rerank(**limits)  # type: ignore[arg-type]
    return time.process_time() - start, found


def size(n_users: int, n_items: int, n_clusters: int, seed: int = 0) -> None:
    sim = bmcd.simulate(n_users=n_users, n_items=n_items, consensuses=n_clusters, seed=seed)
    probability = sim.true_probabilities(K)
    even = n_users * K // n_items
    most = int(np.sort((~sim.clicks.matrix.toarray()).sum(axis=0))[0])
    print(f"{n_users:,} users x {n_items} items, {n_clusters} clusters, k = {K}; even exposure would be {even}")
    print("| limits | CPU s | expected hits | given up | items shown | Gini | error below |")
    for name, limits in {
        "none": {},
        "floor of a tenth of even": {"min_exposure": min(even // 10, most)},
        "floor of half of even": {"min_exposure": min(even // 2, most)},
        "cap of twice even": {"max_exposure": 2 * even},
        "floor of half, cap of twice even": {"min_exposure": min(even // 2, most), "max_exposure": 2 * even},
        "floor of 95 % of even": {"min_exposure": min(even * 95 // 100, most)},
        "all items once": {"min_coverage": 1.0},
    }.items():
        seconds, found = spent(model=probability, k=K, clicks=sim.clicks, value="probability", **limits)
        print(
            f"| {name} | {seconds:.2f} | {found.after.total:,.1f} | {found.price:,.1f} | {found.after.n_shown} "
            f"| {found.before.gini:.3f} to {found.after.gini:.3f} | {found.largest_error:.0e} |"
        )
    start = time.process_time()
    try:
        bmcd.rerank(probability, K, clicks=sim.clicks, max_exposure=even - 1)
    except ValueError as error:
        print(f"infeasible, {time.process_time() - start:.2f} s: {error}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB\n")


if __name__ == "__main__":
    bmcd.rerank(np.eye(3), 1, clicks=bmcd.Clicks.from_matrix(np.eye(3)), max_exposure=1)  # imports
    size(3000, 50, 3)
    size(7872, 200, 17)
