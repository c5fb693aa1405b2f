"""reproduce_case_study: run what is not done yet, then write the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.case_study.choice import Choice, choose
from experiments.case_study.data import DataSet, own_data, split
from experiments.case_study.plan import (
    DATA_SETS,
    Fit,
    Sizes,
    first_tasks,
    fit_task,
    quick_part,
    roles,
    sizes_for,
)
from experiments.case_study.study import Study
from experiments.requirements import need, why_no_spark
from experiments.tasks import Result, Task, run_tasks

USUAL = {"most_clicked": 200, "at_least": 13, "remove": 10}  # as the paper's data set 1


def reproduce_case_study(
    folder: Path,
    *,
    data: Sequence[str] | None = None,
    quick: bool = False,
    clicks: Path | None = None,
    user: str = "user",
    item: str = "item",
    titles: Path | None = None,
    most_clicked: int | None = None,
    at_least: int | None = None,
    remove: int | None = None,
    seed: int = 0,
    n_workers: int | None = None,
    progress: bool | None = None,
) -> Path:
    """Run the paper's case study on public clicks, or on your own, and return the page with tables and figures.

    Results are kept in ``folder``/results, so that a study that was stopped goes on, and one that is done is only
    written again.

    Parameters
    ----------
    folder
        Where everything is written.
    data
        Some of "eshop-1", "eshop-2" and "msweb"; all three unless given.
    quick
        A few users, items and sweeps: everything is made, nothing is to be learned from it.
    clicks
        A file of your own instead, as `bmcd.read_clicks` takes it, with the columns ``user`` and ``item`` and
        optional ``titles``. The ``most_clicked`` items (200) and users with ``at_least`` clicks (13) are kept, and
        ``remove`` clicks (10) of each are removed; without a file these are fixed.
    seed
        Of the removed clicks, and of every fit.
    n_workers
        Tasks at a time; as many as cores unless given. Results do not depend on it.
    progress
        Show a bar; only on a terminal unless given.
    """
    need("implicit", "baselines")
    given = {"most_clicked": most_clicked, "at_least": at_least, "remove": remove}
    protocol = {name: value for name, value in given.items() if value is not None}
    if clicks is None and protocol:
        raise ValueError(
            f"{', '.join(protocol)} can be chosen for clicks of your own only; the others have theirs."
        )
    if clicks is None:
        chosen = [replace(_known(name), seed=seed) for name in dict.fromkeys(data or DATA_SETS)]
    elif data:
        raise ValueError("give names of data sets or a file of your own clicks, not both.")
    else:
        files = {"user": user, "item": item, "titles": None if titles is None else str(titles)}
        chosen = [own_data(clicks, **{**USUAL, **protocol}, n_popular=None, seed=seed, **files)]
    sizes = {quick_part(one) if quick else one: sizes_for(one, quick=quick) for one in chosen}
    studies = run_studies(sizes, folder / "results", n_workers=n_workers, progress=progress)
    from experiments.case_study.page import write_page

    return write_page(studies, folder, quick=quick)


def run_studies(
    sizes: dict[DataSet, Sizes], folder: Path, *, n_workers: int | None, progress: bool | None
) -> list[Study]:
    """Do all tasks: first what needs no choice, then the fits with the numbers of clusters chosen."""
    options: Any = {"n_workers": n_workers, "progress": progress}
    without = {one: why_no_spark() if size.spark else "" for one, size in sizes.items()}
    sizes = {one: replace(size, spark=size.spark and not without[one]) for one, size in sizes.items()}
    fitted = {one: _fitting(one, size) for one, size in sizes.items()}
    first = {one: first_tasks(one, fitted[one]) for one in sizes}
    found = run_tasks([task for tasks in first.values() for task in tasks], folder, what="case study", **options)
    choices = {one: _choice(one, fitted[one], found) for one in sizes}
    wanted = {one: roles(choices[one].recommended, choices[one].larger, fitted[one]) for one in sizes}
    every = {
        one: list(dict.fromkeys([*(Fit(c) for c in fitted[one].clusters), *wanted[one].all()])) for one in sizes
    }
    more = [fit_task(one, fit, fitted[one]) for one, fits in every.items() for fit in fits]
    found |= run_tasks(more, folder, what="case study, chosen fits", **options)
    return [
        Study(
            data=one,
            sizes=fitted[one],
            description=found[f"{one.name}/describe"],
            choice=choices[one],
            roles=wanted[one],
            fits={fit: found[fit_task(one, fit, fitted[one]).name] for fit in every[one]},
            rivals={name: found[f"{one.name}/{name}"] for name in _rivals(first[one])},
            without_spark=without[one],
        )
        for one in sizes
    ]


def _rivals(tasks: Sequence[Task]) -> list[str]:
    return [str(task.arguments["model"]) for task in tasks if "model" in task.arguments]


def _choice(data: DataSet, sizes: Sizes, found: dict[str, Result]) -> Choice:
    scores = {c: found[f"{data.name}/held-out-{c}"] for c in sizes.clusters}
    return choose(found[f"{data.name}/kmeans"], scores)


def _fitting(data: DataSet, sizes: Sizes) -> Sizes:
    """Without numbers of clusters for which there are too few users: ten for each cluster are the least."""
    most = max(split(data)[0].n_users // 10, 2)
    clusters = tuple(c for c in sizes.clusters if c <= most) or (2,)
    return replace(sizes, clusters=clusters, curve=tuple(c for c in sizes.curve if c <= most) or (2,))


def _known(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise ValueError(f"there is no data set {name!r} in the case study; there are {', '.join(DATA_SETS)}.")
    return DATA_SETS[name]
