"""What is measured on one data set: each of the first functions is a task, and returns numbers fit for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import bmcd
from bmcd.clicks.splitting import split_at_random_users
from bmcd.evaluation import Evaluation
from bmcd.evaluation.metrics import popularity_order
from bmcd.inference import diagnostics
from bmcd.inference.bmcd.kmeans import kmeans_inertia
from bmcd.inference.draws import Draws, match_clusters
from bmcd.inference.posterior import sample_posterior
from bmcd.inference.run import Run
from bmcd.inference.tastes.priors import TastePriors
from bmcd.models.bmcd_predictor import PreparedDraws
from bmcd.models.choose import log_likelihood_by_draw, log_mean
from experiments.case_study.data import DataSet, prepare
from experiments.case_study.forecasts import measure_forecasts
from experiments.lists import recommend
from experiments.methods import class_named
from experiments.study import IN_A_TASK, Sampling
from experiments.tasks import Result

WITH_INTERVAL = ("accuracy", "novelty", "intra_list_similarity", "rare_share", "users_with_rare_share")


def describe(data: Mapping[str, Any]) -> Result:
    """Count users, items and clicks, before and after clicks are removed."""
    kept, train, test = prepare(DataSet(**data))
    result: Result = {"n_users": train.n_users, "n_items": train.n_items, "history": list(kept.history)}
    for name, clicks in (("all", kept), ("train", train), ("test", test)):
        per_user = np.diff(clicks.matrix.indptr)
        least, median, most = int(per_user.min()), float(np.median(per_user)), int(per_user.max())
        result[name] = {"n_clicks": clicks.n_clicks, "min": least, "median": median, "max": most}
    per_item = np.bincount(train.matrix.indices, minlength=train.n_items)
    ascending = popularity_order(per_item)[::-1]  # as in `ItemCounts`
    names = train.items if train.titles is None else train.titles
    result["items"] = [str(name) for name in names[ascending]]
    return {**result, "item_clicks": per_item[ascending].tolist()}


def kmeans_curve(data: Mapping[str, Any], candidates: Sequence[int]) -> Result:
    """Measure the within-cluster sum of squares of k-means on the training clicks, by number of clusters."""
    data_set = DataSet(**data)
    inertia = kmeans_inertia(prepare(data_set).train, candidates, data_set.seed)
    return {"n_clusters": list(inertia), "inertia": [round(value, 3) for value in inertia.values()]}


def score_clusters(data: Mapping[str, Any], n_clusters: int, *, holdout: float, sampling: Sampling) -> Result:
    """Score a candidate of `choose_n_clusters`: the log-likelihood of each held-out user, by chain."""
    data_set = DataSet(**data)
    fitted_to, held_out = split_at_random_users(prepare(data_set).train, holdout, data_set.seed)
    draws = sample_posterior(fitted_to, n_clusters, Run(**sampling, seed=data_set.seed, **IN_A_TASK))
    by_chain = log_mean(log_likelihood_by_draw(held_out, draws), axis=2)
    return {"by_chain": by_chain.round(6).tolist(), "within": draws.within_distance.round(1).tolist()}


def fit_bmcd(
    data: Mapping[str, Any],
    n_clusters: int,
    *,
    start: str,
    rank_scale: str,
    sampling: Sampling,
    predicting_draws: int,
) -> Result:
    """Sample the posterior; measure what single chains recommend, and averages over several.

    ``predicting_draws`` of each chain are turned into probabilities.
    """
    data_set = DataSet(**data)
    train = prepare(data_set).train
    run = Run(**sampling, seed=data_set.seed, **IN_A_TASK)
    draws = sample_posterior(train, n_clusters, run, rank_scale=rank_scale, start=start)
    # Of each size of group only the sum so far is kept: the probabilities of all chains may be many.
    chains = sampling["chains"]
    groups: dict[int, list[Evaluation]] = {size: [] for size in _group_sizes(chains)}
    sums = {size: np.zeros((2, train.n_users, train.n_items)) for size in groups}
    for chain in range(chains):
        predictor = PreparedDraws(draws.of_chain(chain), predicting_draws)
        predictions = predictor.predict(train.matrix, data_set.remove, 1)
        for size, total in sums.items():
            total += predictions.probability, predictions.tie_breaker
            if (chain + 1) % size == 0:
                probability, mean_rank = total / size
                recommendations = recommend(train, probability, mean_rank, data_set.remove)
                groups[size].append(_evaluate(recommendations, data_set))
                total[:] = 0.0
    names, evaluation = match_clusters(draws), groups[chains][0]
    # The last group is that of all chains.
    forecasts = measure_forecasts(probability, recommendations, data_set)
    return {
        **measures(evaluation),
        "forecasts": forecasts,
        "averaged": [
            {"chains": size, "groups": [{"accuracy": e.accuracy, "coverage": e.coverage} for e in evaluations]}
            for size, evaluations in groups.items()
        ],
        "convergence": _convergence(draws),
        "alpha": names.sort(draws.alpha).round(3).tolist(),
        "cluster_sizes": names.sort(draws.label_counts).mean(axis=(0, 1)).round(1).tolist(),
    }


def fit_baseline(
    data: Mapping[str, Any], model: str, *, grid: Sequence[Mapping[str, Sequence[Any]]], folds: int
) -> Result:
    """Tune a baseline on the training clicks, fit it to them, and measure what it recommends."""
    data_set = DataSet(**data)
    train, k, seed = prepare(data_set).train, data_set.remove, data_set.seed
    model_class = class_named(model)
    best, tuning_result = model_class(), None
    if grid:
        tuning = bmcd.tune(model_class, train, grid, folds, k, seed=seed, **IN_A_TASK)
        best = tuning.model
        accuracies = tuning.accuracy.round(6).tolist()
        tried = [{**settings, "accuracy": a} for settings, a in zip(tuning.settings, accuracies, strict=True)]
        edge = list(tuning.at_the_edge)
        tuning_result = {"folds": folds, "best": tuning.best, "at_the_edge": edge, "tried": tried}
    recommendations = best.fit(train, seed=seed, n_threads=1).recommend(k)
    result = {**measures(_evaluate(recommendations, data_set)), "tuning": tuning_result}
    if hasattr(best, "probabilities"):
        result["forecasts"] = measure_forecasts(best.probabilities(k), recommendations, data_set)
    return result


def fit_tastes(data: Mapping[str, Any], chains: int) -> Result:
    """Fit Tastes, which chooses its number of tastes on the training clicks, and measure what it recommends."""
    data_set = DataSet(**data)
    model = bmcd.Tastes("auto", chains=chains).fit(prepare(data_set).train, seed=data_set.seed, **IN_A_TASK)
    choice = model.choice_
    assert choice is not None  # n_tastes is "auto"
    n_tastes, a = choice.n_tastes, choice.priors.a
    assert isinstance(a, float)  # chosen as well
    chosen = {"n_tastes": n_tastes, "concentration": a * n_tastes}
    ends = {name: (choice.table[name].min(), choice.table[name].max()) for name in chosen}
    edge = [name for name, value in chosen.items() if np.isclose(value, ends[name]).any()]
    best = {"n_tastes": n_tastes, "a": a}
    return {
        **_measures_of(model, data_set),
        "tuning": {"folds": 1, "best": best, "at_the_edge": edge, "tried": choice.table.to_dict("records")},
        "chains": chains,
        "verdict": model.verdict_.text,
    }


def fit_pseudo_mallows(
    data: Mapping[str, Any], n_clusters: int, *, sampling: Sampling, predicting_draws: int
) -> Result:
    """Fit Pseudo-Mallows with as many clusters, chains and predicting draws of each as BMCD, and measure it."""
    from experiments.pseudo_mallows import PseudoMallows

    data_set = DataSet(**data)
    model = PseudoMallows(n_clusters).fit(prepare(data_set).train, **sampling, seed=data_set.seed, **IN_A_TASK)
    return _measures_of(model, data_set, max_draws=predicting_draws * sampling["chains"])


def fit_blend(data: Mapping[str, Any], models: Mapping[str, Mapping[str, Any]]) -> Result:
    """Blend models with settings that are given, or calibrate a single one, and measure what is recommended."""
    data_set = DataSet(**data)
    blend = bmcd.Blend({name: _estimator(name, settings) for name, settings in models.items()})
    blend.fit(prepare(data_set).train, seed=data_set.seed, **IN_A_TASK)
    return {**_measures_of(blend, data_set), "weights": blend.weights_.to_dict("records")}


def _estimator(name: str, settings: Mapping[str, Any]) -> Any:
    if name == bmcd.Tastes.__name__:
        return bmcd.Tastes(settings["n_tastes"], priors=TastePriors(a=settings["a"]), chains=settings["chains"])
    return class_named(name)(**settings)


def _measures_of(model: Any, data: DataSet, **options: Any) -> Result:
    """Measure a fitted model with probabilities: its recommendations, and its forecasts."""
    recommendations = model.recommend(data.remove, **options, n_threads=1, progress=False)
    probability = model.probabilities(data.remove, **options, n_threads=1, progress=False)
    forecasts = measure_forecasts(probability, recommendations, data)
    return {**measures(_evaluate(recommendations, data)), "forecasts": forecasts}


def measures(evaluation: Evaluation) -> Result:
    """Return what tables and figures need of an evaluation; hits by user are for paired differences."""
    left_out = ("calibration", "by_group", "personalisation")
    numbers = {name: value for name, value in evaluation.to_dict().items() if name not in left_out}
    hits, lengths = evaluation.per_user["accuracy"]
    intervals = {name: evaluation.interval(name) for name in WITH_INTERVAL}
    return {
        "measures": numbers,
        "intervals": {name: [interval.low, interval.high] for name, interval in intervals.items()},
        "user_hits": hits.astype(int).tolist(),
        # Mostly all lists are full, and a single number says it.
        "user_lengths": int(lengths[0]) if np.ptp(lengths) == 0 else lengths.astype(int).tolist(),
        "items": {name: getattr(evaluation.items, name).tolist() for name in ("clicks", "recommended", "hits")},
    }


def _evaluate(recommendations: Any, data: DataSet) -> Evaluation:
    _, train, test = prepare(data)
    return bmcd.evaluate(recommendations, train, test, k=data.remove, n_popular=data.n_popular)


def _group_sizes(chains: int) -> list[int]:
    """Return 1, 2, 4, ... and the number of chains.

    >>> _group_sizes(4), _group_sizes(3), _group_sizes(1)
    ([1, 2, 4], [1, 2, 3], [1])
    """
    return [2**power for power in range((chains - 1).bit_length())] + [chains]


def _convergence(draws: Draws) -> Result:
    verdict, rows = diagnostics.verdict(draws), diagnostics.rows(draws)
    rhat = [row.rhat for row in rows if not row.constant]
    probability_rhat = [row.rhat for row in rows if row.quantity.startswith("probability") and not row.constant]
    return {
        "converged": verdict.converged,
        "text": verdict.text,
        "largest_rhat": _finite(max(rhat)),
        "median_rhat_of_probabilities": _finite(float(np.median(probability_rhat))) if probability_rhat else None,
        "log_joint": draws.log_joint.mean(axis=1).round(1).tolist(),
    }


def _finite(value: float) -> float | None:
    """Return None for infinity, which JSON does not have."""
    return round(value, 4) if np.isfinite(value) else None
