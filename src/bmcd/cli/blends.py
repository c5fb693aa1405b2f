"""`bmcd fit --model blend`: the models that are named by `--blend`, and which options of fit each model takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

from bmcd.cli.choosing import parsed_clusters
from bmcd.cli.names import Distance, ModelName, PartName
from bmcd.cli.output import plain

# Options of a run that are for chains.
OF_CHAINS = ("draws", "warmup", "chains", "thin")
_SAMPLED = frozenset((*OF_CHAINS, "max_time", "checkpoint", "rank_scale"))
_BLEND = frozenset(("blend", "refresh", "repeats"))
_OPTIONS = {
    ModelName.bmcd: _SAMPLED | {"clusters", "distance", "sampler", "count_k", "max_users"},
    ModelName.tastes: _SAMPLED | {"tastes", "distance", "max_users"},
    ModelName.blend: _BLEND,
}
_OPTIONS_OF_PARTS = {
    PartName.bmcd: _SAMPLED | {"clusters", "distance"},
    PartName.tastes: _SAMPLED | {"tastes", "distance"},
}
# What keeps the clicks of single users, and so cannot be stored without them.
_NEEDS_CLICKS = (PartName.user_knn, PartName.session_knn)


def parsed_parts(text: str) -> list[PartName]:
    """Return the models to blend, or say what is wrong with them.

    >>> [str(name) for name in parsed_parts("tastes, EASE")]
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
    return parts


def check_options(model: ModelName, parts: Iterable[PartName], given: Iterable[str]) -> None:
    """Raise a usage error for the first option that the model, or the models of the blend, do not take.

    >>> check_options(ModelName.bmcd, [], ["draws", "clusters"])
    """
    taken = _OPTIONS[model]
    if model is ModelName.blend:
        taken = taken.union(*(_OPTIONS_OF_PARTS.get(part, frozenset()) for part in parts))
    for name in given:
        if name in taken:
            continue
        takers = [f"--model {other}" for other in ModelName if name in _OPTIONS[other]]
        takers += [f"--blend with {part}" for part, options in _OPTIONS_OF_PARTS.items() if name in options]
        option = "--" + name.replace("_", "-")
        raise typer.BadParameter(f"{option} is for {', '.join(takers)}; this is --model {model.value}.")


def check_parts(parts: list[PartName], clusters: int | range | None, distance: Distance, no_clicks: bool) -> None:
    """Raise a usage error if a model of the blend does not go with other options."""
    if PartName.bmcd in parts and distance is not Distance.footrule:
        raise typer.BadParameter(f"a blend takes BMCD with --distance footrule only, not {distance}.")
    if PartName.bmcd in parts and isinstance(clusters, range) and clusters != parsed_clusters("auto"):
        raise typer.BadParameter("a blend with BMCD needs a number of --clusters, or auto.")
    if no_clicks and (needing := [part for part in parts if part in _NEEDS_CLICKS]):
        raise typer.BadParameter(f"{needing[0]} needs everybody's clicks: leave out --no-clicks, or {needing[0]}.")


def make_blend(
    parts: list[PartName], settings: dict[str, Any], given: dict[str, Any], run: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the blend, not fitted yet, and how to run its fit.

    ``settings`` are those of the blend, ``given`` those of its models, and ``run`` those of the fit; without parts
    the blend chooses its members.
    """
    import bmcd

    scale = {"rank_scale": given["rank_scale"]}
    models: dict[str, Any] = {}
    for part in parts:
        if part is PartName.tastes:
            models[part.value] = bmcd.Tastes(given["n_tastes"], distance=given["distance"], **scale)
        elif part is PartName.bmcd:
            number = given["n_clusters"]
            models[part.value] = bmcd.BMCD(number if isinstance(number, int) else "auto", **scale)
        else:
            models[part.value] = getattr(bmcd.baselines, part.value)()
    chains = {name: run[name] for name in OF_CHAINS if name in run}
    own = {name: value for name, value in run.items() if name not in OF_CHAINS}
    sampled = [part for part in parts if part in _OPTIONS_OF_PARTS]
    if sampled:
        own["fit_options"] = {part.value: chains for part in sampled}
    else:
        own.pop("checkpoint", None)
    return bmcd.Blend(models or None, **settings), own
