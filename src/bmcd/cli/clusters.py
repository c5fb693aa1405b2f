"""`bmcd clusters`: the clusters of users, by the titles of their items."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.options import ModelFile, Output, RawCells, option
from bmcd.cli.output import TABLES, check_output, console, open_table, say, write_frame
from bmcd.progress import counting
from bmcd.utils import plain

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.models.clusters import ClusterSummaries, RankedItem
    from bmcd.models.persistence import Model

# Users whose memberships are in memory at a time.
CHUNK = 5_000


def clusters(
    model: ModelFile,
    top: Annotated[int, option("The number of items of each consensus to print.", min=1, max=10)] = 5,
    output: Output = None,
    users: Annotated[
        Path | None, option("Write each user's cluster and probabilities to a .csv, .parquet or .json file.")
    ] = None,
    name: Annotated[
        list[str] | None, option("Name a cluster, such as 1=skirts, and store it in the model; may be repeated.")
    ] = None,
    raw: RawCells = False,
) -> dict[str, Any]:
    """Show the clusters, the largest first: the number of users, the best items, and the most distinctive ones.

    A name in parentheses is a suggestion; --name stores another in the model.
    """
    names = dict(_number_and_name(text) for text in name or ())
    target = None if output is None else check_output(output, TABLES, [model])
    of_users = None if users is None else check_output(users, TABLES, [model, output])
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    if names:
        fitted.name_clusters(names).save(model)
    found = fitted.clusters_
    facts: dict[str, Any] = {"model": model, "n_clusters": len(found), "file": output}
    if target is not None:
        write_frame(found.to_frame(), target, raw=raw)
        say(f"{len(found)} clusters: {output}")
    else:
        facts["clusters"] = [asdict(c) for c in found]
    if of_users is not None:
        n_users = write_memberships(fitted, of_users, raw=raw)
        say(f"{n_users:,} users and their clusters: {users}")
        facts |= {"users_file": users, "n_users": n_users}
    if target is None and of_users is None:
        console().print(cluster_table(found, top))
        say("alpha: how closely users follow the consensus (0: not at all)")
        say("agree: agreement of the chains on the consensus (0%: no more than by chance)")
    return facts


def write_memberships(fitted: Model, path: Path, *, raw: bool = False) -> int:
    """Write one row per user: the likeliest cluster, its name and probability, then those of all clusters."""
    import narwhals as nw
    import numpy as np

    clicks, found = fitted.clicks_with_users(), fitted.clusters_
    names = np.array([c.name or c.suggested_name for c in found], object)
    text = ("user",) if clicks.users.dtype == object else ()
    with open_table(path, text, raw=raw) as write, counting(None, "users", clicks.n_users) as show:
        for first in range(0, clicks.n_users, CHUNK):
            some = clicks.users[first : first + CHUNK]
            frame = nw.from_native(fitted.memberships(some.tolist())).to_pandas()
            weight = frame.drop(columns="user").to_numpy()
            best = weight.argmax(axis=1)
            frame.insert(1, "cluster", best + 1)
            frame.insert(2, "name", names[best])
            frame.insert(3, "probability", weight.max(axis=1))
            write(frame)
            show(first + len(some))
    return clicks.n_users


def _number_and_name(text: str) -> tuple[int, str]:
    number, mark, name = text.partition("=")
    if not (mark and number.strip().isascii() and number.strip().isdigit()):
        raise typer.BadParameter(f"--name must be a number and a name, such as 1=skirts, not {plain(text)!r}.")
    return int(number), name


def cluster_table(found: ClusterSummaries, top: int) -> Table:
    """Return a table with one row per cluster."""
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("name", overflow="fold", max_width=24)
    for name in ("users", "alpha", "agree"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("best items of the consensus", ratio=1)
    table.add_column("set apart by", ratio=1)

    def titles(items: tuple[RankedItem, ...]) -> str:
        return ", ".join(plain(item.title) for item in items[:top])

    for c in found:
        name = plain(c.name) if c.name else f"({plain(c.suggested_name)})"
        cells = (str(c.cluster), name, f"{c.n_users:,.0f} ({c.share:.0%})", f"{c.alpha:.2f}", f"{c.agreement:.0%}")
        table.add_row(*(Text(cell) for cell in (*cells, titles(c.top), titles(c.apart))))
    return table
