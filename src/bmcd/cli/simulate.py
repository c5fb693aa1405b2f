"""`bmcd simulate`: clicks whose true parameters are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bmcd.cli.options import AsJson, Seed, option
from bmcd.cli.output import TABLES, check_output, open_table, print_json, say, write_frame
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
    "sessions": ("days", "mean_clicks", "follow", "repeats", "drift"),
    "log": ("days", "mean_clicks"),
}
ARGUMENTS = {"tastes": "n_tastes", "clusters": "consensuses", "days": "n_days"}


def simulate(
    output: Annotated[Path, option("The file for the clicks: .csv, .parquet or .json.", "--output", "-o")],
    users: Annotated[int, option("The number of users.", min=1)] = 3000,
    items: Annotated[int, option("The number of items.", min=1)] = PAPER_ITEMS,
    model: Annotated[
        Literal["bmcd", "tastes", "sessions", "log"],
        option(
            "bmcd: one cluster per user, as in the paper's study; tastes: several tastes; sessions: clicks in "
            "order, with times; log: a large log with times and items that come and go."
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
        option("Approximate mean number of clicks per user. Default: 5; tastes: 10; log: 20; per session: 6."),
    ] = None,
    days: Annotated[int | None, option("Number of days. Default: 7 (sessions) or 30 (log).", min=1)] = None,
    follow: Annotated[
        float | None,
        option("Share of clicks that follow the previous click (sessions). Default: 0.5.", min=0.0, max=1.0),
    ] = None,
    repeats: Annotated[
        float | None, option("Share of repeated clicks (sessions). Default: 0.", min=0.0, max=1.0)
    ] = None,
    drift: Annotated[
        float | None, option("Daily change of log popularity (sessions). Default: 0.3.", min=0.0)
    ] = None,
    seed: Seed = 0,
    truth: Annotated[
        Path | None, option("The file for each user's cluster and full ranking (.csv, .parquet, .json).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate clicks whose true parameters are known.

    As in the paper's study each user has a ranking of all items, drawn around the consensus of a cluster, and
    clicks the best of it. With --model tastes a user has several tastes, and there may be millions of users. With
    --model sessions clicks have times: a click follows from the previous one, repeats an earlier one, or goes to an
    item that is popular on that day. With --model log the log may be of any size: it is written hour by hour.
    """
    given = {
        "tastes": tastes, "clusters": clusters, "alpha": alpha, "truth": truth, "days": days, "follow": follow,
        "repeats": repeats, "drift": drift, "mean_clicks": mean_clicks,
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
        n_days, mean = settings.get("n_days", 30), settings.get("mean_clicks", 20.0)
        n_clicks = _write_log(target, users, items, mean, n_days, seed)
        facts |= {"n_clicks": n_clicks, "days": n_days, "mean_clicks": mean}
        if as_json:
            print_json(facts)
        else:
            say(f"Simulated {n_clicks:,} clicks in {n_days} days, seed {seed}: {output}")
            say(f"Next:   bmcd fit {output} -o model.bmcd --refresh 1h --last 72h")
        return
    found: Any
    fit_options = of = ""
    if model == "sessions":
        found = bmcd.simulate_sessions(users, items, seed=seed, **settings)
        facts |= settings
        what = "sessions in order"
    elif model == "tastes":
        found = bmcd.simulate_tastes(users, items, seed=seed, **{"n_tastes": 40} | settings)
        fit_options, of = (
            f" --model tastes --tastes {len(found.rho)}",
            "each taste's rank and probability of every item",
        )
    else:
        three = {} if items == PAPER_ITEMS else {"consensuses": 3}
        found = bmcd.simulate(users, items, seed=seed, **three | settings)
        fit_options, of = (
            f" --model bmcd --clusters {len(found.rho)}",
            "each user's cluster, and the rank of every item",
        )
    if model != "sessions":
        kind, n, scale = "tastes" if model == "tastes" else "clusters", len(found.rho), float(found.alpha[0])
        mean = settings.get("mean_clicks", 10.0 if model == "tastes" else 5.0)
        facts |= {"truth": truth, f"n_{kind}": n, "alpha": scale, "mean_clicks": mean}
        what = f"{n} {kind}, alpha {scale:g}"
    _write_clicks(found.clicks, target)
    if true_target is not None:
        write_frame(_truth_of_tastes(found) if model == "tastes" else _truth(found), true_target)
    if as_json:
        print_json(facts | {"n_clicks": found.clicks.n_clicks})
        return
    say(f"Simulated {what}, seed {seed}:", style="bold")
    say(found.clicks.summary())
    say(f"\nClicks: {output}")
    if truth is not None:
        say(f"Truth:  {truth} ({of}; 1 is best)")
    if target.suffix.lower() != ".json":
        say(f"Next:   bmcd fit {output} -o model.bmcd{fit_options}")


def _write_clicks(clicks: Clicks, target: Path) -> None:
    """Write one row per click, some users at a time."""
    with open_table(target, raw=True) as write, counting(None, "users", clicks.n_users) as show:
        for first in range(0, clicks.n_users, CHUNK):
            last = min(first + CHUNK, clicks.n_users)
            write(clicks.of_users(range(first, last)).to_frame())
            show(last)


def _write_log(target: Path, users: int, items: int, mean_clicks: float, days: int, seed: int) -> int:
    """Write a log of clicks with times, a day at a time; return the number of clicks."""
    import numpy as np
    import pandas as pd

    from bmcd.simulation import simulate_log

    n, parts = 0, []
    hours = simulate_log(users, items, mean_clicks=mean_clicks, days=days, seed=seed)
    with open_table(target, raw=True) as write, counting(None, "hours", 24 * days) as show:
        for hour, rows in enumerate(hours, 1):
            parts.append(rows)
            if hour % 24 == 0:
                day = {name: np.concatenate([part[name] for part in parts]) for name in rows}
                write(pd.DataFrame(day))
                n, parts = n + len(day["item"]), []
                show(hour)
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
