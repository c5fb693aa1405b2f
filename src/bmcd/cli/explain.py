"""`bmcd explain`: why an item has the probability it has."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.ids import ids_in, own_ids
from bmcd.cli.options import Horizon
from bmcd.cli.output import print_json, say


def explain(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    user: Annotated[str, typer.Argument(help="The user's id; with --history any name.")],
    item: Annotated[str, typer.Argument(help="The item's id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="The probability of being among the next k.")] = 10,
    horizon: Horizon = None,
    history: Annotated[
        str | None,
        typer.Option(help="Someone the model has not seen: the items they clicked, such as A13,A16; may be ''."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Explain a probability: reasons and members of a blend, or the contribution of each cluster or taste."""
    from bmcd.cli.recommend import wanted_users
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
    if as_json:
        print_json({"model": model, **asdict(found)})
    else:
        say(found)
