"""`bmcd replay`: send a log to a live service as its users would, and compare recommendations with clicks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.options import USUAL, Layout, Seed, option
from bmcd.cli.output import say
from bmcd.cli.serve import KeyFile, read_key

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.serve.replaying import Hour, Replay


def replay(
    clicks: Annotated[
        Path, typer.Argument(metavar="CLICKS", help="A log with times: a csv, tsv or parquet file, also .gz.")
    ],
    url: Annotated[str, option("The address of the live service.")] = "http://127.0.0.1:8000",
    speed: Annotated[float, option("How many times faster than it happened: 60 is an hour per minute.")] = 60.0,
    first: Annotated[str | None, option("Leave out clicks before this time.", "--from")] = None,
    last: Annotated[str | None, option("Leave out clicks from this time on.", "--until")] = None,
    k: Annotated[int, option("The number of items per list.", "-k", min=1)] = 10,
    ask: Annotated[
        float, option("Share of the clicks after which recommendations are requested.", min=0.0, max=1.0)
    ] = 0.2,
    key_file: KeyFile = None,
    seed: Seed = 0,
    layout: Layout = USUAL,
) -> dict[str, Any]:
    """Send a log to a live service at its pace, and request recommendations along the way.

    For each list of -k items for the next click: the predicted probability that the click is in it, and whether it
    was. The service is that of bmcd serve --live, with a model that was fitted to earlier clicks.
    """
    from bmcd.serve.replaying import Replay

    log = between(layout.read(clicks, notes=True), first, last)
    run = Replay(log, url, speed=speed, k=k, ask=ask, key=read_key(key_file), seed=seed)
    hours = run_replay(run)
    return {"hours": [hour._asdict() for hour in hours], **total(run, hours)}


def run_replay(run: Replay) -> list[Hour]:
    """Run a replay, print each hour when it is over, and return them."""

    def line(hour: str, clicks: int, lists: int, found: dict[str, Any], **style: str) -> None:
        rates = [found[name] if found.get("asked", 1) else None for name in ("predicted", "observed")]
        cells = ["" if rate is None else f"{100 * rate:.1f} %" for rate in rates]
        say(f"{hour:<18}{clicks:>10,}{lists:>10,}{cells[0]:>11}{cells[1]:>10}", **style)

    say(f"{'hour':<18}{'clicks':>10}{'lists':>10}{'predicted':>11}{'observed':>10}", style="bold")
    hours = run.run(lambda one: line(one.hour, one.clicks, one.asked, one._asdict()))
    every = total(run, hours)
    line("all", every["clicks"], every["lists"], every, style="bold")
    if run.largest_lag > 1:
        say(f"The service was up to {run.largest_lag:.0f} s late: use a smaller --speed.")
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
