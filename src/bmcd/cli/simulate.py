"""`bmcd simulate`: clicks whose true parameters are known."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bmcd.cli.options import Seed, option
from bmcd.cli.output import TABLES, check_output, open_table, say, write_frame
from bmcd.progress import counting

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

PAPER_ITEMS = 50
# Users whose clicks are in memory as a frame at a time.
CHUNK = 50_000
# The options that each model takes, besides users, items and seed; and arguments of Python with other names.
TAKES = {
    "bmcd": ("clusters", "alpha", "mean_clicks", "truth"),
    "tastes": ("tastes", "alpha", "mean_clicks", "truth"),
    "log": ("days", "mean_clicks", "follow", "repeats"),
}
ARGUMENTS = {"tastes": "n_tastes", "clusters": "consensuses"}


def simulate(
    output: Annotated[Path, option("The file for the clicks: .csv, .parquet or .json.", "--output", "-o")],
    users: Annotated[int, option("The number of users.", min=1)] = 3000,
    items: Annotated[int, option("The number of items.", min=1)] = PAPER_ITEMS,
    model: Annotated[
        Literal["bmcd", "tastes", "log"],
        option(
            "bmcd: one cluster per user, as in the paper's study; tastes: several tastes; log: a log of any size, "
            "with times and items that come and go."
        ),
    ] = "bmcd",
    tastes: Annotated[int | None, option("Number of tastes, with random consensuses. Default: 40.", min=1)] = None,
    clusters: Annotated[
        int | None,
        option("Number of clusters, with random consensuses. Default: 3; with 50 items those of the paper.", min=1),
    ] = None,
    alpha: Annotated[
        float | None,
        option("How closely users follow their consensus; 0: not at all. Default: 3; tastes: 20.", min=0.0),
    ] = None,
    mean_clicks: Annotated[
        float | None,
        option("Approximate mean number of clicks per user. Default: 5; tastes: 10; log: 20."),
    ] = None,
    days: Annotated[int | None, option("Number of days of a log. Default: 30.", min=1)] = None,
    follow: Annotated[
        float | None,
        option("Share of clicks that follow from the one before (log). Default: 0.5.", min=0.0, max=1.0),
    ] = None,
    repeats: Annotated[
        float | None, option("Share of repeated clicks (log). Default: 0.08.", min=0.0, max=1.0)
    ] = None,
    seed: Seed = 0,
    truth: Annotated[
        Path | None, option("The file for each user's cluster and full ranking (.csv, .parquet, .json).")
    ] = None,
) -> dict[str, Any]:
    """Simulate clicks whose true parameters are known.

    As in the paper's study each user has a ranking of all items, drawn around the consensus of a cluster, and
    clicks the best of it. With --model tastes a user has several tastes, and there may be millions of users. With
    --model log clicks have times and repeat, and the log may be of any size: it is written day by day.
    """
    given = {
        "tastes": tastes, "clusters": clusters, "alpha": alpha, "truth": truth, "days": days,
        "mean_clicks": mean_clicks, "follow": follow, "repeats": repeats,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if wrong := ["--" + name.replace("_", "-") for name in given if name not in TAKES[model]]:
        raise typer.BadParameter(f"--model {model} does not take {', '.join(wrong)}.")
    target = check_output(output, TABLES)
    true_target = None if truth is None else check_output(truth, TABLES, but_not=[output])
    import bmcd

    settings: dict[str, Any] = {ARGUMENTS.get(name, name): given[name] for name in given if name != "truth"}
    facts: dict[str, Any] = {"clicks": output, "n_users": users, "n_items": items, "seed": seed}
    if model == "log":
        settings = {"days": 30, "mean_clicks": 20.0} | settings
        n_clicks = _write_log(target, settings["days"], bmcd.simulate_log(users, items, seed=seed, **settings))
        say(f"Simulated {n_clicks:,} clicks in {settings['days']} days, seed {seed}: {output}")
        say(f"Next:   bmcd fit {output} -o model.bmcd --refresh 1h --last 72h")
        return {**facts, "n_clicks": n_clicks, **settings}
    found: Any
    if model == "tastes":
        found = bmcd.simulate_tastes(users, items, seed=seed, **{"n_tastes": 40} | settings)
        kind, mean, of = "tastes", 10.0, "each taste's rank and probability of every item"
    else:
        three = {} if items == PAPER_ITEMS else {"consensuses": 3}
        found = bmcd.simulate(users, items, seed=seed, **three | settings)
        kind, mean, of = "clusters", 5.0, "each user's cluster, and the rank of every item"
    n, scale = len(found.rho), float(found.alpha[0])
    _write_clicks(found.clicks, target)
    if true_target is not None:
        write_frame(_truth_of_tastes(found) if model == "tastes" else _truth(found), true_target)
    facts |= {"truth": truth, f"n_{kind}": n, "alpha": scale, "mean_clicks": settings.get("mean_clicks", mean)}
    say(f"Simulated {n} {kind}, alpha {scale:g}, seed {seed}:", style="bold")
    say(found.clicks.summary())
    say(f"\nClicks: {output}")
    if truth is not None:
        say(f"Truth:  {truth} ({of}; 1 is best)")
    if target.suffix.lower() != ".json":
        say(f"Next:   bmcd fit {output} -o model.bmcd --model {model} --{kind} {n}")
    return {**facts, "n_clicks": found.clicks.n_clicks}


def _write_clicks(clicks: Clicks, target: Path) -> None:
    """Write one row per click, some users at a time."""
    with open_table(target, raw=True) as write, counting(None, "users", clicks.n_users) as show:
        for first in range(0, clicks.n_users, CHUNK):
            last = min(first + CHUNK, clicks.n_users)
            write(clicks.of_users(range(first, last)).to_frame())
            show(last)


def _write_log(target: Path, days: int, hours: Iterator[dict[str, Any]]) -> int:
    """Write a simulated log, a day at a time; return the number of clicks."""
    import pandas as pd

    n = 0
    with open_table(target, raw=True) as write, counting(None, "days", days) as show:
        for day in range(days):
            rows = pd.concat([pd.DataFrame(hour) for hour in islice(hours, 24)])
            write(rows)
            n += len(rows)
            show(day + 1)
    return n


def _truth(found: Any) -> Any:
    """Return one row per user and item; clusters count from 1, as in `bmcd clusters`."""
    import numpy as np
    import pandas as pd

    n_users, n_items = found.ranks.shape
    return pd.DataFrame(
        {
            "user": np.repeat(found.clicks.users, n_items),
            "cluster": np.repeat(found.labels + 1, n_items),
            "item": np.tile(found.clicks.items, n_users),
            "rank": found.ranks.ravel(),
            "consensus_rank": found.rho[found.labels].ravel(),
            "clicked": found.clicks.matrix.toarray().astype(np.int64).ravel(),
        }
    )


def _truth_of_tastes(found: Any) -> Any:
    """Return one row per taste and item; tastes count from 1."""
    import numpy as np
    import pandas as pd

    n_tastes, n_items = found.rho.shape
    return pd.DataFrame(
        {
            "taste": np.repeat(np.arange(1, n_tastes + 1), n_items),
            "item": np.tile(found.clicks.items, n_tastes),
            "rank": found.rho.ravel(),
            "probability": found.first_items.T.ravel(),
        }
    )
