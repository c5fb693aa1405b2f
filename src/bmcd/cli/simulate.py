"""`bmcd simulate`: clicks whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bmcd.cli.options import AsJson, Seed
from bmcd.cli.output import TABLES, check_output, open_table, print_json, say, write_frame
from bmcd.progress import counting

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.inference.tastes.simulation import TasteSimulation
    from bmcd.simulation import Simulation

PAPER_ITEMS = 50
# Users whose clicks are in memory as a frame at a time.
CHUNK = 50_000
# The options that each model takes, besides users, items and seed.
TAKES = {
    "bmcd": ("clusters", "alpha", "mean_clicks", "truth"),
    "tastes": ("tastes", "alpha", "mean_clicks", "truth"),
    "sessions": ("days", "mean_clicks", "follow", "repeats", "drift"),
    "log": ("days", "mean_clicks"),
}


def simulate(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the clicks go: a .csv, .parquet or .json file.")
    ],
    users: Annotated[int, typer.Option(min=1, help="How many users.")] = 3000,
    items: Annotated[int, typer.Option(min=1, help="How many items.")] = PAPER_ITEMS,
    model: Annotated[
        Literal["bmcd", "tastes", "sessions", "log"],
        typer.Option(
            help="bmcd: one cluster per user, as in the paper's study; tastes: several tastes; sessions: clicks in "
            "order, with times; log: a large log with times and items that come and go."
        ),
    ] = "bmcd",
    tastes: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many tastes (--model tastes), with consensus rankings at random. By default 40."
        ),
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many clusters, with consensus rankings at random. Without: three, and with 50 items those "
            "of the paper.",
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="How closely users follow their consensus; 0: not at all. By default 3; tastes: 20."
        ),
    ] = None,
    mean_clicks: Annotated[
        float | None,
        typer.Option(
            help="Mean number of clicks of a user, about. By default 5; tastes: 10; log: 20; of a session: 6."
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(min=1, help="How many days. By default 7 (--model sessions) or 30 (--model log).")
    ] = None,
    follow: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            help="Share of clicks that follow the click before (--model sessions). By default 0.5.",
        ),
    ] = None,
    repeats: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Share of repeated clicks (--model sessions). By default 0."),
    ] = None,
    drift: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="How much log popularity changes from day to day (--model sessions). By default 0.3."
        ),
    ] = None,
    seed: Seed = 0,
    truth: Annotated[
        Path | None,
        typer.Option(help="Where the truth goes: every user's cluster and full ranking (.csv, .parquet, .json)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Simulate clicks, to try things where the truth is known.

    As in the paper's study each user has a ranking of all items, drawn around the consensus of a cluster, and
    clicks the best of it. With --model tastes a user has several tastes, and there may be millions of users. With
    --model sessions clicks have times: a click follows from the one before it, or repeats an earlier one, or goes
    to what is popular on that day. With --model log the log may be of any size: it is written hour by hour.
    """
    given = {
        "tastes": tastes, "clusters": clusters, "alpha": alpha, "truth": truth, "days": days, "follow": follow,
        "repeats": repeats, "drift": drift, "mean_clicks": mean_clicks,
    }  # fmt: skip
    if wrong := [name for name, value in given.items() if value is not None and name not in TAKES[model]]:
        raise typer.BadParameter(f"--model {model} does not take --{', --'.join(wrong)}.")
    options: dict[str, Any] = {
        name: given[name]
        for name in ("alpha", "mean_clicks", "follow", "repeats", "drift")
        if given[name] is not None
    }
    if model == "sessions":
        _simulate_sessions(
            users, items, options | ({} if days is None else {"n_days": days}), seed, output, as_json
        )
        return
    target = check_output(output, TABLES)
    true_target = None if truth is None else check_output(truth, TABLES, but_not=[output])
    import bmcd

    if model == "log":
        n_days, per_user = 30 if days is None else days, 20.0 if mean_clicks is None else mean_clicks
        n_clicks = _write_log(target, users, items, per_user, n_days, seed)
        if as_json:
            sizes = {"n_users": users, "n_items": items, "n_clicks": n_clicks, "days": n_days}
            print_json({"clicks": output, **sizes, "mean_clicks": per_user, "seed": seed})
        else:
            say(f"Simulated {n_clicks:,} clicks in {n_days} days, seed {seed}: {output}")
            say(f"Next:   bmcd fit {output} -o model.bmcd --refresh 1h --last 72h")
        return
    found: Simulation | TasteSimulation
    if model == "tastes":
        what, options["n_tastes"] = "tastes", 40 if tastes is None else tastes
        found = bmcd.simulate_tastes(users, items, seed=seed, **options)
        how, next_step = " --model tastes", f" --model tastes --tastes {len(found.rho)}"
    else:
        what, options["consensuses"] = "clusters", 3 if clusters is None and items != PAPER_ITEMS else clusters
        found = bmcd.simulate(users, items, seed=seed, **options)
        how, next_step = "", f" --model bmcd --clusters {len(found.rho)}"
    _write_clicks(found.clicks, target)
    if true_target is not None:
        write_frame(_truth(found) if isinstance(found, bmcd.Simulation) else _truth_of_tastes(found), true_target)
    scale, mean = float(found.alpha[0]), options.get("mean_clicks", 10.0 if how else 5.0)
    if as_json:
        files = {"clicks": output, "truth": truth}
        sizes = {
            "n_users": users,
            "n_items": items,
            f"n_{what}": len(found.rho),
            "n_clicks": found.clicks.n_clicks,
        }
        print_json({**files, **sizes, "alpha": scale, "mean_clicks": mean, "seed": seed})
        return
    say(f"Simulated {len(found.rho)} {what}, alpha {scale:g}, seed {seed}:", style="bold")
    say(found.clicks.summary())
    say(f"\nClicks: {output}")
    if truth is not None:
        of = (
            "each taste's rank and probability of every item"
            if how
            else "each user's cluster, and the rank of every item"
        )
        say(f"Truth:  {truth} ({of}; 1 is best)")
    if target.suffix.lower() != ".json":
        say(f"Next:   bmcd fit {output} -o model.bmcd{next_step}")


def _simulate_sessions(
    users: int, items: int, options: dict[str, Any], seed: int, output: Path, as_json: bool
) -> None:
    """Write clicks with times."""
    target = check_output(output, TABLES)
    import bmcd

    found = bmcd.simulate_sessions(users, items, seed=seed, **options)
    _write_clicks(found.clicks, target)
    if as_json:
        sizes = {"n_users": users, "n_items": items, "n_clicks": found.clicks.n_clicks}
        print_json({"clicks": output, **sizes, **options, "seed": seed})
        return
    say(f"Simulated sessions in order, seed {seed}:", style="bold")
    say(found.clicks.summary())
    say(f"\nClicks: {output}")
    if target.suffix.lower() != ".json":
        say(f"Next:   bmcd fit {output} -o model.bmcd")


def _write_clicks(clicks: Clicks, target: Path) -> None:
    """Write one row a click, some users at a time."""
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


def _truth(found: Simulation) -> Any:
    """One row for each user and item; clusters count from 1, as in `bmcd clusters`."""
    import numpy as np
    import pandas as pd

    n_users, n_items = found.ranks.shape
    clicked = found.clicks.matrix.toarray().astype(np.int64)
    return pd.DataFrame(
        {
            "user": np.repeat(found.clicks.users, n_items),
            "cluster": np.repeat(found.labels + 1, n_items),
            "item": np.tile(found.clicks.items, n_users),
            "rank": found.ranks.ravel(),
            "consensus_rank": found.rho[found.labels].ravel(),
            "clicked": clicked.ravel(),
        }
    )


def _truth_of_tastes(found: TasteSimulation) -> Any:
    """One row for each taste and item; tastes count from 1."""
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
