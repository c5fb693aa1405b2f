"""Files of clicks: the options of every command that reads one, and how it is read."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bmcd.cli.names import OrderName
from bmcd.cli.output import complain

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

DATA = "Data"


class Missing(StrEnum):
    """What to do about rows that lack something."""

    error = "error"
    drop = "drop"


UserColumn = Annotated[
    str, typer.Option("--user-column", rich_help_panel=DATA, help="The column that says who clicked.")
]
ItemColumn = Annotated[
    str, typer.Option("--item-column", rich_help_panel=DATA, help="The column that says what was clicked.")
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time-column",
        rich_help_panel=DATA,
        help="The column with the times of the clicks. By default time, if there is one.",
    ),
]
Order = Annotated[
    OrderName | None,
    typer.Option(
        "--order",
        rich_help_panel=DATA,
        help="The order of the clicks: time; rows, as they stand in the file; or none. By default time, if given.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        rich_help_panel=DATA,
        help="What stands between columns (tab for a tab), if the extension and the header do not show it.",
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        rich_help_panel=DATA,
        help="Such as latin-1. By default that of the byte-order mark, or else utf-8.",
    ),
]
MissingRows = Annotated[
    Missing,
    typer.Option(
        "--missing", rich_help_panel=DATA, help="drop: leave out and count rows without a user or an item."
    ),
]
TextIds = Annotated[bool, typer.Option("--text-ids", rich_help_panel=DATA, help="Keep ids such as 12 as text.")]
MostClicked = Annotated[
    int | None,
    typer.Option("--most-clicked", rich_help_panel=DATA, min=1, help="Keep so many of the most clicked items."),
]
AtLeast = Annotated[
    int | None, typer.Option("--at-least", rich_help_panel=DATA, min=1, help="Then keep users with so many clicks.")
]
IgnoreUnknown = Annotated[
    bool,
    typer.Option("--ignore-unknown", rich_help_panel=DATA, help="Leave out clicks that the model cannot know."),
]


class Layout(NamedTuple):
    """How a file of clicks is written."""

    user: str = "user"
    item: str = "item"
    delimiter: str | None = None
    encoding: str | None = None
    missing: Missing = Missing.error

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

        options |= {"delimiter": self.mark, "encoding": self.encoding, "missing": self.missing.value}
        return bmcd.read_clicks(file, self.user, self.item, titles, **options)

    def read_aloud(self, file: Path | str) -> Clicks:
        """Read a file of clicks, and say on standard error what was done to it."""
        clicks = self.read(file)
        for step in clicks.history:
            complain(f"{file}: {step}.", "note: ")
        return clicks


def bundled(name: str) -> Clicks | None:
    """The data of that name that come with the package, unless there is such a file."""
    import bmcd
    from bmcd.clicks.datasets import DATASETS

    return bmcd.load_dataset(name) if name in DATASETS and not Path(name).exists() else None


def narrowed(clicks: Clicks, most_clicked: int | None, at_least: int | None) -> Clicks:
    """Keep the items and the users asked for."""
    if most_clicked is not None:
        clicks = clicks.most_clicked(most_clicked)
    return clicks if at_least is None else clicks.at_least(at_least)
