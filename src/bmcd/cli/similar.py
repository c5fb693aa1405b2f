"""`bmcd similar`: the items that a click on one says most about."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.ids import own_ids
from bmcd.cli.options import Never, Only, filters
from bmcd.cli.output import console, plain, print_json, rows_of, say


def similar(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    item: Annotated[str, typer.Argument(help="The item's id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many items.")] = 10,
    only: Only = None,
    never: Never = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List items that visitors go on to after a click on this one, by how much it raises their probability."""
    from rich.table import Table
    from rich.text import Text

    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    clicks = fitted.clicks_
    (own,) = own_ids([item], clicks.items, "item", "Similar items are known of items of the model.")
    wanted = (filters(given, f"--{name}", clicks.items_table) for name, given in (("only", only), ("never", never)))
    allowed, refused = wanted
    rows = rows_of(fitted.similar(own, k, only=allowed, never=refused))
    if as_json:
        print_json({"model": model, "item": own, "k": k, "similar": rows})
        return
    if not rows:
        say("No item is more probable after a click on this one.")
        return
    say(f"After a click on {clicks.title_of(int(clicks.columns_of([own])[0]))}, the next click:")
    table = Table()
    for heading in ("", "item", *(["title"] if "title" in rows[0] else []), "probability", "lift"):
        table.add_column(heading, justify="left" if heading in ("item", "title") else "right", overflow="fold")
    for row in rows:
        cells = [str(row["rank"]), plain(row["item"]), *([plain(row["title"])] if "title" in row else [])]
        cells += [f"{row['probability']:.1%}", f"{row['lift']:.1f}x"]
        table.add_row(*map(Text, cells))
    console().print(table)
