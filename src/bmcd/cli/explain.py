"""`bmcd explain` and `bmcd similar`: reasons for a probability, and items that go with an item."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from bmcd.cli.options import Horizon, K, ModelFile, Never, Only, filters, ids_in, option, own_ids
from bmcd.cli.output import print_table, rows_of, say
from bmcd.cli.recommend import wanted_users

Item = Annotated[str, typer.Argument(help="The item's id.")]


def explain(
    model: ModelFile,
    user: Annotated[str, typer.Argument(help="The user's id; with --history any name.")],
    item: Item,
    k: K = 10,
    horizon: Horizon = None,
    history: Annotated[str | None, option("The clicks of a new user, such as A13,A16; may be ''.")] = None,
) -> dict[str, Any]:
    """Explain a probability: reasons and members of a blend, or the contribution of each cluster or taste."""
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    known = fitted.clicks_.items
    asked: dict[str, Any] = {} if horizon is None else {"horizon": horizon}
    own_item = own_ids([item], known, "item", "Explain one of them.")[0]
    if history is not None:
        clicked = own_ids(ids_in(history), known, "item", "Leave out of --history what the model does not know.")
        found = fitted.explain(user, own_item, k, history=clicked, **asked)
    else:
        found = fitted.explain(wanted_users(fitted, [user])[0], own_item, k, **asked)
    say(found)
    return {"model": model, **asdict(found)}


def similar(
    model: ModelFile,
    item: Item,
    k: K = 10,
    only: Only = None,
    never: Never = None,
) -> dict[str, Any]:
    """List the items that are clicked next after this one, by how much it raises their probability."""
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    clicks = fitted.clicks_
    (own,) = own_ids([item], clicks.items, "item", "Similar items are known of items of the model.")
    allowed, refused = (filters(*one, clicks.items_table) for one in ((only, "--only"), (never, "--never")))
    rows = rows_of(fitted.similar(own, k, only=allowed, never=refused))
    if rows:
        say(f"After a click on {clicks.title_of(int(clicks.columns_of([own])[0]))}, the next click:")
        names = ["rank", "item", *(["title"] if "title" in rows[0] else [])]
        cells = [(*map(row.get, names), f"{row['probability']:.1%}", f"{row['lift']:.1f}x") for row in rows]
        print_table(["", *names[1:], "probability", "lift"], cells, left=("item", "title"))
    else:
        say("No item is more probable after a click on this one.")
    return {"model": model, "item": own, "k": k, "similar": rows}
