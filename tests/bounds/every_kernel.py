"""Call every compiled kernel on awkward sizes. Run by test_bounds.py with numba's bounds checks switched on."""

from dataclasses import replace

import numpy as np

import bmcd
from bmcd.inference.arviz import mixture_tree
from bmcd.inference.draws import match_clusters
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import Run
from bmcd.mallows import DISTANCES, log_likelihood, sample, sample_latent, top_probabilities
from bmcd.models.bmcd_predictor import PreparedDraws
from bmcd.testing import example_clicks


def main():
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 8, 13, 30, 60, 121):
        rho = np.stack([rng.permutation(n) + 1 for _ in range(2)])
        clicks = np.array([rng.permutation(n) < c for c in [*range(n + 1), *rng.integers(0, n + 1, 20)]])
        for alpha in (0.0, 1.0, 30.0, 500.0):
            for scale in ("linear", "log"):
                log_likelihood(clicks, rho, alpha, rank_scale=scale)
                sample_latent(clicks, rho[0], alpha, rank_scale=scale)
                for k in {1, 2, n // 4 + 1, n // 2 + 1, n // 2 + 3, 3 * n // 4 + 1, max(n - 1, 1), n, n + 3}:
                    top = top_probabilities(clicks, rho, alpha, k, rank_scale=scale)
                    expected = np.minimum(k, n - clicks.sum(axis=1))[:, None]
                    assert np.abs(top.sum(axis=1) - expected).max() < 1e-9
        for name in DISTANCES:
            sample(rho[0], 3.0, 5, name)
    for n_users, n, n_clusters in ((3, 2, 2), (5, 1, 1), (30, 12, 3), (40, 50, 4)):
        matrix = rng.random((n_users, n)) < 0.3
        matrix[0], matrix[1] = True, False
        clicks_ = bmcd.Clicks.from_matrix(matrix)
        run = Run(draws=5, warmup=5, chains=2, progress=False)
        for scale in ("linear", "sqrt"):
            draws = sample_posterior(clicks_, n_clusters, run, rank_scale=scale)
            predictor = PreparedDraws(draws)
            for k in (1, n // 2 + 1, n):
                predictor.predict(clicks_.matrix, k)
                predictor.by_cluster(clicks_.matrix[[1]], 0, k)
            mixture_tree(draws, match_clusters(draws), clicks_, True, None)
        if 2 < n < 15:
            for name in DISTANCES:
                for move in ("swap", "leap_and_shift"):
                    options = {"distance": name, "sampler": "paper", "ranks_move": move}
                    sample_posterior(clicks_, n_clusters, replace(run, thin=20), **options)
    for seed in range(3):
        log = example_clicks(seed, ordered=True)
        for name in ("Trending", "Transitions", "RecentCooccurrence", "SessionKNN", "EASE"):
            options = {"decay": 0.5} if name == "EASE" else {}
            model = getattr(bmcd.baselines, name)(**options).fit(log)
            model.recommend(1)
            model.recommend_for([[], log.items[:5].tolist()], log.n_items + 3)
    print("every kernel stayed inside its arrays")


if __name__ == "__main__":
    main()
