"""`bmcd clusters`: what each cluster of users is like, by the titles of its items."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bmcd.cli.output import TABLES, check_output, console, plain, print_json, say, write_frame

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.clusters.summary import ClusterSummaries, RankedItem


def clusters(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    top: Annotated[int, typer.Option(min=1, max=10, help="How many items of each consensus to print.")] = 5,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a .csv, .parquet or .json file instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the clusters, the largest first: how many users, the best items, and what sets them apart."""
    target = None if output is None else check_output(output, TABLES, [model])
    import bmcd

    found = bmcd.load(model).clusters_
    if target is not None:
        write_frame(found.to_frame(), target)
    if as_json:
        parts = {} if target is not None else {"clusters": [asdict(cluster) for cluster in found]}
        print_json({"model": model, "n_clusters": len(found), "file": output, **parts})
    elif target is not None:
        say(f"{len(found)} clusters: {output}")
    else:
        console().print(cluster_table(found, top))
        say("alpha: how closely users follow the consensus; 0: not at all")
        say("agree: do the chains agree on the consensus? 0%: no more than by chance")


def cluster_table(found: ClusterSummaries, top: int) -> Table:
    """One row for each cluster."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    for name in ("", "users", "alpha", "agree"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("best items of the consensus", ratio=1)
    table.add_column("set apart by", ratio=1)

    def titles(items: tuple[RankedItem, ...]) -> str:
        return ", ".join(plain(item.title) for item in items[:top])

    for c in found:
        cells = (str(c.cluster), f"{c.n_users:,.0f} ({c.share:.0%})", f"{c.alpha:.2f}", f"{c.agreement:.0%}")
        table.add_row(*(Text(cell) for cell in (*cells, titles(c.top), titles(c.apart))))
    return table
