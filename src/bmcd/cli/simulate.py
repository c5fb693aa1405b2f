"""`bmcd simulate`: clicks whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.output import TABLES, check_output, print_json, say, write_frame

if TYPE_CHECKING:
    from bmcd.simulation import Simulation

PAPER_ITEMS = 50


def simulate(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the clicks go: a .csv, .parquet or .json file.")
    ],
    users: Annotated[int, typer.Option(min=1, help="How many users.")] = 3000,
    items: Annotated[int, typer.Option(min=1, help="How many items.")] = PAPER_ITEMS,
    clusters: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many clusters, with consensus rankings at random. Without: three, and with 50 items those "
            "of the paper.",
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(min=0.0, help="How closely users follow their consensus; 0: not at all.")
    ] = 3.0,
    mean_clicks: Annotated[float, typer.Option(help="Mean number of clicks of a user, about.")] = 5.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same clicks.")] = 0,
    truth: Annotated[
        Path | None,
        typer.Option(help="Where the truth goes: every user's cluster and full ranking (.csv, .parquet, .json)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate clicks as in the paper's study, to try things where the truth is known.

    Each user has a ranking of all items, drawn around the consensus of a cluster, and clicks the best of it.
    """
    target = check_output(output, TABLES)
    true_target = None if truth is None else check_output(truth, TABLES, but_not=[output])
    import bmcd

    consensuses = 3 if clusters is None and items != PAPER_ITEMS else clusters
    found = bmcd.simulate(users, items, consensuses=consensuses, alpha=alpha, mean_clicks=mean_clicks, seed=seed)
    write_frame(found.clicks.to_frame(), target)
    if true_target is not None:
        write_frame(_truth(found), true_target)
    if as_json:
        files = {"clicks": output, "truth": truth}
        sizes = {
            "n_users": users,
            "n_items": items,
            "n_clusters": len(found.rho),
            "n_clicks": found.clicks.n_clicks,
        }
        print_json({**files, **sizes, "alpha": alpha, "mean_clicks": mean_clicks, "seed": seed})
        return
    say(f"Simulated {len(found.rho)} clusters, alpha {alpha:g}, seed {seed}:", style="bold")
    say(found.clicks.summary())
    say(f"\nClicks: {output}")
    if truth is not None:
        say(f"Truth:  {truth} (each user's cluster, and the rank of every item; 1 is best)")
    if target.suffix.lower() != ".json":
        say(f"Next:   bmcd fit {output} -o model.bmcd --clusters {len(found.rho)}")


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
