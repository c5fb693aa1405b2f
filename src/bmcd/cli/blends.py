"""`bmcd fit --model blend`: which models are blended, with which settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from bmcd.cli.choosing import parsed_clusters
from bmcd.cli.names import Distance, PartName
from bmcd.cli.output import plain, rows_of

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

PARTS, FOLDS = f"{PartName.tastes},{PartName.ease}", 5
# What is tried for EASE, which is good only with the right one: by cross-validation over the training clicks.
REGULARIZATIONS, TUNING_FOLDS, TUNING_K = (30.0, 100.0, 300.0, 1000.0, 3000.0), 5, 10
# Options of a run that are for chains, not for the blend itself.
OF_CHAINS = ("draws", "warmup", "chains", "thin")


def parsed_parts(
    text: str, clusters: int | range | None, distance: Distance = Distance.footrule, no_clicks: bool = False
) -> list[PartName]:
    """Return the models to blend, or say what is wrong with them.

    >>> [str(name) for name in parsed_parts("tastes, EASE", 2)]
    ['Tastes', 'EASE']
    """
    known = {name.value.lower(): name for name in PartName}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word.lower() not in known:
            raise typer.BadParameter(f"--blend must be names of {', '.join(PartName)}, not {plain(word)!r}.")
    parts = [known[word.lower()] for word in words]
    if twice := [name for name in parts if parts.count(name) > 1]:
        raise typer.BadParameter(f"--blend has {twice[0]} twice.")
    if PartName.bmcd in parts and distance is not Distance.footrule:
        raise typer.BadParameter(f"a blend takes BMCD with --distance footrule only, not {distance}.")
    if PartName.bmcd in parts and isinstance(clusters, range) and clusters != parsed_clusters("auto"):
        raise typer.BadParameter("a blend with BMCD needs a number of --clusters, or auto.")
    if PartName.user_knn in parts and no_clicks:
        raise typer.BadParameter("UserKNN needs everybody's clicks: leave out --no-clicks, or UserKNN.")
    return parts


def make_blend(
    data: Clicks, parts: list[PartName], folds: int, given: dict[str, Any], run: dict[str, Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return the blend, not fitted yet, how to run it, and how the settings of its models were chosen."""
    import bmcd

    models: dict[str, Any] = {}
    choice: dict[str, Any] = {"reason": "The models of the blend have the settings they come with.", "table": None}
    for part in parts:
        if part is PartName.tastes:
            models[part.value] = bmcd.Tastes(given["n_tastes"], distance=given["distance"], **_scale(given))
        elif part is PartName.bmcd:
            auto = not isinstance(given["n_clusters"], int)
            models[part.value] = bmcd.BMCD("auto" if auto else given["n_clusters"], **_scale(given))
        elif part is PartName.ease:
            models[part.value], choice = tuned_ease(data, run["seed"], run.get("n_threads"))
        else:
            models[part.value] = getattr(bmcd.baselines, part.value)()
    chains = {name: run[name] for name in OF_CHAINS if name in run}
    own = {name: value for name, value in run.items() if name not in OF_CHAINS}
    sampled = [name for name in models if name in (PartName.tastes, PartName.bmcd)]
    return bmcd.Blend(models, folds), {**own, "fit_options": {name: chains for name in sampled}}, choice


def tuned_ease(data: Clicks, seed: int, n_threads: int | None, k: int = TUNING_K) -> tuple[Any, dict[str, Any]]:
    """Return EASE with the regularization that finds most held-out training clicks, and how it was found."""
    import bmcd

    k = max(1, min(k, data.n_items - int(data.per_user.max())))
    grid = {"regularization": list(REGULARIZATIONS)}
    found = bmcd.tune(bmcd.baselines.EASE, data, grid, TUNING_FOLDS, k, seed=seed, n_threads=n_threads)
    best = found.best["regularization"]
    reason = (
        f"EASE: regularization {best:g}, the best of {', '.join(f'{value:g}' for value in REGULARIZATIONS)} on the "
        f"training clicks, {TUNING_FOLDS} folds ({found.accuracy.max():.1%} hits at {k})."
    )
    if found.at_the_edge:
        reason += " That is the end of what was tried."
    return found.model, {"recommended": best, "reason": reason, "table": rows_of(found.table)}


def _scale(given: dict[str, Any]) -> dict[str, Any]:
    return {"rank_scale": given["rank_scale"]}
