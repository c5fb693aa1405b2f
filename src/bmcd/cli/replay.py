"""`bmcd replay`: a log sent to a live service as its users would, and what came of the recommendations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.options import USUAL, AsJson, Layout
from bmcd.cli.output import print_json, say
from bmcd.cli.serve import KEY

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.serve.replaying import Hour, Replay

WIDTHS = (18, 10, 10, 11, 10)


def replay(
    clicks: Annotated[
        Path, typer.Argument(metavar="CLICKS", help="A log with times: a csv, tsv or parquet file, also .gz.")
    ],
    url: Annotated[str, typer.Option(help="The address of the live service.")] = "http://127.0.0.1:8000",
    speed: Annotated[
        float, typer.Option(help="How many times faster than it happened: 60 is an hour a minute.")
    ] = 60.0,
    first: Annotated[str | None, typer.Option("--from", help="Leave out the clicks before this time.")] = None,
    last: Annotated[str | None, typer.Option("--until", help="Leave out the clicks from this time on.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="The length of the lists that are asked for.")] = 10,
    ask: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="After which share of the clicks recommendations are asked for.")
    ] = 0.2,
    key_file: Annotated[
        Path | None,
        typer.Option(help=f"A file with the key of the service; by default the variable {KEY}, if set."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Chooses the clicks after which is asked.")] = 0,
    layout: Layout = USUAL,
    as_json: AsJson = False,
) -> None:
    """Send a log to a live service at its pace, and ask for recommendations along the way.

    Of each list of -k items for the next click: how probable it was that the click would be in it, and whether it
    was. The service is that of bmcd serve --live, with a model that was fitted to earlier clicks.
    """
    from bmcd.serve.replaying import Replay

    key = os.environ.get(KEY) or None if key_file is None else key_file.read_text(encoding="utf-8").strip()
    log = between(layout.read(clicks, notes=True), first, last)
    run = Replay(log, url, speed=speed, k=k, ask=ask, key=key, seed=seed)
    hours = told(run, as_json)
    if as_json:
        print_json({"hours": [hour._asdict() for hour in hours], **total(run, hours)})


def told(run: Replay, quiet: bool = False) -> list[Hour]:
    """Run a replay, print its hours as they are over, and return them."""
    if quiet:
        return run.run()
    say(_line("hour", "clicks", "lists", "predicted", "observed"), style="bold")
    hours = run.run(lambda one: say(_line(one.hour, *_numbers(one))))
    every = total(run, hours)
    say(_line("all", f"{every['clicks']:,}", f"{every['lists']:,}", *_shares(every)), style="bold")
    if run.largest_lag > 1:
        say(f"The service fell behind by {run.largest_lag:.0f} s at most: use a smaller --speed.")
    return hours


def total(run: Replay, hours: list[Hour]) -> dict[str, Any]:
    """Return clicks, lists, predicted and observed share of all hours together."""
    n = sum(hour.asked for hour in hours)
    shares = {
        name: sum(getattr(hour, name) * hour.asked for hour in hours) / n if n else None
        for name in ("predicted", "observed")
    }
    clicks = sum(hour.clicks for hour in hours)
    return {"clicks": clicks, "lists": n, **shares, "late": run.n_late, "largest_lag": run.largest_lag}


def between(clicks: Clicks, first: str | None, last: str | None) -> Clicks:
    """Return the clicks of a log between two times."""
    from bmcd.clicks.times import read_time
    from bmcd.errors import InputError

    if clicks.times is None or not clicks.has_clock:
        raise InputError("only a log with times can be replayed: name their column with --time-column.")
    kept = clicks.times >= (clicks.times.min() if first is None else read_time(first, True))
    if last is not None:
        kept &= clicks.times < read_time(last, True)
    if not kept.any():
        raise InputError(
            f"there are no clicks between these times: the log has {clicks.times.min()} to {clicks.times.max()}."
        )
    return clicks.keep(kept)


def _numbers(hour: Hour) -> tuple[str, ...]:
    shares = _shares(hour._asdict()) if hour.asked else ("", "")
    return (f"{hour.clicks:,}", f"{hour.asked:,}", *shares)


def _shares(one: dict[str, Any]) -> tuple[str, str]:
    predicted, observed = (one[name] for name in ("predicted", "observed"))
    return ("", "") if predicted is None else (f"{100 * predicted:.1f} %", f"{100 * observed:.1f} %")


def _line(*cells: str) -> str:
    return "".join(
        cell.ljust(width) if place == 0 else cell.rjust(width)
        for place, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )
