"""compare: several models on the same clicks, in one table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bmcd.clicks.table import Clicks
from bmcd.errors import InputError
from bmcd.evaluation.comparison import Comparison, Entry
from bmcd.evaluation.evaluate import evaluate
from bmcd.evaluation.intervals import PairedDifference, paired_differences
from bmcd.evaluation.result import Evaluation
from bmcd.prediction.top_k import check_k
from bmcd.system.progress import counting
from bmcd.system.text import listed

if TYPE_CHECKING:
    from bmcd.simulation import Simulation


def compare(
    models: Mapping[str, Any],
    train: Clicks,
    test: Clicks | Simulation,
    k: int = 10,
    *,
    against: str | None = None,
    seed: int = 0,
    fit: Mapping[str, Mapping[str, Any]] | None = None,
    n_popular: int | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    progress: bool | None = None,
) -> Comparison:
    """Fit models, let each recommend k items to every user, and measure all of them on the same test.

    A model that is fitted already is used as it is, and its time to fit is not known; it must have been fitted to
    ``train``. One that is not is fitted here, and stays so. Rivals are worth comparing with only after `tune`.

    Parameters
    ----------
    models
        By name: anything with the fit and recommend of `BMCD` and `bmcd.baselines`.
    train, test
        As in `evaluate`.
    k
        How many recommendations.
    against
        The model that the others are compared with, user by user; the first unless given.
    seed
        Of every fit, and of the bootstrap.
    fit
        Options of `fit` by the name of the model, such as ``{"BMCD": {"draws": 500}}``.
    n_popular
        As in `evaluate`.
    level, resamples
        Of the intervals, which are over resamples of the users.
    progress
        Show a bar (default: if standard error is a terminal).

    Examples
    --------
    >>> import bmcd
    >>> simulation = bmcd.simulate(n_users=300, seed=1)
    >>> rivals = {"popularity": bmcd.baselines.Popularity(), "EASE": bmcd.baselines.EASE()}
    >>> found = compare(rivals, simulation.clicks, simulation, k=5)
    >>> found.table[["model", "accuracy", "coverage"]].round(3).values.tolist()
    [['popularity', 0.184, 0.2], ['EASE', 0.252, 0.64]]
    """
    k, options = check_k(k), {name: dict(own) for name, own in (fit or {}).items()}
    against = _check_names(models, options, against)
    for name, model in models.items():
        _check_fitted_to(name, model, train)
    entries = {}
    with counting(progress, "models", len(models)) as show:
        for n_done, (name, model) in enumerate(models.items(), start=1):
            entries[name] = _measure(
                model, train, test, k, {"seed": seed, **options.get(name, {})}, n_popular, (level, resamples, seed)
            )
            show(n_done)
    evaluations = {name: entry.evaluation for name, entry in entries.items()}
    settings = {"level": level, "resamples": resamples, "seed": seed}
    return Comparison(
        entries=entries,
        differences=_differences(evaluations, against, settings),
        against=against,
        k=k,
        seed=seed,
        level=level,
        resamples=resamples,
        train=train,
        test=test,
    )


def _measure(
    model: Any,
    train: Clicks,
    test: Clicks | Simulation,
    k: int,
    fit: dict[str, Any],
    n_popular: int | None,
    bootstrap: tuple[float, int, int],
) -> Entry:
    fit_seconds = float("nan")
    fitted_before = is_fitted(model)
    if not fitted_before:
        began = time.perf_counter()
        model.fit(train, **fit)
        fit_seconds = time.perf_counter() - began
    began = time.perf_counter()
    recommended = model.recommend(k)
    seconds = time.perf_counter() - began
    evaluation = evaluate(recommended, train, test, k=k, n_popular=n_popular)
    level, resamples, seed = bootstrap
    intervals = evaluation.intervals(level=level, resamples=resamples, seed=seed)
    return Entry(model, {} if fitted_before else fit, fitted_before, fit_seconds, seconds, evaluation, intervals)


def _differences(
    evaluations: Mapping[str, Evaluation], against: str, settings: dict[str, Any]
) -> dict[str, dict[str, PairedDifference]]:
    base = evaluations[against]
    found: dict[str, dict[str, PairedDifference]] = {}
    for name, evaluation in evaluations.items():
        if name != against:
            shared = [measure for measure in evaluation.per_user if measure in base.per_user]
            found[name] = paired_differences(evaluation, base, shared, **settings)
    return found


def is_fitted(model: Any) -> bool:
    """Whether the model has learned something: scikit-learn's attributes that end in an underscore say so."""
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def _check_names(models: Mapping[str, Any], options: Mapping[str, Any], against: str | None) -> str:
    if not models:
        raise InputError("there are no models to compare.")
    names = list(models)
    if unknown := [name for name in options if name not in models]:
        raise InputError(f"fit has options for {listed(unknown)}, but the models are {listed(names, 20)}.")
    if against is not None and against not in models:
        raise InputError(f"against is {against!r}, but the models are {listed(names, 20)}.")
    return names[0] if against is None else against


def _check_fitted_to(name: str, model: Any, train: Clicks) -> None:
    clicks = getattr(model, "clicks_", None)
    if not isinstance(clicks, Clicks):
        return
    arrays = [(one.users, one.items, one.matrix.indptr, one.matrix.indices) for one in (clicks, train)]
    if not all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True)):
        raise InputError(
            f"{name} is fitted to other clicks than train ({clicks!r} against {train!r}), and may have seen the "
            "test. Fit it to train, or pass one that is not fitted."
        )
