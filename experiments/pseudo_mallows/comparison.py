"""Pseudo-Mallows beside the exact sampler and the paper's MCMC: time, accuracy, calibration, distance."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import bmcd
from bmcd.testing import example_clicks
from experiments.case_study.data import DataSet, prepare
from experiments.lists import recommend
from experiments.pseudo_mallows.model import PseudoMallows
from experiments.study import IN_A_TASK, Sampling
from experiments.tasks import Result

Floats = NDArray[np.float64]

NEXT = (5, 10)
# Another seed of the same sampler says how far apart two runs of it are.
OTHER_SEED = 1000


class Form(NamedTuple):
    """A method with its settings and the lengths of its chains."""

    name: str
    method: str
    """"exact", "paper" or "pseudo"."""
    sampling: Sampling
    settings: Mapping[str, Any]

    @property
    def model(self) -> Any:
        """A function from the number of clusters to the model, not fitted yet."""
        if self.method == "pseudo":
            return lambda n_clusters: PseudoMallows(n_clusters, **self.settings)
        return lambda n_clusters: bmcd.BMCD(n_clusters, sampler=self.method, **self.settings)


def on_simulation(
    seed: int, n_users: int, n_clusters: int, reference: Sampling, forms: Sequence[Sequence[Any]], max_draws: int
) -> Result:
    """Measure all forms on one simulated data set, whose true rankings say what the next items are."""
    simulation = bmcd.simulate(n_users, seed=seed)
    return _measure(simulation.clicks, simulation, NEXT, n_clusters, reference, forms, seed, max_draws)


def on_clicks(
    data: Mapping[str, Any], n_clusters: int, reference: Sampling, forms: Sequence[Sequence[Any]], max_draws: int
) -> Result:
    """Measure all forms on the training clicks of a data set of the case study, against the removed ones."""
    data_set = DataSet(**data)
    _, train, test = prepare(data_set)
    return _measure(train, test, (data_set.remove,), n_clusters, reference, forms, data_set.seed, max_draws)


def _measure(
    clicks: bmcd.Clicks,
    truth: Any,
    list_lengths: Sequence[int],
    n_clusters: int,
    reference: Sampling,
    forms: Sequence[Sequence[Any]],
    seed: int,
    max_draws: int,
) -> Result:
    """Return the measures by name of the form and k; ``forms`` come as lists, as JSON has them."""
    wanted = [Form("reference", "exact", reference, {}), Form("reference, another seed", "exact", reference, {})]
    wanted += [Form(*form) for form in forms]
    posterior: dict[int, Floats] = {}
    result: Result = {}
    _compile(wanted)
    for form in wanted:
        began = time.process_time()
        fit_seed = seed + OTHER_SEED if form.name.endswith("another seed") else seed
        counted = {"count_k": list_lengths} if form.settings.get("by_counts") else {}
        model = form.model(n_clusters).fit(clicks, **form.sampling, **counted, seed=fit_seed, **IN_A_TASK)
        measured: Result = {"fit_seconds": time.process_time() - began}
        for k in list_lengths:
            began = time.process_time()
            blocks = [block for _, block in model.prediction_blocks(k, max_draws=max_draws, **IN_A_TASK)]
            seconds = time.process_time() - began
            probability = np.concatenate([block.probability for block in blocks])
            mean_rank = np.concatenate([block.tie_breaker for block in blocks])
            posterior.setdefault(k, probability)
            evaluation = bmcd.evaluate(recommend(clicks, probability, mean_rank, k), clicks, truth, k=k)
            assert evaluation.calibration is not None  # all of them have probabilities
            measured[str(k)] = {
                "seconds": seconds,
                "accuracy": evaluation.accuracy,
                "mean_probability": evaluation.calibration.mean_probability,
                "ece": evaluation.calibration.expected_calibration_error,
                "distance": mean_variation(probability, posterior[k]),
            }
        result[form.name] = measured
    return result


def _compile(forms: Sequence[Form]) -> None:
    """Fit every method once, so that no time is taken for compiling it."""
    for form in {form.method: form for form in forms}.values():
        model = form.model(2).fit(example_clicks(), chains=1, warmup=1, draws=1, **IN_A_TASK)
        next(iter(model.prediction_blocks(5, **IN_A_TASK)))


def mean_variation(probability: Floats, other: Floats) -> float:
    """Return the total variation distance between top-k probabilities, users x items, averaged over the users.

    Half the sum over a user's items of the absolute differences, over k: 0 if they are equal, 1 if no item has a
    probability in both. (A row sums to k, or to the number of unclicked items if that is less.)

    >>> mean_variation(np.array([[1.0, 1.0, 0.0]]), np.array([[0.5, 1.0, 0.5]]))
    0.25
    """
    gap = np.abs(probability - other).sum(axis=1) / 2
    total = other.sum(axis=1)
    return float(np.mean(gap[total > 0] / total[total > 0]))
