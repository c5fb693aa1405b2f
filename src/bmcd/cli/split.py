"""`bmcd split`: divide a click log into training and test clicks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

from bmcd.cli import options as opt
from bmcd.cli.options import in_data, option
from bmcd.cli.output import check_output, say, write_frames

READABLE = (".csv", ".parquet")  # which `bmcd fit` can read


def split(
    clicks: opt.Log,
    train: Annotated[Path, option("The file for the training clicks: .csv or .parquet", "--train")],
    test: Annotated[Path, option("The file for the test clicks: .csv or .parquet", "--test")],
    k: Annotated[int, option("The number of clicks of each user to hold out.", "-k", min=1)] = 5,
    by: Annotated[
        Literal["chance", "time"], option("time: each user's last clicks; chance: random ones.")
    ] = "chance",
    keep: Annotated[int, option("The number of training clicks that each user must keep.", min=0)] = 1,
    too_few: Annotated[
        Literal["error", "drop"], option("Users with fewer clicks than -k and --keep: an error, or left out.")
    ] = "error",
    seed: opt.Seed = 0,
    title_column: Annotated[str | None, in_data("A column of titles, which are kept.")] = None,
    layout: opt.Layout = opt.USUAL,
    text_ids: opt.TextIds = False,
    most_clicked: opt.MostClicked = None,
    at_least: opt.AtLeast = None,
) -> dict[str, Any]:
    """Hold out some clicks of each user, to evaluate predictions on them later.

    Both files have the columns of the log that were read, under the same names. A repeated click counts once, at
    its first time.
    """
    targets = [
        check_output(train, READABLE, but_not=[clicks]),
        check_output(test, READABLE, but_not=[clicks, train]),
    ]
    if by == "time" and layout.order is None:
        layout = layout._replace(time_column=layout.time_column or "time")
    data = opt.read_log(clicks, layout, most_clicked, at_least, title_column=title_column, text_ids=text_ids)
    parts = data.hold_out(k, seed, by=by, keep=keep, too_few=too_few)
    names = {"user": layout.user_column, "item": layout.item_column, "title": title_column or "title"}
    names |= {"time": layout.time_column or "time", "session": layout.session_column or "session"}
    frames = [part.to_frame("pandas").rename(columns=names) for part in parts]
    write_frames(dict(zip(targets, frames, strict=True)), raw=True)  # what is read again must have the same ids
    unseen = int(((parts[0].per_item == 0) & (parts[1].per_item > 0)).sum())
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
    numbers = {"n_users": parts[0].n_users, "n_train": parts[0].n_clicks, "n_test": parts[1].n_clicks}
    facts = {"train": train, "test": test, "data": data.summary(), **numbers, "n_items_only_in_test": unseen}
    return {**facts, "k": k, "by": by, "seed": seed}
