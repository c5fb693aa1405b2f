"""What is done with one simulated data set: each function is a task, and gives numbers fit for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from bmcd.evaluation import Evaluation
    from bmcd.simulation import Simulation

Result = dict[str, Any]

NEXT = (5, 10)
# Of 50 items the paper calls the 20 most clicked popular.
N_POPULAR = 20
# Of the paper's tables, extended to where nothing is kept.
CUTOFFS = {
    5: (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40),
    10: (0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60),
}
MEASURES = ("accuracy", "coverage", "correct_coverage", "intra_list_similarity", "novelty")


def limit(seed: int, n_users: int) -> Result:
    """The best that is possible on average: probabilities from the true parameters."""
    from bmcd.prediction.top_k import Lists, best_items, order_of_ids, recommendation_frame

    simulation = _simulate(seed, n_users)
    clicks = simulation.clicks
    available = ~clicks.matrix.toarray()
    # Equal probabilities go to the better consensus rank, as with BMCD itself.
    mean_rank = simulation.true_memberships() @ simulation.rho
    found: Result = {"items": np.sort(clicks.matrix.sum(axis=0)).tolist()}
    for k in NEXT:
        probability = simulation.true_probabilities(k)
        best = best_items(probability, available, k, order_of_ids(clicks.items), mean_rank)
        values = {"probability": np.clip(np.take_along_axis(probability, best, axis=1), 0.0, 1.0)}
        frame = recommendation_frame(clicks.users, Lists(best, values), clicks)
        found[str(k)] = _measured(_evaluate(frame, simulation, k))
    return found


def popularity(seed: int, n_users: int) -> Result:
    """The same items for everybody."""
    from bmcd.baselines import Popularity

    simulation = _simulate(seed, n_users)
    model = Popularity().fit(simulation.clicks)
    return {str(k): _measured(_evaluate(model.recommend(k), simulation, k)) for k in NEXT}


def bmcd(seed: int, n_users: int, n_clusters: int, draws: int, warmup: int, chains: int, keep: bool) -> Result:
    """BMCD with a given number of clusters, and the within-cluster distances that the paper chooses it by."""
    from bmcd.clusters.curves import boxplot_rows
    from bmcd.models.bmcd import BMCD

    simulation = _simulate(seed, n_users)
    model = BMCD(n_clusters).fit(
        simulation.clicks, draws=draws, warmup=warmup, chains=chains, seed=seed, n_threads=1, progress=False
    )
    within = model.draws_.within_distance
    found: Result = {
        "mwcd": float(within.mean()),
        "box": boxplot_rows({n_clusters: within}).iloc[0].to_dict(),
        "alpha": _round(np.sort(model.draws_.alpha, axis=2).mean(axis=(0, 1)), 4),
    }
    for k in NEXT:
        evaluation = _evaluate(model.recommend(k, n_threads=1), simulation, k)
        found[str(k)] = _measured(evaluation)
        if keep:
            calibration = evaluation.calibration
            assert calibration is not None  # BMCD gives probabilities
            found[str(k)]["probability"] = _round(calibration.probability, 6)
            found[str(k)]["hit"] = calibration.hit.astype(int).tolist()
    return found


def traces(seed: int, n_users: int, n_clusters: int, draws: int, warmup: int, chains: int) -> Result:
    """A longer run, for the traces of alpha and the verdict on convergence."""
    from bmcd.sampling.diagnostics import verdict
    from bmcd.sampling.posterior import sample_posterior

    simulation = _simulate(seed, n_users)
    found = sample_posterior(
        simulation.clicks,
        n_clusters,
        draws=draws,
        warmup=warmup,
        chains=chains,
        seed=seed,
        n_threads=1,
        progress=False,
    )
    judged = verdict(found)
    alpha = _round(_aligned_alpha(found.alpha, found.rho), 4)
    return {"alpha": alpha, "converged": judged.converged, "verdict": judged.text}


def held_out_likelihood(
    seed: int, n_users: int, candidates: Sequence[int], draws: int, warmup: int, chains: int
) -> Result:
    """The number of clusters by exact held-out likelihood, and the log-likelihoods behind it."""
    from bmcd.clusters.choose import choose_n_clusters

    choice = choose_n_clusters(
        _simulate(seed, n_users).clicks,
        candidates,
        draws=draws,
        warmup=warmup,
        chains=chains,
        seed=seed,
        n_threads=1,
        progress=False,
    )
    scores = {str(c): float(values.mean()) for c, values in choice.log_likelihood.items()}
    return {"recommended": choice.recommended, "log_likelihood": scores}


def als(seed: int, n_users: int, k: int, grid: Mapping[str, Sequence[Any]], folds: int) -> Result:
    """The paper's rival, with the settings that cross-validation over the clicks finds best for this k."""
    from bmcd.baselines import ALS

    return _tuned(ALS, seed, n_users, k, grid, folds, [k])


def spark_als(seed: int, n_users: int, grid: Mapping[str, Sequence[Any]], folds: int) -> Result:
    """The program that the paper used. It is slow on data this small, so it is tuned once, for the next 10."""
    from bmcd.baselines import SparkALS

    return _tuned(SparkALS, seed, n_users, NEXT[-1], grid, folds, NEXT)


def _tuned(
    model_class: Any,
    seed: int,
    n_users: int,
    tuned_for: int,
    grid: Mapping[str, Sequence[Any]],
    folds: int,
    evaluated: Sequence[int],
) -> Result:
    from bmcd.evaluation.tune import tune

    simulation = _simulate(seed, n_users)
    tuning = tune(model_class, simulation.clicks, grid, folds, tuned_for, seed=seed, n_threads=1, progress=False)
    model = tuning.model.fit(simulation.clicks, seed=seed, n_threads=1)
    found: Result = {str(k): _measured(_evaluate(model.recommend(k), simulation, k)) for k in evaluated}
    return {**found, "settings": tuning.best, "at_the_edge": list(tuning.at_the_edge)}


def _simulate(seed: int, n_users: int) -> Simulation:
    from bmcd.simulation import simulate

    return simulate(n_users, seed=seed)


def _evaluate(recommendations: Any, simulation: Simulation, k: int) -> Evaluation:
    from bmcd.evaluation import evaluate

    return evaluate(recommendations, simulation.clicks, simulation, k=k, n_popular=N_POPULAR)


def _measured(evaluation: Evaluation) -> Result:
    names = (*MEASURES, "n_recommendations", "n_hits", "n_rare", "n_users_with_rare")
    found: Result = {name: getattr(evaluation, name) for name in names}
    if evaluation.calibration is not None:
        table = evaluation.calibration.cutoff_table(CUTOFFS[evaluation.k])
        found["cutoffs"] = {name: table[name].tolist() for name in ("cutoff", "n")}
        found["cutoffs"]["accuracy"] = [None if a is None or a != a else a for a in table["accuracy"].tolist()]
        found["mean_probability"] = evaluation.calibration.mean_probability
        found["calibration_error"] = evaluation.calibration.expected_calibration_error
    return found


def _aligned_alpha(alpha: np.ndarray[Any, Any], rho: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Clusters in one order in all chains: by the rank of the first item, which sets the paper's three apart."""
    order = np.argsort(rho[:, :, :, 0].mean(axis=1), axis=1)
    return np.take_along_axis(alpha, order[:, None, :], axis=2)


def _round(values: np.ndarray[Any, Any], digits: int) -> list[Any]:
    rounded: list[Any] = values.round(digits).tolist()
    return rounded
