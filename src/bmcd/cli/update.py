"""`bmcd update`: add clicks to a fitted model of counts; its weights stay."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.errors import held_back
from bmcd.cli.options import USUAL, Layout, TextIds, option
from bmcd.cli.output import MODELS, check_output, say
from bmcd.errors import InputError


def update(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit, with the clicks in it.")],
    clicks: Annotated[
        Path, typer.Argument(metavar="CLICKS", help="The clicks to add: a csv, tsv or parquet file, also .gz.")
    ],
    output: Annotated[
        Path | None, option("Write the model to this .bmcd file and keep the old one.", "--output", "-o")
    ] = None,
    keep: Annotated[
        str | None, option("Remove clicks that are older than this at the last click, such as 72h.")
    ] = None,
    layout: Layout = USUAL,
    text_ids: TextIds = False,
) -> dict[str, Any]:
    """Add clicks to a model of counts: its counts are then those of a fit to all clicks.

    For a Blend of counts, as `bmcd fit` makes it of a log with times or order, and for Trending, Transitions,
    RecentCooccurrence and SessionKNN. Weights are not changed: bmcd fit --start learns them again.
    """
    began = time.monotonic()
    target = check_output(output or model, MODELS, but_not=[clicks])
    from bmcd.models.persistence import load

    fitted = load(model)
    if not hasattr(fitted, "update"):
        raise InputError(f"{model}: {type(fitted).__name__} models cannot be updated: fit again, to all clicks.")
    known = fitted.clicks_
    if known.order == "rows" and layout.time_column is None and layout.order is None:
        layout = layout._replace(order="rows")
    before = len(known.sequence)
    more = layout.read(clicks, notes=True, text_ids=text_ids)
    fitted.update(more, keep=keep)
    after = fitted.clicks_
    with held_back():
        fitted.save(target)
    say(
        f"{len(more.sequence):,} clicks read; the model has {len(after.sequence):,} now (before: {before:,}), of "
        f"{after.n_users:,} users on {after.n_items:,} items."
    )
    say(f"{output or model} is updated.")
    return {
        "n_read": len(more.sequence), "n_before": before, "n_clicks": len(after.sequence),
        "n_users": after.n_users, "n_items": after.n_items, "model": output or model,
        "seconds": round(time.monotonic() - began, 3),
    }  # fmt: skip
