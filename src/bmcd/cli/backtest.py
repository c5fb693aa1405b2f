"""`bmcd backtest`: fit models at several past times, and evaluate them on the clicks that followed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from bmcd.cli import options as opt
from bmcd.cli.options import option
from bmcd.cli.output import TABLES, check_output, say, write_frame
from bmcd.utils import plain


def backtest(
    clicks: opt.Log,
    model: Annotated[
        list[str] | None,
        option("Blend (default), Tastes, BMCD or a baseline such as Popularity; may be repeated."),
    ] = None,
    cuts: Annotated[int, option("The number of past times at which models are fitted.", min=1)] = 5,
    window: Annotated[
        str | None, option("How long each fit is in use, such as 1h. Default: 1d, if the clicks have times.")
    ] = None,
    k: opt.K = 10,
    horizon: opt.Horizon = None,
    at: Annotated[
        Literal["moment", "cut"],
        option("moment: ask at a random moment of each user; cut: at the cut (nightly lists)."),
    ] = "moment",
    repeats: Annotated[bool, option("Count repeated clicks as next clicks.", "--repeats")] = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    output: opt.TableFile = None,
    layout: opt.Layout = opt.USUAL,
    text_ids: opt.TextIds = False,
    most_clicked: opt.MostClicked = None,
    at_least: opt.AtLeast = None,
) -> dict[str, Any]:
    """Fit models at several past times, and compare predictions with the clicks that followed.

    Without times, models are fitted to earlier users and evaluated on later ones. docs/evaluation.md explains the
    columns of the table.
    """
    target = None if output is None else check_output(output, TABLES, but_not=[clicks])
    import bmcd

    models = _models(model or ["Blend"], repeats)
    data = opt.read_log(clicks, layout, most_clicked, at_least, text_ids=text_ids)
    found = bmcd.backtest(models, data, cuts, window, k, horizon, at, seed, repeats=repeats, n_threads=threads)
    if target is not None:
        write_frame(found.to_frame(), target)
    say(found)
    if target is not None:
        say(f"{len(found.rows)} rows: {output}")
    return {"clicks": clicks, "file": output, **found.to_dict()}


def _models(names: list[str], repeats: bool) -> dict[str, Any]:
    """Return models with their default settings, by name."""
    classes = opt.model_classes()
    by_text = {name.lower(): name for name in classes}
    models = {}
    for text in names:
        if text.lower() not in by_text:
            raise typer.BadParameter(f"--model must be one of {', '.join(classes)}, not {plain(text)!r}.")
        name = by_text[text.lower()]
        models[name] = classes[name]()
        if repeats and "repeats" in models[name].get_params():
            models[name].set_params(repeats=True)
    return models
