"""`bmcd report` and `bmcd card`: documents about a model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.options import (
    USUAL,
    IgnoreUnknown,
    Layout,
    ModelFile,
    Popular,
    Seed,
    Threads,
    as_known,
    ids_in,
    option,
    own_ids,
    whole_numbers,
)
from bmcd.cli.output import check_output, file_size, say
from bmcd.files import open_replacement, write_json
from bmcd.utils import plain

REPORTS = (".html", ".htm")
CARDS = (".md", ".html", ".htm", ".json")


def report(
    model: ModelFile,
    output: Annotated[Path, option("The .html file to write.", "--output", "-o")] = Path("report.html"),
    test: Annotated[Path | None, option("Test clicks (csv, tsv, parquet) of the users of the model.")] = None,
    before: Annotated[Path | None, option("An older model file; the report also shows what changed.")] = None,
    k: Annotated[list[str] | None, option("The numbers of items per list. Default: 5,10.", "-k")] = None,
    users: Annotated[
        list[str] | None, option("Show this user; may be repeated. Default: 12 users are chosen.", "--user")
    ] = None,
    title: Annotated[str, option("The heading.")] = "What is recommended, and how good it is",
    data: Annotated[str, option("The name of the data, below the heading.")] = "",
    rivals: Annotated[bool, option("Compare with untuned baselines.")] = True,
    items: Annotated[
        Path | None, option("A file with columns item, section, link, image: groups, links and pictures of items.")
    ] = None,
    popular: Popular = None,
    seed: Seed = 0,
    threads: Threads = None,
    layout: Layout = USUAL,
    ignore_unknown: IgnoreUnknown = False,
) -> dict[str, Any]:
    """Write an HTML report that opens in any browser, offline: a summary first, numbers second, methods last.

    Without --test it leaves out accuracy, cut-offs and baselines, which need test clicks.
    """
    options: Any = {"k": whole_numbers(k, "-k"), "n_popular": popular, "seed": seed, "n_threads": threads}
    options |= {"title": title, "data": data, "items": items}
    wanted = [user for text in users or [] for user in ids_in(text)]
    if users and not wanted:
        raise typer.BadParameter("--user has no ids in it.")
    target = check_output(output, REPORTS, [model, test, before, items])
    import bmcd
    from bmcd.models.persistence import load_model

    fitted = load_model(model)
    known, test_clicks, shown = fitted.clicks_, None, None
    if known.n_users:  # otherwise the report raises the error
        if test is not None:
            test_clicks = as_known(layout.read(test, notes=True), known, ignore_unknown)
        if wanted:
            shown = own_ids(wanted, known.users, "user", "Show users that the model was fitted to.")
    reported = fitted if before is None else _named(before, load_model(before), model, fitted)
    bmcd.report(reported, None, test_clicks, target, rivals=None if rivals else {}, users=shown, **options)
    say(f"report: {output} ({file_size(target)}). Open it in a browser.")
    return {"model": model, "test": test, "file": output, "bytes": target.stat().st_size}


def _named(before: Path, old: Any, now: Path, new: Any) -> dict[str, Any]:
    """Return two models by the names of their files, or by their paths if the names are the same."""
    names = (before.stem, now.stem) if before.stem != now.stem else (str(before), str(now))
    return {plain(names[0]): old, plain(names[1]): new}


def card(
    model: ModelFile,
    output: Annotated[Path, option("The file to write: .md, .html or .json.", "--output", "-o")] = Path("card.md"),
) -> dict[str, Any]:
    """Write a model card: data, dates, members, calibration, groups of items, limits, intended use, versions."""
    from bmcd.models.persistence import load_model
    from bmcd.reporting.card import html_card, make_card, markdown_card

    target = check_output(output, CARDS, [model])
    fitted = load_model(model)
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    kind = output.suffix.lower()
    if kind == ".json":
        write_json(target, make_card(fitted, digest).to_dict(), indent=2)
    else:
        text = markdown_card(fitted, digest) if kind == ".md" else html_card(fitted, digest)
        with open_replacement(target) as out:
            out.write(text)
    say(f"model card: {output} ({file_size(output)})")
    return {"model": model, "file": output, "bytes": target.stat().st_size}
