"""How large the simulation study is, and which tasks it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from experiments.simulation import measures
from experiments.simulation.measures import Grid
from experiments.study import Sampling
from experiments.tasks import Task


class TasteFit(NamedTuple):
    """A form of Tastes that is measured in every run."""

    part: str
    """The end of its task's name."""
    name: str
    """What the page calls it."""
    n_tastes: int | Literal["auto"]
    a: float | None
    """The shape of the law of the rates; that of the package if None."""


@dataclass(frozen=True)
class Size:
    """How large a study is."""

    runs: int
    """Data sets; run r is simulated with seed r."""
    n_users: int
    candidates: tuple[int, ...]
    """Numbers of clusters to choose from."""
    sampling: Sampling
    """The chains of every fit, and of the choice by held-out likelihood."""
    trace_sampling: Sampling
    taste_sampling: Sampling
    counts_sampling: Sampling
    """The chains of Pseudo-Mallows where probabilities are counts, which need more draws."""
    folds: int
    grid: Grid
    """Settings of ALS, chosen in advance on a data set that is not in the study (seed 100)."""
    penalised_grid: Grid
    """Settings of PenalisedMF, chosen in the same way."""
    spark_runs: int
    """So many of the data sets have SparkALS as well."""
    spark_folds: int
    spark_grid: Grid


FULL = Size(
    runs=20,
    n_users=3000,
    candidates=(2, 3, 4, 5, 6, 7, 8),
    sampling={"chains": 2, "warmup": 20, "draws": 20},
    trace_sampling={"chains": 2, "warmup": 100, "draws": 400},
    taste_sampling={"chains": 16, "warmup": 100, "draws": 10},
    counts_sampling={"chains": 2, "warmup": 20, "draws": 200},
    folds=10,
    grid={"factors": [2, 3, 4], "alpha": [0.3, 1.0, 4.0], "regularization": [3.0, 10.0, 30.0], "iterations": [30]},
    penalised_grid={
        **{"factors": [2, 3, 4], "alpha": [1.0, 4.0], "regularization": [10.0, 30.0]},
        **{"penalty": [0.0, 0.1, 0.3, 1.0], "iterations": [20]},
    },
    spark_runs=3,
    spark_folds=10,
    spark_grid={"factors": [3, 5], "alpha": [1.0], "regularization": [0.3, 1.0, 3.0]},
)
# The least that goes through every part of the study, for tests and for a first look.
QUICK = Size(
    runs=3,
    n_users=400,
    candidates=(2, 3, 4),
    sampling={"chains": 2, "warmup": 10, "draws": 10},
    trace_sampling={"chains": 2, "warmup": 10, "draws": 20},
    taste_sampling={"chains": 2, "warmup": 20, "draws": 2},
    counts_sampling={"chains": 2, "warmup": 10, "draws": 20},
    folds=3,
    grid={"factors": [2, 3], "alpha": [1.0], "regularization": [3.0, 10.0], "iterations": [15]},
    penalised_grid={
        **{"factors": [3], "alpha": [1.0], "regularization": [10.0], "penalty": [0.0, 0.3]},
        **{"iterations": [5]},
    },
    spark_runs=1,
    spark_folds=2,
    spark_grid={"factors": [3], "alpha": [1.0], "regularization": [1.0]},
)
# The paper shows these runs; a shorter study shows the nearest it has.
CALIBRATION_RUN, POPULARITY_RUNS, BOX_RUNS, TRACE_RUN = 10, (1, 5), (1, 5, 10), 1
# The paper simulates three clusters; traces are shown of a fit with as many.
TRUE_CLUSTERS = 3
# The default; as many tastes as clusters; a prior by which nearly every user has one of them only.
AUTO = TasteFit("tastes", "Tastes (auto)", "auto", None)
THREE = TasteFit("tastes-3", f"Tastes, {TRUE_CLUSTERS} tastes", TRUE_CLUSTERS, None)
ONE_EACH = TasteFit("tastes-3-one", f"Tastes, {TRUE_CLUSTERS} tastes, a = 0.05", TRUE_CLUSTERS, 0.05)
TASTES = (AUTO, THREE, ONE_EACH)
# Tasks and names of Pseudo-Mallows, with as many clusters as there are; the second has its probabilities by counts.
PSEUDO = {
    "pseudo": f"Pseudo-Mallows, {TRUE_CLUSTERS} clusters",
    "pseudo-counts": f"Pseudo-Mallows, {TRUE_CLUSTERS} clusters, by counts",
}


def shown_runs(size: Size, paper_runs: Sequence[int]) -> list[int]:
    """Return the runs of the paper's figure, as far as the study has them.

    >>> shown_runs(QUICK, (1, 5, 10))
    [1, 3]
    """
    return sorted({min(run, size.runs) for run in paper_runs})


def task_name(run: int, part: str) -> str:
    """Return the name of a task.

    >>> task_name(7, "als-5")
    'run-07/als-5'
    """
    return f"run-{run:02}/{part}"


def tasks_without_spark(size: Size) -> list[Task]:
    """Return all tasks but Spark's."""
    tasks = []
    candidates = list(size.candidates)
    (calibration_run,) = shown_runs(size, [CALIBRATION_RUN])
    for run in range(1, size.runs + 1):
        data = {"seed": run, "n_users": size.n_users}
        fit = {**data, "sampling": dict(size.sampling)}
        tuning = {**data, "grid": dict(size.grid), "folds": size.folds}
        tasks += [
            Task(task_name(run, "limit"), measures.limit, data, 5),
            Task(task_name(run, "popularity"), measures.popularity, data, 1),
            Task(task_name(run, "held-out"), measures.held_out_likelihood, {**fit, "candidates": candidates}, 75),
        ]
        for c in size.candidates:
            arguments = {**fit, "n_clusters": c, "keep_probabilities": run == calibration_run}
            tasks.append(Task(task_name(run, f"bmcd-{c}"), measures.fit_bmcd, arguments, 20 + 2 * c))
        for part, _, n_tastes, a in TASTES:
            arguments = {**data, "n_tastes": n_tastes, "a": a, "sampling": dict(size.taste_sampling)}
            arguments["keep_probabilities"] = run == calibration_run
            tasks.append(
                Task(task_name(run, part), measures.fit_tastes, arguments, 35 if n_tastes == "auto" else 12)
            )
        for part in PSEUDO:
            by_counts = part.endswith("counts")
            arguments = {**fit, "n_clusters": TRUE_CLUSTERS, "by_counts": by_counts}
            if by_counts:
                arguments["sampling"] = dict(size.counts_sampling)
            tasks.append(Task(task_name(run, part), measures.fit_pseudo_mallows, arguments, 10))
        for k in measures.NEXT:
            tasks.append(Task(task_name(run, f"als-{k}"), measures.als, {**tuning, "k": k}, 50))
            penalised = {**tuning, "grid": dict(size.penalised_grid), "k": k}
            tasks.append(Task(task_name(run, f"penalised-{k}"), measures.penalised_mf, penalised, 60))
    trace: dict[str, Any] = {"seed": TRACE_RUN, "n_users": size.n_users, "n_clusters": TRUE_CLUSTERS}
    trace["sampling"] = dict(size.trace_sampling)
    return [*tasks, Task(task_name(TRACE_RUN, "traces"), measures.traces, trace, 100)]


def spark_tasks(size: Size) -> list[Task]:
    """Return the tasks with Spark, which must run one at a time: Spark takes all cores for itself."""
    tuning = {"n_users": size.n_users, "grid": dict(size.spark_grid), "folds": size.spark_folds}
    return [
        Task(task_name(run, "spark"), measures.spark_als, {"seed": run, **tuning}, 200)
        for run in range(1, size.spark_runs + 1)
    ]
