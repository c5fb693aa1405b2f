"""`bmcd backtest`: fit models at several past times, and evaluate them on the clicks that followed."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.log_files import (
    AtLeast,
    Delimiter,
    Encoding,
    ItemColumn,
    Layout,
    Missing,
    MissingRows,
    MostClicked,
    Order,
    TextIds,
    TimeColumn,
    UserColumn,
    bundled,
    narrowed,
)
from bmcd.cli.options import Horizon
from bmcd.cli.output import TABLES, check_output, plain, print_json, say, write_frame


class At(StrEnum):
    """When users are asked for."""

    moment = "moment"
    cut = "cut"


def backtest(
    clicks: Annotated[
        str, typer.Argument(metavar="CLICKS", help="A csv, tsv or parquet file, also .gz; or bundled data: eshop.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(help="Blend (the default), Tastes, BMCD or a baseline such as Popularity; may be repeated."),
    ] = None,
    cuts: Annotated[int, typer.Option(min=1, help="The number of past times at which models are fitted.")] = 5,
    window: Annotated[
        str | None,
        typer.Option(help="How long each fit is in use, such as 1h. By default 1d, if the clicks have times."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="The number of items for each user.")] = 10,
    horizon: Horizon = None,
    at: Annotated[
        At, typer.Option(help="moment: ask at a random moment of each user; cut: at the cut (nightly lists).")
    ] = At.moment,
    repeats: Annotated[bool, typer.Option("--repeats", help="Count repeated clicks as next clicks.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the table to a .csv, .parquet or .json file.")
    ] = None,
    user_column: UserColumn = "user",
    item_column: ItemColumn = "item",
    time_column: TimeColumn = None,
    order: Order = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    missing: MissingRows = Missing.error,
    text_ids: TextIds = False,
    most_clicked: MostClicked = None,
    at_least: AtLeast = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit models at several past times, and compare predictions with the clicks that followed.

    Without times, models are fitted to earlier users and evaluated on later ones. docs/evaluation.md explains the
    columns of the table.
    """
    target = None if output is None else check_output(output, TABLES, but_not=[clicks])
    import bmcd

    models = _models(model or ["Blend"], repeats)
    data = bundled(clicks)
    if data is None:
        layout = Layout(user_column, item_column, delimiter, encoding, missing)
        how: dict[str, Any] = {
            "time_column": time_column,
            "order": None if order is None else order.value,
            "text_ids": text_ids,
        }
        data = layout.read(clicks, **how)
    data = narrowed(data, most_clicked, at_least)
    found = bmcd.backtest(
        models, data, cuts, window, k, horizon, at.value, seed, repeats=repeats, n_threads=threads
    )
    if target is not None:
        write_frame(found.to_frame(), target)
    if as_json:
        print_json({"clicks": clicks, "file": output, **found.to_dict()})
        return
    say(found)
    if target is not None:
        say(f"{len(found.rows)} rows: {output}")


def _models(names: list[str], repeats: bool) -> dict[str, Any]:
    """Return models with their default settings, by name."""
    import bmcd
    from bmcd import baselines

    classes: dict[str, Any] = {name: getattr(bmcd, name) for name in ("Blend", "Tastes", "BMCD")}
    for name in baselines.__all__:
        one = getattr(baselines, name)
        if hasattr(one, "recommend_for") and not getattr(one, "__abstractmethods__", None):
            classes[name] = one
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
