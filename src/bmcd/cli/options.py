"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bmcd.clicks.item_table import ItemTable
    from bmcd.models.list_rules import ListRules

GROUPS = "Groups of items"

Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", min=1, help="The number of next clicks that a probability refers to. By default that of -k."
    ),
]


def _groups(name: str, text: str, **more: Any) -> Any:
    return typer.Option(name, rich_help_panel=GROUPS, help=text, **more)


Only = Annotated[
    list[str] | None,
    _groups(
        "--only",
        "Recommend only items of these groups: section=sports; another group of the column with a comma or again, "
        "numbers as price=10..20.",
    ),
]
Never = Annotated[list[str] | None, _groups("--never", "Recommend no items of these groups.")]
Group = Annotated[str | None, _groups("--group", "The column that rules are about; by default the first one.")]
AtMost = Annotated[int | None, _groups("--at-most", "At most this number of items of a group in a list.", min=1)]
AtLeastGroups = Annotated[
    int | None, _groups("--at-least-groups", "At least this number of groups in a list.", min=1)
]
Shares = Annotated[list[str] | None, _groups("--share", "At least this share of a group in a list: local=0.2.")]
Worth = Annotated[
    float, _groups("--worth", "How many expected hits another group in a list is worth, such as 0.02.", min=0.0)
]


def filters(given: list[str] | None, option: str, table: ItemTable | None) -> dict[str, Any] | None:
    """Return groups by column, of options such as section=sports,news and price=10..20."""
    from bmcd.cli.ids import ids_in

    found: dict[str, Any] = {}
    for text in given or ():
        column, mark, values = text.partition("=")
        column = column.strip()
        if not mark or not values.strip():
            raise typer.BadParameter(f"{option} must be a column and groups, such as section=sports, not {text!r}.")
        low, dots, high = values.partition("..")
        if dots and table is not None and column in table.numbers:
            found[column] = [_number(low, option), _number(high, option)]
        else:
            found.setdefault(column, []).extend(ids_in(values))
    return found or None


def list_rules(
    group: str | None, at_most: int | None, at_least: int | None, shares: list[str] | None, worth: float
) -> ListRules | None:
    """Return the rules that options ask for, or None if they ask for none."""
    from bmcd.models.list_rules import ListRules

    found = {}
    for text in shares or ():
        name, mark, value = text.rpartition("=")
        if not mark or (share := _number(value, "--share")) is None:
            raise typer.BadParameter(f"--share must be a group and a share, such as local=0.2, not {text!r}.")
        found[name.strip()] = share
    if at_most is None and at_least is None and not found and not worth:
        if group is not None:
            raise typer.BadParameter("--group goes with --at-most, --at-least-groups, --share or --worth.")
        return None
    return ListRules(group, at_most, at_least, found or None, worth)


def _number(text: str, option: str) -> float | None:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{option}: {text.strip()!r} is not a number.") from None
