"""What is measured on one simulated data set: each public function is a task, and returns numbers fit for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import bmcd
from bmcd.inference.tastes.priors import TastePriors
from experiments.lists import recommend
from experiments.methods import PenalisedMF
from experiments.study import IN_A_TASK, Sampling
from experiments.tasks import Result

if TYPE_CHECKING:
    from bmcd import Simulation
    from bmcd.evaluation import Evaluation

Grid = Mapping[str, Sequence[Any]]

NEXT = (5, 10)
# Draws that probabilities are averaged over, over all chains.
PREDICTING_DRAWS = 40
# Of 50 items the paper calls the 20 most clicked popular.
N_POPULAR = 20
# Those of the paper's tables.
CUTOFFS = {
    5: (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40),
    10: (0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55, 0.60),
}
MEASURES = (
    *("accuracy", "coverage", "correct_coverage", "intra_list_similarity", "novelty"),
    *("n_recommendations", "n_hits", "n_rare", "n_users_with_rare"),
)


def limit(seed: int, n_users: int) -> Result:
    """Measure the best that is possible on average: recommendations from the true parameters."""
    simulation = bmcd.simulate(n_users, seed=seed)
    clicks = simulation.clicks
    mean_rank = simulation.true_memberships() @ simulation.rho
    result: Result = {"items": np.sort(clicks.matrix.sum(axis=0)).tolist()}
    for k in NEXT:
        recommendations = recommend(clicks, simulation.true_probabilities(k), mean_rank, k)
        result[str(k)] = _measures(_evaluate(recommendations, simulation, k))
    return result


def popularity(seed: int, n_users: int) -> Result:
    """Measure recommending the most clicked items to everybody."""
    simulation = bmcd.simulate(n_users, seed=seed)
    return _measures_of(bmcd.baselines.Popularity().fit(simulation.clicks), simulation, NEXT)


def fit_bmcd(seed: int, n_users: int, n_clusters: int, sampling: Sampling, keep_probabilities: bool) -> Result:
    """Measure BMCD with a given number of clusters, and the within-cluster distances that the paper chooses by."""
    from bmcd.models.choose import boxplot_rows

    simulation = bmcd.simulate(n_users, seed=seed)
    model = bmcd.BMCD(n_clusters).fit(simulation.clicks, **sampling, seed=seed, **IN_A_TASK)
    within = model.draws_.within_distance
    result: Result = {
        "mwcd": float(within.mean()),
        "box": boxplot_rows({n_clusters: within}).iloc[0].to_dict(),
        "alpha": np.sort(model.draws_.alpha, axis=2).mean(axis=(0, 1)).round(4).tolist(),
    }
    return result | _measures_with_probabilities(model, simulation, keep_probabilities)


def fit_tastes(
    seed: int,
    n_users: int,
    n_tastes: int | Literal["auto"],
    a: float | None,
    sampling: Sampling,
    keep_probabilities: bool,
) -> Result:
    """Measure Tastes, the package's model for users with several tastes."""
    simulation = bmcd.simulate(n_users, seed=seed)
    model = bmcd.Tastes(n_tastes, priors=TastePriors(a=a))
    model.fit(simulation.clicks, **sampling, seed=seed, **IN_A_TASK)
    result = {"n_tastes": model.n_tastes_, "verdict": model.verdict_.text}
    return result | _measures_with_probabilities(model, simulation, keep_probabilities)


def fit_pseudo_mallows(seed: int, n_users: int, n_clusters: int, by_counts: bool, sampling: Sampling) -> Result:
    """Measure Pseudo-Mallows, with probabilities from its draws or by counts in the rankings that it draws."""
    from experiments.pseudo_mallows import PseudoMallows

    simulation = bmcd.simulate(n_users, seed=seed)
    model = PseudoMallows(n_clusters, by_counts=by_counts)
    model.fit(simulation.clicks, **sampling, seed=seed, count_k=NEXT, **IN_A_TASK)
    return _measures_with_probabilities(model, simulation, keep=False)


def traces(seed: int, n_users: int, n_clusters: int, sampling: Sampling) -> Result:
    """Sample longer chains, for the traces of alpha and the verdict on convergence."""
    from bmcd.inference.diagnostics import verdict
    from bmcd.inference.posterior import sample_posterior
    from bmcd.inference.run import Run

    clicks = bmcd.simulate(n_users, seed=seed).clicks
    draws = sample_posterior(clicks, n_clusters, Run(**sampling, seed=seed, **IN_A_TASK))
    convergence = verdict(draws)
    # Clusters in the same order in all chains: by the rank of the first item, which sets the paper's three apart.
    order = np.argsort(draws.rho[:, :, :, 0].mean(axis=1), axis=1)
    alpha = np.take_along_axis(draws.alpha, order[:, None, :], axis=2).round(4).tolist()
    return {"alpha": alpha, "converged": convergence.converged, "verdict": convergence.text}


def held_out_likelihood(seed: int, n_users: int, candidates: Sequence[int], sampling: Sampling) -> Result:
    """Choose the number of clusters by exact held-out likelihood; also return the log-likelihoods behind it."""
    clicks = bmcd.simulate(n_users, seed=seed).clicks
    choice = bmcd.choose_n_clusters(clicks, candidates, **sampling, seed=seed, **IN_A_TASK)
    log_likelihood = {str(c): float(values.mean()) for c, values in choice.log_likelihood.items()}
    return {"recommended": choice.recommended, "log_likelihood": log_likelihood}


def als(seed: int, n_users: int, k: int, grid: Grid, folds: int) -> Result:
    """Measure the paper's baseline, with settings by cross-validation over the clicks for this k."""
    return _tuned_measures(bmcd.baselines.ALS, seed, n_users, grid, folds, tuned_for=k, evaluated=[k])


def penalised_mf(seed: int, n_users: int, k: int, grid: Grid, folds: int) -> Result:
    """Measure factors with a penalty on popular items, tuned as ALS is."""
    return _tuned_measures(PenalisedMF, seed, n_users, grid, folds, tuned_for=k, evaluated=[k])


def spark_als(seed: int, n_users: int, grid: Grid, folds: int) -> Result:
    """Measure the program that the paper used. It is slow on small data, so it is tuned once, for the next 10."""
    spark = bmcd.baselines.SparkALS
    return _tuned_measures(spark, seed, n_users, grid, folds, tuned_for=NEXT[-1], evaluated=NEXT)


def _tuned_measures(
    model_class: Any, seed: int, n_users: int, grid: Grid, folds: int, tuned_for: int, evaluated: Sequence[int]
) -> Result:
    simulation = bmcd.simulate(n_users, seed=seed)
    tuning = bmcd.tune(model_class, simulation.clicks, grid, folds, tuned_for, seed=seed, **IN_A_TASK)
    model = tuning.model.fit(simulation.clicks, seed=seed, n_threads=1)
    measured = _measures_of(model, simulation, evaluated)
    return {**measured, "settings": tuning.best, "at_the_edge": list(tuning.at_the_edge)}


def _measures_of(model: Any, simulation: Simulation, list_lengths: Sequence[int]) -> Result:
    return {str(k): _measures(_evaluate(model.recommend(k), simulation, k)) for k in list_lengths}


def _measures_with_probabilities(model: Any, simulation: Simulation, keep: bool) -> Result:
    """Measure lists of every length; ``keep`` the probability of each recommendation as well."""
    result: Result = {}
    for k in NEXT:
        evaluation = _evaluate(model.recommend(k, max_draws=PREDICTING_DRAWS, n_threads=1), simulation, k)
        result[str(k)] = _measures(evaluation)
        if keep and (calibration := evaluation.calibration) is not None:
            result[str(k)]["probability"] = calibration.probability.round(6).tolist()
            result[str(k)]["hit"] = calibration.hit.astype(int).tolist()
    return result


def _evaluate(recommendations: Any, simulation: Simulation, k: int) -> Evaluation:
    return bmcd.evaluate(recommendations, simulation.clicks, simulation, k=k, n_popular=N_POPULAR)


def _measures(evaluation: Evaluation) -> Result:
    measures: Result = {name: getattr(evaluation, name) for name in MEASURES}
    if (calibration := evaluation.calibration) is not None:
        table = calibration.cutoff_table(CUTOFFS[evaluation.k])
        measures["cutoffs"] = {name: table[name].tolist() for name in ("cutoff", "n")}
        # Without recommendations there is no accuracy, and JSON has no NaN.
        measures["cutoffs"]["accuracy"] = [None if a is None or a != a else a for a in table["accuracy"].tolist()]
        measures["mean_probability"] = calibration.mean_probability
        measures["calibration_error"] = calibration.expected_calibration_error
        measures["brier"] = calibration.brier
    return measures
