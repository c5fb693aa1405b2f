"""`bmcd report`: everything about a model in one HTML file, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.ids import as_known, ids_in, own_ids
from bmcd.cli.output import check_output, file_size, print_json, say

PAGES = (".html", ".htm")


def report(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The .html file to write.")] = Path("report.html"),
    test: Annotated[
        Path | None,
        typer.Option(help="Clicks it has not seen (csv, tsv, parquet), of the same users: how good is it?"),
    ] = None,
    k: Annotated[
        list[str] | None,
        typer.Option("-k", help="How many items for each user; several: -k 5,10, which is the default."),
    ] = None,
    users: Annotated[
        list[str] | None, typer.Option("--user", help="Show this user; may be repeated. By default 12 are chosen.")
    ] = None,
    title: Annotated[str, typer.Option(help="What stands on top.")] = "What is recommended, and how good it is",
    rivals: Annotated[bool, typer.Option(help="Compare with other methods, untuned.")] = True,
    user_column: Annotated[str, typer.Option(help="The column of the test clicks that says who.")] = "user",
    item_column: Annotated[str, typer.Option(help="The column of the test clicks that says what.")] = "item",
    popular: Annotated[
        int | None, typer.Option(min=1, help="How many items are popular, not rare; by default a fifth.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the other methods and the intervals.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a report that opens in any browser, offline: plain words first, numbers second, method last.

    Without --test it leaves out what needs clicks kept aside: accuracy, cut-offs, other methods.
    """
    ks = None if not k else _numbers(k)
    named = [one for text in users or [] for one in ids_in(text)]
    if users and not named:
        raise typer.BadParameter("--user has no ids in it.")
    target = check_output(output, PAGES, [model, test])
    import bmcd
    from bmcd.reporting.report import report as write_report

    fitted = bmcd.load(model)
    known = fitted.clicks_
    hint = "Show users that the model was fitted to."
    truth = None
    if known.n_users > 0:  # without, the report itself says what is wrong
        truth = None if test is None else as_known(bmcd.read_clicks(test, user_column, item_column), known)
    write_report(
        fitted,
        None,
        truth,
        target,
        k=ks,
        rivals=None if rivals else {},
        users=own_ids(named, known.users, "user", hint) if named and known.n_users else None,
        n_popular=popular,
        seed=seed,
        n_threads=threads,
        title=title,
    )
    if as_json:
        size = target.stat().st_size
        print_json({"model": model, "test": test, "file": output, "bytes": size})
    else:
        say(f"report: {output} ({file_size(target)}). Open it in a browser.")


def _numbers(given: list[str]) -> list[int]:
    parts = [part.strip() for text in given for part in text.split(",") if part.strip()]
    if not parts or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"-k must be whole numbers from 1 on, such as 5 or 5,10, not {','.join(given)!r}.")
    return list(dict.fromkeys(int(part) for part in parts))
