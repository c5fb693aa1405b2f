"""`bmcd report`: write everything about a model into one HTML file, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.ids import as_known, ids_in, own_ids
from bmcd.cli.log_files import (
    USUAL,
    IgnoreUnknown,
    Layout,
    with_layout,
)
from bmcd.cli.output import check_output, file_size, plain, print_json, say

SUFFIXES = (".html", ".htm")


@with_layout
def report(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .html file to write.")] = Path("report.html"),
    test: Annotated[
        Path | None,
        typer.Option(help="Clicks it has not seen (csv, tsv, parquet), of the same users: how good is it?"),
    ] = None,
    before: Annotated[
        Path | None, typer.Option(help="An older model file: the report also says what changed since.")
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("-k", help="How many items for each user; several: -k 5,10, which is the default."),
    ] = None,
    users: Annotated[
        list[str] | None, typer.Option("--user", help="Show this user; may be repeated. By default 12 are chosen.")
    ] = None,
    title: Annotated[str, typer.Option(help="The heading.")] = "What is recommended, and how good it is",
    data: Annotated[str, typer.Option(help="What the data are called, below the heading.")] = "",
    rivals: Annotated[bool, typer.Option(help="Compare with other methods, untuned.")] = True,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Groups, links and pictures of items: a file with the columns item, section, link, image."
        ),
    ] = None,
    popular: Annotated[
        int | None, typer.Option(min=1, help="How many items are popular, not rare; by default a fifth.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the other methods and the intervals.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a report that opens in any browser, offline: plain words first, numbers second, method last.

    Without --test it leaves out what needs clicks kept aside: accuracy, cut-offs, other methods.
    """
    options: Any = {"k": _read_numbers(k), "n_popular": popular, "seed": seed, "n_threads": threads}
    options |= {"title": title, "data": data, "items": items}
    wanted = [user for text in users or [] for user in ids_in(text)]
    if users and not wanted:
        raise typer.BadParameter("--user has no ids in it.")
    target = check_output(output, SUFFIXES, [model, test, before, items])
    import bmcd
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    known, test_clicks, shown = fitted.clicks_, None, None
    if known.n_users:  # else the report itself says what is wrong
        if test is not None:
            test_clicks = as_known(layout.read_aloud(test), known, ignore_unknown)
        if wanted:
            shown = own_ids(wanted, known.users, "user", "Show users that the model was fitted to.")
    reported = fitted if before is None else _named(before, load_model(before), model, fitted)
    bmcd.report(reported, None, test_clicks, target, rivals=None if rivals else {}, users=shown, **options)
    if as_json:
        print_json({"model": model, "test": test, "file": output, "bytes": target.stat().st_size})
    else:
        say(f"report: {output} ({file_size(target)}). Open it in a browser.")


def _named(before: Path, old: Any, now: Path, new: Any) -> dict[str, Any]:
    """The two models by the names of their files, or by the paths where these are the same."""
    names = (before.stem, now.stem) if before.stem != now.stem else (str(before), str(now))
    return {plain(names[0]): old, plain(names[1]): new}


def _read_numbers(texts: list[str] | None) -> list[int] | None:
    if not texts:
        return None
    parts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"-k must be whole numbers from 1 on, such as 5 or 5,10, not {','.join(texts)!r}.")
    return list(dict.fromkeys(map(int, parts)))
