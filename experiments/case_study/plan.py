"""What the case study runs: data sets, numbers of clusters, lengths of chains, settings of the baselines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from experiments.case_study import measures
from experiments.case_study.data import DataSet, prepare
from experiments.study import Sampling, why_no_spark
from experiments.tasks import Task

Grid = Sequence[Mapping[str, Sequence[Any]]]

MAIN, TASTES = "BMCD", "Tastes"
# The same model as BMCD, with another sampler: see experiments/pseudo_mallows.
PSEUDO = "Pseudo-Mallows"
# Blended with Tastes, which does not see what EASE does: effects between single items.
PARTNER = "EASE"
DATA_SETS: dict[str, DataSet] = {
    data.name: data
    for data in (
        DataSet("eshop-1", "eshop", most_clicked=200, at_least=13, remove=10, n_popular=40),
        DataSet("eshop-2", "eshop", most_clicked=200, at_least=23, remove=20, n_popular=40),
        DataSet("msweb", "msweb", most_clicked=200, at_least=6, remove=3, n_popular=40),
    )
}
# Around the best settings of coarser grids on these data.
BASELINES: dict[str, Grid] = {
    "Popularity": (),
    "ItemKNN": ({"neighbours": [20, 50, 100, 200]},),
    "UserKNN": ({"neighbours": [100, 200, 400, 800]},),
    "EASE": ({"regularization": [10.0, 30.0, 100.0, 300.0, 1000.0]},),
    "Diffusion": ({"mixing": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]},),
    "ALS": (
        {"factors": [8, 16, 32], "alpha": [5.0], "regularization": [30.0, 60.0, 100.0]},
        {"factors": [16], "alpha": [20.0], "regularization": [100.0]},
        {"factors": [16], "alpha": [80.0], "regularization": [100.0, 300.0]},
        {"factors": [4, 8], "alpha": [2.0], "regularization": [10.0]},
    ),
    "PenalisedMF": (
        {"factors": [16, 32], "alpha": [5.0], "regularization": [60.0, 100.0], "penalty": [0.0, 0.03, 0.1, 0.3]},
        {"factors": [8], "alpha": [5.0], "regularization": [30.0], "penalty": [0.0, 0.03, 0.1, 0.3]},
        {"factors": [16], "alpha": [80.0], "regularization": [300.0], "penalty": [0.0, 0.03, 0.1]},
    ),
    "PoissonFactorisation": (
        {"factors": [3, 5, 10, 20], "user_shape": [0.3, 0.5, 1.0], "item_shape": [1.0, 3.0, 10.0]},
    ),
}
# The paper's own baseline. MLlib multiplies the regularization by the number of clicks.
SPARK_GRID: Grid = ({"factors": [16], "alpha": [5.0], "regularization": [0.5, 1.0, 2.0]},)
QUICK_BASELINES: dict[str, Grid] = {
    "Popularity": (),
    "EASE": ({"regularization": [30.0, 300.0]},),
    "ALS": ({"factors": [2], "alpha": [1.0], "regularization": [3.0, 30.0], "iterations": [5]},),
    "PoissonFactorisation": ({"factors": [2, 3], "iterations": [20]},),
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed for a data set."""

    clusters: tuple[int, ...] = (10, 17, 30, 60)
    """Numbers of clusters that are fitted, and among which held-out likelihood chooses."""
    curve: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50, 60)
    """Numbers of clusters of the k-means curve, in which an elbow is looked for."""
    sampling: Sampling = field(default_factory=lambda: {"chains": 4, "warmup": 40, "draws": 24})
    """The chains of every fit."""
    predicting_draws: int = 6
    """Draws of each chain that are turned into probabilities."""
    choice_sampling: Sampling = field(default_factory=lambda: {"chains": 2, "warmup": 25, "draws": 15})
    """The chains of the choice by held-out likelihood."""
    holdout: float = 0.2
    warmup_factor: int = 0
    """The main fit is repeated with so many times the warm-up; 0 for not at all."""
    more_chains: int = 0
    """The main fit, and that with the largest C, are repeated with so many chains; 0 for not at all."""
    folds: int = 10
    taste_chains: int = 16
    """The chains of Tastes; all else is as by default."""
    baselines: Mapping[str, Grid] = field(default_factory=lambda: BASELINES)
    spark: bool = True


FULL = Sizes(more_chains=8)
QUICK = Sizes(
    clusters=(2, 3),
    curve=(2, 3, 4, 6),
    sampling={"chains": 2, "warmup": 4, "draws": 4},
    predicting_draws=2,
    choice_sampling={"chains": 2, "warmup": 3, "draws": 2},
    more_chains=4,
    folds=2,
    taste_chains=2,
    baselines=QUICK_BASELINES,
    spark=False,
)


@dataclass(frozen=True)
class Fit:
    """A fit of BMCD; fits that are the same run once."""

    n_clusters: int
    start: str = "kmeans"
    rank_scale: str = "linear"
    longer: bool = False
    """Whether the warm-up is longer."""
    more: bool = False
    """Whether there are more chains."""

    @property
    def name(self) -> str:
        """The last part of its task's name."""
        parts = ["bmcd", str(self.n_clusters), self.start]
        parts += ["sqrt"] * (self.rank_scale == "sqrt") + ["longer"] * self.longer + ["more"] * self.more
        return "-".join(parts)


@dataclass(frozen=True)
class Plan:
    """What is run on one data set."""

    data: DataSet
    sizes: Sizes
    spark_problem: str = ""
    """Why MLlib's ALS is not among the baselines, if it was meant to be."""

    @property
    def baselines(self) -> dict[str, Grid]:
        """The baselines, each with the settings that cross-validation chooses from."""
        return {**self.sizes.baselines, **({"SparkALS": SPARK_GRID} if self.sizes.spark else {})}

    @property
    def blends(self) -> dict[str, tuple[str, ...]]:
        """What Blend is made of, by name: Tastes with EASE first, then every method that it gives a probability."""
        members = [(TASTES, PARTNER), (TASTES,), *((baseline,) for baseline in self.baselines)]
        return {blend_name(*names): names for names in members}

    def task_name(self, part: str) -> str:
        """Return the name of a task."""
        return f"{self.data.name}/{part}"

    def first_tasks(self) -> list[Task]:
        """Return all tasks that do not depend on the number of clusters chosen."""
        sizes = self.sizes
        tasks = [
            self._task("describe", measures.describe, 1),
            self._task("kmeans", measures.kmeans_curve, 20, candidates=list(sizes.curve)),
        ]
        choice = {"holdout": sizes.holdout, "sampling": dict(sizes.choice_sampling)}
        for c in sizes.clusters:
            tasks.append(self._task(f"held-out-{c}", measures.score_clusters, 40 + 0.3 * c, n_clusters=c, **choice))
        for model, grid in self.baselines.items():
            seconds = {
                "ALS": 160,
                "PenalisedMF": 250,
                "PoissonFactorisation": 80,
                "UserKNN": 40,
                "SparkALS": 400,
            }.get(model, 5)
            arguments = {"model": model, "grid": list(grid), "folds": sizes.folds}
            tasks.append(self._task(model, measures.fit_baseline, seconds, **arguments))
        tasks.append(self._task(TASTES, measures.fit_tastes, 100, chains=sizes.taste_chains))
        return tasks + [self.fit_task(Fit(c)) for c in sizes.clusters]

    def blend_tasks(self, settings: Mapping[str, Mapping[str, Any]]) -> list[Task]:
        """Return the tasks of the blends, once the ``settings`` of their members have been chosen."""
        tasks = []
        for members in self.blends.values():
            seconds = sum(
                {TASTES: 300, "SparkALS": 100, "ALS": 30, "PenalisedMF": 30}.get(member, 5) for member in members
            )
            arguments = {"models": {member: dict(settings[member]) for member in members}}
            tasks.append(self._task(blend_part(members), measures.fit_blend, seconds, **arguments))
        return tasks

    def variants(self, chosen: int, elbow: int | None) -> dict[str, Fit]:
        """Return the fits that are compared with the baselines, by name, once numbers of clusters have been chosen.

        The main one, which comes first, has the number ``chosen`` by held-out likelihood and starts from k-means.
        Those that are the same as it are left out. The paper starts from popularity.
        """
        main, sizes = Fit(chosen), self.sizes
        by_elbow, elbow_name = (main, MAIN) if elbow is None else (Fit(elbow), f"{MAIN}, the elbow's C")
        fits = {
            MAIN: main,
            elbow_name: by_elbow,
            f"{elbow_name}, popularity start": replace(by_elbow, start="popularity"),
            f"{MAIN}, square root ranks": replace(main, rank_scale="sqrt"),
        }
        if sizes.warmup_factor:
            fits[f"{MAIN}, longer chains"] = replace(main, longer=True)
        if sizes.more_chains:
            fits[f"{MAIN}, {sizes.more_chains} chains"] = replace(main, more=True)
        return {name: fit for name, fit in fits.items() if name == MAIN or fit != main}

    def fits(self, variants: Iterable[Fit]) -> list[Fit]:
        """Return all fits, each once: those for each C, the variants, and more chains for the largest C.

        (The chains of the largest C differ more than others.)
        """
        largest = [Fit(max(self.sizes.clusters), more=True)] if self.sizes.more_chains else []
        return list(dict.fromkeys([*map(Fit, self.sizes.clusters), *variants, *largest]))

    def fit_task(self, fit: Fit) -> Task:
        """Return the task of a fit."""
        sampling = dict(self.sizes.sampling)
        if fit.longer:
            sampling["warmup"] *= self.sizes.warmup_factor
        if fit.more:
            sampling["chains"] = self.sizes.more_chains
        # About right for a few thousand users and 200 items.
        seconds_a_chain = (sampling["warmup"] + sampling["draws"]) * 0.4 + 10 + 0.5 * fit.n_clusters
        model = {"n_clusters": fit.n_clusters, "start": fit.start, "rank_scale": fit.rank_scale}
        arguments = {**model, "sampling": sampling, "predicting_draws": self.sizes.predicting_draws}
        return self._task(fit.name, measures.fit_bmcd, sampling["chains"] * seconds_a_chain, **arguments)

    def pseudo_task(self, n_clusters: int) -> Task:
        """Return the task of Pseudo-Mallows, with the number of clusters that was chosen for BMCD."""
        sampling, draws = dict(self.sizes.sampling), self.sizes.predicting_draws
        arguments = {"n_clusters": n_clusters, "sampling": sampling, "predicting_draws": draws}
        return self._task(f"{PSEUDO}-{n_clusters}", measures.fit_pseudo_mallows, 80, **arguments)

    def _task(self, part: str, function: Any, seconds: float, **arguments: Any) -> Task:
        return Task(self.task_name(part), function, {"data": asdict(self.data), **arguments}, seconds)


def blend_name(*members: str) -> str:
    """Return what a blend is called.

    >>> blend_name("Tastes", "EASE")
    'Blend(Tastes, EASE)'
    """
    return f"Blend({', '.join(members)})"


def blend_part(members: Iterable[str]) -> str:
    """Return the last part of the name of a blend's task.

    >>> blend_part(("Tastes", "EASE"))
    'blend-Tastes-EASE'
    """
    return "-".join(["blend", *members])


BLEND = blend_name(TASTES, PARTNER)


def make_plan(data: DataSet, *, quick: bool) -> Plan:
    """Return what is run on a data set, or on a small part of it."""
    if quick:
        data = quick_part(data)
    sizes = _sizes_for(data, quick=quick)
    spark_problem = why_no_spark() if sizes.spark else ""
    # A cluster needs ten users at least.
    most = max(prepare(data).train.n_users // 10, 2)
    clusters, curve = (tuple(c for c in numbers if c <= most) or (2,) for numbers in (sizes.clusters, sizes.curve))
    sizes = replace(sizes, clusters=clusters, curve=curve, spark=sizes.spark and not spark_problem)
    return Plan(data, sizes, spark_problem)


def quick_part(data: DataSet) -> DataSet:
    """Return a small part of a data set, with as many popular items in proportion."""
    items = min(data.most_clicked, 24)
    remove = min(max(data.remove // 3, 1), 5)
    return replace(data, most_clicked=items, at_least=remove + 3, remove=remove, n_popular=5, n_users=120)


def _sizes_for(data: DataSet, *, quick: bool) -> Sizes:
    """Return how much is computed for a data set.

    The first one and the user's own have more chains and MLlib's ALS; the smallest has longer chains.
    """
    usual = QUICK if quick else FULL
    if data.name == "eshop-2" and not data.is_own:
        return replace(usual, warmup_factor=3, more_chains=0, spark=False)
    if data.name == "msweb" and not data.is_own:
        return replace(usual, clusters=usual.clusters if quick else (10, 30), more_chains=0, spark=False)
    return usual
