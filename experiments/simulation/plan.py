"""How large the study is, and what is to be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.simulation import measure
from experiments.tasks import Task

Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Size:
    """How large a study is."""

    runs: int
    """Data sets; run r is simulated with seed r."""
    n_users: int
    candidates: tuple[int, ...]
    """Numbers of clusters to choose from."""
    draws: int
    warmup: int
    choice_draws: int
    choice_warmup: int
    trace_draws: int
    trace_warmup: int
    chains: int
    folds: int
    grid: Grid
    """Settings of ALS, chosen in advance on a data set that is not in the study (seed 100)."""
    spark_runs: int
    """So many of the data sets have SparkALS as well."""
    spark_folds: int
    spark_grid: Grid

    @property
    def traced(self) -> int:
        """The number of clusters whose traces are shown: the true one."""
        return 3


FULL = Size(
    runs=20,
    n_users=3000,
    candidates=(2, 3, 4, 5, 6, 7, 8),
    draws=20,
    warmup=20,
    choice_draws=20,
    choice_warmup=20,
    trace_draws=400,
    trace_warmup=100,
    chains=2,
    folds=10,
    grid={
        "factors": [2, 3, 4],
        "alpha": [0.3, 1.0, 4.0],
        "regularization": [3.0, 10.0, 30.0],
        "iterations": [30],
    },
    spark_runs=3,
    spark_folds=10,
    spark_grid={"factors": [3, 5], "alpha": [1.0], "regularization": [0.3, 1.0, 3.0]},
)
# The least that goes through every part of it, for tests and for a first look.
QUICK = Size(
    runs=3,
    n_users=1000,
    candidates=(2, 3, 4),
    draws=10,
    warmup=10,
    choice_draws=10,
    choice_warmup=10,
    trace_draws=20,
    trace_warmup=10,
    chains=2,
    folds=3,
    grid={"factors": [2, 3], "alpha": [1.0], "regularization": [3.0, 10.0], "iterations": [15]},
    spark_runs=1,
    spark_folds=2,
    spark_grid={"factors": [3], "alpha": [1.0], "regularization": [1.0]},
)
# The paper shows these runs; a shorter study shows the nearest it has.
CALIBRATION_RUN, POPULARITY_RUNS, BOX_RUNS, TRACE_RUN = 10, (1, 5), (1, 5, 10), 1


def shown_runs(size: Size, wanted: Sequence[int]) -> list[int]:
    """The runs of the paper's figure, as far as the study has them.

    >>> shown_runs(QUICK, (1, 5, 10))
    [1, 3]
    """
    return sorted({min(run, size.runs) for run in wanted})


def tasks_of(size: Size) -> list[Task]:
    """All tasks but Spark's; names are "run-07/als-5" and the like."""
    found = []
    (calibrated,) = shown_runs(size, [CALIBRATION_RUN])
    for run in range(1, size.runs + 1):
        data = {"seed": run, "n_users": size.n_users}
        sweeps = {"draws": size.draws, "warmup": size.warmup, "chains": size.chains}
        found += [
            Task(_name(run, "limit"), measure.limit, data, 5),
            Task(_name(run, "popularity"), measure.popularity, data, 1),
        ]
        for c in size.candidates:
            arguments = {**data, "n_clusters": c, **sweeps, "keep": run == calibrated}
            found.append(Task(_name(run, f"bmcd-{c}"), measure.bmcd, arguments, 20 + 2 * c))
        choice = {"draws": size.choice_draws, "warmup": size.choice_warmup, "chains": size.chains}
        likelihood = {**data, "candidates": list(size.candidates), **choice}
        found.append(Task(_name(run, "held-out"), measure.held_out_likelihood, likelihood, 75))
        tuning = {"grid": dict(size.grid), "folds": size.folds}
        for k in measure.NEXT:
            found.append(Task(_name(run, f"als-{k}"), measure.als, {**data, "k": k, **tuning}, 50))
    trace = {"draws": size.trace_draws, "warmup": size.trace_warmup, "chains": size.chains}
    arguments = {"seed": TRACE_RUN, "n_users": size.n_users, "n_clusters": size.traced, **trace}
    found.append(Task(_name(TRACE_RUN, "traces"), measure.traces, arguments, 100))
    return found


def spark_tasks(size: Size) -> list[Task]:
    """Those with Spark, which are to be done one at a time: it takes all cores for itself."""
    tuning = {"grid": dict(size.spark_grid), "folds": size.spark_folds}
    return [
        Task(_name(run, "spark"), measure.spark_als, {"seed": run, "n_users": size.n_users, **tuning}, 200)
        for run in range(1, size.spark_runs + 1)
    ]


def _name(run: int, what: str) -> str:
    return f"run-{run:02}/{what}"
