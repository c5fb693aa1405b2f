"""The options of every command that reads a file of clicks, and how it is read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from bmcd.cli.output import complain

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

DATA = "Data"


class Missing(StrEnum):
    """What to do about rows that lack a user, an item or a time."""

    error = "error"
    drop = "drop"


class Order(StrEnum):
    """Where the order of the clicks comes from."""

    time = "time"
    rows = "rows"
    none = "none"


def _option(name: str, text: str) -> Any:
    return typer.Option(name, rich_help_panel=DATA, help=text)


TextIds = Annotated[bool, typer.Option("--text-ids", rich_help_panel=DATA, help="Keep ids such as 12 as text.")]
MostClicked = Annotated[
    int | None,
    typer.Option("--most-clicked", rich_help_panel=DATA, min=1, help="Keep this number of the most clicked items."),
]
AtLeast = Annotated[
    int | None,
    typer.Option(
        "--at-least", rich_help_panel=DATA, min=1, help="Then keep users with at least this number of clicks."
    ),
]
IgnoreUnknown = Annotated[
    bool,
    typer.Option(
        "--ignore-unknown",
        rich_help_panel=DATA,
        help="Leave out clicks on items, and users, that the model does not know.",
    ),
]


class Layout(NamedTuple):
    """How a file of clicks is written; every field is an option of commands that read one (see `with_layout`)."""

    user_column: Annotated[str, _option("--user-column", "The column with the users.")] = "user"
    item_column: Annotated[str, _option("--item-column", "The column with the items.")] = "item"
    time_column: Annotated[
        str | None, _option("--time-column", "The column with the times. By default time, if there is one.")
    ] = None
    order: Annotated[
        Order | None,
        _option("--order", "time, rows (the order of the rows) or none. By default time, if there are times."),
    ] = None
    session_column: Annotated[
        str | None, _option("--session-column", "The column with the sessions, if --session-gap is not to decide.")
    ] = None
    session_gap: Annotated[
        str, _option("--session-gap", "A new session begins after such a time without clicks.")
    ] = "30min"
    delimiter: Annotated[
        str | None,
        _option("--delimiter", "The character between columns (tab for a tab), if it is not found by itself."),
    ] = None
    encoding: Annotated[
        str | None, _option("--encoding", "Such as latin-1. By default that of the byte-order mark, else utf-8.")
    ] = None
    missing: Annotated[
        Missing, _option("--missing", "drop: leave out and count rows without a user, an item or a time.")
    ] = Missing.error

    @property
    def mark(self) -> str | None:
        r"""The delimiter; a tab is hard to type.

        >>> Layout(delimiter="tab").mark, Layout(delimiter="\\t").mark, Layout().mark
        ('\t', '\t', None)
        """
        return "\t" if self.delimiter in ("\\t", "tab") else self.delimiter

    def read(self, file: Path | str, titles: Path | None = None, **options: Any) -> Clicks:
        """Read a file of clicks."""
        import bmcd

        own = self._asdict() | {"delimiter": self.mark, "missing": self.missing.value}
        own |= {"order": None if self.order is None else self.order.value}
        return bmcd.read_clicks(file, own.pop("user_column"), own.pop("item_column"), titles, **own | options)

    def ordered(self, file: Path | str) -> Layout:
        """Return a layout that takes the order of the rows if the file has no times and no other order is given."""
        return self if self.order is not None or self.read(file).order else self._replace(order=Order.rows)

    def words(self) -> list[str]:
        """Return the options with which a file that this package writes is read in the same way.

        >>> Layout(user_column="who", order=Order.rows, delimiter=";").words()
        ['--user-column', 'who', '--order', 'rows']
        """
        how = self._replace(delimiter=None, encoding=None, missing=Missing.error)
        usual = Layout()._asdict()
        given = {name: value for name, value in how._asdict().items() if value != usual[name]}
        return [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), str(value))]

    def read_aloud(self, file: Path | str, **options: Any) -> Clicks:
        """Read a file of clicks, and print on standard error what was done to it."""
        clicks = self.read(file, **options)
        for step in clicks.history:
            complain(f"{file}: {step}.", "note: ")
        return clicks


USUAL = Layout()


def with_layout(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of a `Layout` in place of its parameter ``layout``."""

    @functools.wraps(command)
    def run(**options: Any) -> None:
        layout = Layout(**{name: options.pop(name) for name in Layout._fields})
        command(layout=layout, **options)

    parameters = []
    hints = get_type_hints(Layout, include_extras=True)
    for one in inspect.signature(command, eval_str=True).parameters.values():
        if one.name != "layout":
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        for name, default in Layout()._asdict().items():
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
            )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def bundled(name: str) -> Clicks | None:
    """Return the bundled data of that name, unless there is a file of that name."""
    import bmcd
    from bmcd.clicks.datasets import DATASETS

    return bmcd.load_dataset(name) if name in DATASETS and not Path(name).exists() else None


def narrowed(clicks: Clicks, most_clicked: int | None, at_least: int | None) -> Clicks:
    """Keep the most clicked items, then the users with enough clicks."""
    if most_clicked is not None:
        clicks = clicks.most_clicked(most_clicked)
    return clicks if at_least is None else clicks.at_least(at_least)
