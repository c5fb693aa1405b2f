"""`bmcd split`: a click log into a part to learn from and a part to test on."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.log_files import (
    DATA,
    USUAL,
    AtLeast,
    Layout,
    MostClicked,
    TextIds,
    bundled,
    narrowed,
    with_layout,
)
from bmcd.cli.output import check_output, print_json, say, write_frames

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

READABLE = (".csv", ".parquet")  # what `bmcd fit` can read again


class By(StrEnum):
    """Those of `Clicks.hold_out`."""

    chance = "chance"
    time = "time"


class TooFew(StrEnum):
    """Those of `Clicks.hold_out`."""

    error = "error"
    drop = "drop"


@with_layout
def split(
    clicks: Annotated[
        str,
        typer.Argument(
            metavar="CLICKS", help="A csv, tsv or parquet file, also .gz; or bundled data: eshop, msweb, msweb-all."
        ),
    ],
    train: Annotated[Path, typer.Option("--train", help="Where the clicks to learn from go: .csv or .parquet")],
    test: Annotated[Path, typer.Option("--test", help="Where the clicks held out go: .csv or .parquet")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many clicks of each user to hold out.")] = 5,
    by: Annotated[By, typer.Option(help="time: each user's last clicks; chance: random ones.")] = By.chance,
    keep: Annotated[int, typer.Option(min=0, help="How many clicks each user must keep to learn from.")] = 1,
    too_few: Annotated[
        TooFew, typer.Option(help="Users with fewer than -k and --keep: an error, or left out.")
    ] = TooFew.error,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same split.")] = 0,
    title_column: Annotated[
        str | None, typer.Option(rich_help_panel=DATA, help="A column of titles, which are kept.")
    ] = None,
    layout: Layout = USUAL,
    text_ids: TextIds = False,
    most_clicked: MostClicked = None,
    at_least: AtLeast = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Hold out some clicks of each user, to see later how well they are foretold.

    Both files have the columns of the log that were read, under the same names. A click that is repeated counts
    once, at its first time.
    """
    targets = [
        check_output(train, READABLE, but_not=[clicks]),
        check_output(test, READABLE, but_not=[clicks, train]),
    ]
    if by is By.time and layout.order is None:
        layout = layout._replace(time_column=layout.time_column or "time")
    data = bundled(clicks)
    if data is None:
        data = layout.read(clicks, title_column=title_column, text_ids=text_ids)
    data = narrowed(data, most_clicked, at_least)
    parts = data.hold_out(k, seed, by=by.value, keep=keep, too_few=too_few.value)
    names = {"user": layout.user_column, "item": layout.item_column, "title": title_column or "title"}
    names |= {"time": layout.time_column or "time", "session": layout.session_column or "session"}
    frames = [part.to_frame("pandas").rename(columns=names) for part in parts]
    write_frames(dict(zip(targets, frames, strict=True)), raw=True)  # what is read again must have the same ids
    unseen = int(((parts[0].per_item == 0) & (parts[1].per_item > 0)).sum())
    if as_json:
        print_json(_facts(data, parts, train, test, unseen) | {"k": k, "by": by.value, "seed": seed})
        return
    say(f"{clicks}:", style="bold")
    say(data.summary())
    say(f"\n{parts[0].history[-1]}.")
    say(f"Train: {train} ({parts[0].n_users:,} users, {parts[0].n_clicks:,} clicks)")
    say(f"Test:  {test} ({parts[1].n_users:,} users, {parts[1].n_clicks:,} clicks)")
    if unseen:
        say(f"{unseen:,} items have no clicks left in {train}: no model can recommend them.")
    options = layout.words()
    titled = [] if title_column is None else ["--title-column", title_column]
    ignored = ["--ignore-unknown"] if unseen else []
    say("Next: " + shlex.join(["bmcd", "fit", str(train), "-o", "model.bmcd", *options, *titled]))
    say("      " + shlex.join(["bmcd", "evaluate", "model.bmcd", str(test), "-k", str(k), *options, *ignored]))


def _facts(data: Clicks, parts: tuple[Clicks, Clicks], train: Path, test: Path, unseen: int) -> dict[str, Any]:
    numbers = {"n_users": parts[0].n_users, "n_train": parts[0].n_clicks, "n_test": parts[1].n_clicks}
    return {"train": train, "test": test, "data": data.summary(), **numbers, "n_items_only_in_test": unseen}
