"""What the case study runs: data sets, numbers of clusters, lengths of chains, settings of the rivals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.case_study import fits
from experiments.case_study.data import DataSet, as_argument
from experiments.tasks import Task

Grid = Sequence[Mapping[str, Sequence[Any]]]

DATA_SETS: dict[str, DataSet] = {
    one.name: one
    for one in (
        DataSet("eshop-1", "eshop", most_clicked=200, at_least=13, remove=10, n_popular=40),
        DataSet("eshop-2", "eshop", most_clicked=200, at_least=23, remove=20, n_popular=40),
        DataSet("msweb", "msweb", most_clicked=200, at_least=6, remove=3, n_popular=40),
    )
}
# Around what coarser grids found on these data (docs/baselines.md).
RIVALS: dict[str, Grid] = {
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
}
# The paper's own rival. MLlib multiplies the regularization by the number of clicks.
SPARK: Grid = ({"factors": [16], "alpha": [5.0], "regularization": [0.5, 1.0, 2.0]},)
SHORT_GRIDS: dict[str, Grid] = {
    "Popularity": (),
    "EASE": ({"regularization": [30.0, 300.0]},),
    "ALS": ({"factors": [2], "alpha": [1.0], "regularization": [3.0, 30.0], "iterations": [5]},),
}


@dataclass(frozen=True)
class Sizes:
    """How much is computed."""

    clusters: tuple[int, ...] = (10, 17, 30, 60)
    """Numbers of clusters that are fitted, and among which held-out likelihood chooses."""
    curve: tuple[int, ...] = (2, 4, 6, 8, 10, 12, 14, 17, 20, 25, 30, 40, 50, 60)
    """Numbers of clusters of the k-means curve, in which an elbow is looked for."""
    chains: int = 4
    warmup: int = 40
    draws: int = 24
    used: int = 6
    """Draws of each chain that are turned into probabilities."""
    choice_chains: int = 2
    choice_warmup: int = 25
    choice_draws: int = 15
    holdout: float = 0.2
    longer: int = 0
    """The main fit is repeated with so many times the warm-up; 0 for not at all."""
    more: int = 0
    """The main fit, and that with the largest C, are repeated with so many chains; 0 for not at all."""
    folds: int = 10
    rivals: Mapping[str, Grid] | None = None
    spark: bool = True


FULL = Sizes(more=8, rivals=RIVALS)
QUICK = Sizes(
    clusters=(2, 3), curve=(2, 3, 4, 6), chains=2, warmup=4, draws=4, used=2, choice_warmup=3, choice_draws=2,
    more=4, folds=2, rivals=SHORT_GRIDS, spark=False,
)  # fmt: skip


def sizes_for(data: DataSet, *, quick: bool) -> Sizes:
    """More chains and MLlib's ALS for the first data set and for one's own; longer chains for the smallest."""
    usual = QUICK if quick else FULL
    if data.is_own:
        return usual
    if data.name == "eshop-2":
        return replace(usual, longer=3, more=0, spark=False)
    if data.name == "msweb":
        return replace(usual, clusters=usual.clusters if quick else (10, 30), more=0, spark=False)
    return usual


def quick_part(data: DataSet) -> DataSet:
    """A small part of a data set, with as many popular items in proportion."""
    items = min(data.most_clicked, 24)
    remove = min(max(data.remove // 3, 1), 5)
    return replace(data, most_clicked=items, at_least=remove + 3, remove=remove, n_popular=5, n_users=120)


@dataclass(frozen=True)
class Fit:
    """One fit of BMCD; fits that are the same run once, whatever roles they have."""

    n_clusters: int
    start: str = "kmeans"
    rank_scale: str = "linear"
    longer: bool = False
    more: bool = False

    @property
    def name(self) -> str:
        """Of its file."""
        parts = ["bmcd", str(self.n_clusters), self.start]
        parts += ["sqrt"] * (self.rank_scale == "sqrt") + ["longer"] * self.longer + ["more"] * self.more
        return "-".join(parts)


@dataclass(frozen=True)
class Roles:
    """Which fit is which, once the numbers of clusters have been chosen from the training clicks."""

    main: Fit
    """C by held-out likelihood, k-means start."""
    elbow: Fit | None
    """C by the k-means elbow."""
    popularity: Fit
    """As the elbow's (or the main one, without an elbow), from the paper's start."""
    sqrt: Fit
    """As the main one, with ranks on a square root scale."""
    longer: Fit | None
    """As the main one, with more warm-up."""
    more: Fit | None
    """As the main one, with more chains to average."""
    more_largest: Fit | None
    """The same with the largest number of clusters, whose chains differ more."""

    def all(self) -> list[Fit]:
        """All of them, each once."""
        given = (self.main, self.elbow, self.popularity, self.sqrt, self.longer, self.more, self.more_largest)
        return list(dict.fromkeys(fit for fit in given if fit is not None))


def roles(chosen: int, elbow: int | None, sizes: Sizes) -> Roles:
    """The fits that are wanted besides the table over C."""
    main = Fit(chosen)
    by_elbow = None if elbow is None else Fit(elbow)
    return Roles(
        main=main,
        elbow=by_elbow,
        popularity=replace(by_elbow or main, start="popularity"),
        sqrt=replace(main, rank_scale="sqrt"),
        longer=replace(main, longer=True) if sizes.longer else None,
        more=replace(main, more=True) if sizes.more else None,
        more_largest=Fit(max(sizes.clusters), more=True) if sizes.more else None,
    )


def first_tasks(data: DataSet, sizes: Sizes) -> list[Task]:
    """All that does not depend on the number of clusters chosen."""
    argument, name = as_argument(data), data.name
    choice = {
        "holdout": sizes.holdout,
        "chains": sizes.choice_chains,
        "warmup": sizes.choice_warmup,
        "draws": sizes.choice_draws,
    }
    tasks = [
        Task(f"{name}/describe", fits.describe, {"data": argument}, 1),
        Task(f"{name}/kmeans", fits.kmeans_curve, {"data": argument, "candidates": list(sizes.curve)}, 20),
    ]
    for c in sizes.clusters:
        arguments = {"data": argument, "n_clusters": c, **choice}
        tasks.append(Task(f"{name}/held-out-{c}", fits.score_clusters, arguments, 40 + 0.3 * c))
    grids = {**(sizes.rivals or {}), **({"SparkALS": SPARK} if sizes.spark else {})}
    for model, grid in grids.items():
        arguments = {"data": argument, "model": model, "grid": list(grid), "folds": sizes.folds}
        seconds = {"ALS": 160, "UserKNN": 40, "SparkALS": 400}.get(model, 5)
        tasks.append(Task(f"{name}/{model}", fits.fit_rival, arguments, seconds))
    return tasks + [fit_task(data, Fit(c), sizes) for c in sizes.clusters]


def fit_task(data: DataSet, fit: Fit, sizes: Sizes) -> Task:
    """The task of one fit."""
    warmup = sizes.warmup * (sizes.longer if fit.longer else 1)
    chains = sizes.more if fit.more else sizes.chains
    arguments = {
        "data": as_argument(data),
        "n_clusters": fit.n_clusters,
        "start": fit.start,
        "rank_scale": fit.rank_scale,
        "chains": chains,
        "warmup": warmup,
        "draws": sizes.draws,
        "used": sizes.used,
    }
    # About right for a few thousand users and 200 items.
    seconds = chains * ((warmup + sizes.draws) * 0.4 + 10 + 0.5 * fit.n_clusters)
    return Task(f"{data.name}/{fit.name}", fits.fit_bmcd, arguments, seconds)
