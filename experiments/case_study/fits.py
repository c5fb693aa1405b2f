"""The tasks of the case study: what takes long. Each returns plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd import baselines
from bmcd.clicks.table import Clicks
from bmcd.clusters.held_out_users import log_likelihood_by_draw, log_mean, split_users
from bmcd.clusters.matching import name_clusters
from bmcd.evaluation.evaluate import Evaluation, evaluate
from bmcd.evaluation.metrics import popularity_order
from bmcd.evaluation.tune import tune
from bmcd.prediction.predictor import Predictor
from bmcd.prediction.top_k import Lists, best_items, clicked_mask, order_of_ids, recommendation_frame
from bmcd.sampling import diagnostics
from bmcd.sampling.draws import Draws
from bmcd.sampling.posterior import sample_posterior
from bmcd.sampling.start.kmeans import kmeans_inertia
from experiments.case_study.data import DataSet, all_clicks, split

Result = dict[str, Any]
Floats = NDArray[np.float64]

WITH_INTERVAL = ("accuracy", "novelty", "intra_list_similarity", "rare_share", "users_with_rare_share")


def describe(data: Mapping[str, Any]) -> Result:
    """How many users, items and clicks there are, before and after clicks are removed."""
    spec = DataSet(**data)
    every, (train, test) = all_clicks(spec), split(spec)
    found: Result = {"n_users": train.n_users, "n_items": train.n_items, "history": list(every.history)}
    for name, clicks in (("all", every), ("train", train), ("test", test)):
        per_user = np.diff(clicks.matrix.indptr)
        least, median, most = int(per_user.min()), float(np.median(per_user)), int(per_user.max())
        found[name] = {"n_clicks": clicks.n_clicks, "min": least, "median": median, "max": most}
    per_item = np.bincount(train.matrix.indices, minlength=train.n_items)
    ascending = popularity_order(per_item)[::-1]  # as in `ItemCounts`
    names = train.items if train.titles is None else train.titles
    found["items"] = [str(name) for name in names[ascending]]
    return {**found, "item_clicks": per_item[ascending].tolist()}


def kmeans_curve(data: Mapping[str, Any], candidates: Sequence[int]) -> Result:
    """Within-cluster sum of squares of k-means on the training clicks, for each number of clusters."""
    spec = DataSet(**data)
    inertia = kmeans_inertia(split(spec)[0], candidates, spec.seed)
    return {"n_clusters": list(inertia), "inertia": [round(value, 3) for value in inertia.values()]}


def score_clusters(
    data: Mapping[str, Any], n_clusters: int, *, holdout: float, chains: int, warmup: int, draws: int
) -> Result:
    """One candidate of `choose_n_clusters`: log-likelihood of each held-out user, by chain."""
    spec = DataSet(**data)
    fitted_to, held_out = split_users(split(spec)[0], holdout, spec.seed)
    found = sample_posterior(
        fitted_to, n_clusters, draws=draws, warmup=warmup, chains=chains, seed=spec.seed, n_threads=1,
        progress=False,
    )  # fmt: skip
    by_chain = log_mean(log_likelihood_by_draw(held_out, found), axis=2)
    return {"by_chain": by_chain.round(6).tolist(), "within": found.within_distance.round(1).tolist()}


def fit_bmcd(
    data: Mapping[str, Any],
    n_clusters: int,
    *,
    start: str,
    rank_scale: str,
    chains: int,
    warmup: int,
    draws: int,
    used: int,
) -> Result:
    """Sample the posterior; measure what single chains recommend, and averages over several.

    ``used`` draws of each chain are turned into probabilities.
    """
    spec = DataSet(**data)
    train, test = split(spec)
    found = sample_posterior(
        train, n_clusters, rank_scale=rank_scale, start=start, draws=draws, warmup=warmup, chains=chains,
        seed=spec.seed, n_threads=1, progress=False,
    )  # fmt: skip
    # Of each size of group only the sum so far is kept: the probabilities of all chains may be many.
    groups: dict[int, list[Evaluation]] = {size: [] for size in _doublings(chains)}
    sums = {size: np.zeros((2, train.n_users, train.n_items)) for size in groups}
    for chain in range(chains):
        one = Predictor(found.of_chain(chain), used).predict(train.matrix, spec.remove, 1)
        for size, total in sums.items():
            total += one.probability, one.tie_breaker
            if (chain + 1) % size == 0:
                lists = _best(train, total[0] / size, total[1] / size, spec.remove)
                frame = recommendation_frame(train.users, lists, train)
                groups[size].append(evaluate(frame, train, test, k=spec.remove, n_popular=spec.n_popular))
                total[:] = 0.0
    names, every = name_clusters(found), groups[chains][0]
    return {
        **measures(every),
        "averaged": [
            {"chains": size, "groups": [{"accuracy": of.accuracy, "coverage": of.coverage} for of in some]}
            for size, some in groups.items()
        ],
        "convergence": _convergence(found),
        "probabilities": _counted(every),
        "alpha": names.sort(found.alpha).round(3).tolist(),
        "cluster_sizes": names.sort(found.label_counts).mean(axis=(0, 1)).round(1).tolist(),
    }


def fit_rival(
    data: Mapping[str, Any], model: str, *, grid: Sequence[Mapping[str, Sequence[Any]]], folds: int
) -> Result:
    """Tune a rival on the training clicks, fit it to them, and measure what it recommends."""
    spec = DataSet(**data)
    train, test = split(spec)
    model_class = getattr(baselines, model)
    best, tuning = model_class(), None
    if grid:
        found = tune(model_class, train, grid, folds, spec.remove, seed=spec.seed, n_threads=1, progress=False)
        best = found.model
        scores = found.accuracy.round(6).tolist()
        tried = [{**one, "accuracy": score} for one, score in zip(found.settings, scores, strict=True)]
        tuning = {"folds": folds, "best": found.best, "at_the_edge": list(found.at_the_edge), "tried": tried}
    recommended = best.fit(train, seed=spec.seed, n_threads=1).recommend(spec.remove)
    evaluation = evaluate(recommended, train, test, k=spec.remove, n_popular=spec.n_popular)
    return {**measures(evaluation), "tuning": tuning}


def measures(evaluation: Evaluation) -> Result:
    """What tables and figures need of an evaluation; per user what paired differences are taken from."""
    numbers = {name: value for name, value in evaluation.to_dict().items() if name != "calibration"}
    calibration = evaluation.calibration
    if calibration is not None:
        names = ("mean_probability", "expected_calibration_error", "brier", "log_score")
        numbers |= {name: float(getattr(calibration, name)) for name in names}
    hits, lengths = evaluation.per_user["accuracy"]
    items = evaluation.items
    intervals = {name: evaluation.interval(name) for name in WITH_INTERVAL}
    return {
        "measures": numbers,
        "intervals": {name: [one.low, one.high] for name, one in intervals.items()},
        "user_hits": hits.astype(int).tolist(),
        # Mostly all lists are full, and one number says it.
        "user_lengths": int(lengths[0]) if np.ptp(lengths) == 0 else lengths.astype(int).tolist(),
        "items": {name: getattr(items, name).tolist() for name in ("clicks", "recommended", "hits")},
    }


def _counted(evaluation: Evaluation) -> Result:
    """Recommendations and hits at each probability, in four digits: all that calibration and cut-offs need."""
    assert evaluation.calibration is not None  # BMCD always gives probabilities
    value, code = np.unique(evaluation.calibration.probability.round(4), return_inverse=True)
    hits = np.bincount(code, weights=evaluation.calibration.hit)
    return {"value": value.tolist(), "n": np.bincount(code).tolist(), "hits": hits.astype(int).tolist()}


def _best(train: Clicks, probability: Floats, mean_rank: Floats, k: int) -> Lists:
    """The lists that `BMCD.recommend` would give."""
    available = ~clicked_mask(train.matrix, np.arange(train.n_users))
    best = best_items(probability, available, k, order_of_ids(train.items), mean_rank)
    return Lists(best, {"probability": np.take_along_axis(probability, best, axis=1)})


def _doublings(chains: int) -> list[int]:
    """1, 2, 4, ... and the number of chains.

    >>> _doublings(4), _doublings(3), _doublings(1)
    ([1, 2, 4], [1, 2, 3], [1])
    """
    sizes = [1]
    while 2 * sizes[-1] < chains:
        sizes.append(2 * sizes[-1])
    return sizes if chains == 1 else [*sizes, chains]


def _convergence(draws: Draws) -> Result:
    said, rows = diagnostics.verdict(draws), diagnostics.rows(draws)
    rhat = [row.rhat for row in rows if not row.constant]
    probed = [row.rhat for row in rows if row.quantity.startswith("probability") and not row.constant]
    return {
        "converged": said.converged,
        "text": said.text,
        "largest_rhat": _finite(max(rhat)),
        "median_rhat_of_probabilities": _finite(float(np.median(probed))) if probed else None,
        "log_joint": draws.log_joint.mean(axis=1).round(1).tolist(),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return round(value, 4) if np.isfinite(value) else None
