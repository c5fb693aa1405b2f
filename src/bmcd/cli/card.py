"""`bmcd card`: a model card, in Markdown or HTML."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.output import check_output, file_size, print_json, say

KINDS = (".md", ".html", ".htm", ".json")


def card(
    model: Annotated[Path, typer.Argument(help="A model file, written by bmcd fit.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write: .md, .html or .json.")] = Path(
        "card.md"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Write a model card: data, dates, members, calibration, groups of items, limits, intended use, versions."""
    import hashlib

    from bmcd.files import open_replacement, write_json
    from bmcd.models.persistence import load_model
    from bmcd.reporting.card import html_card, make_card, markdown_card

    target = check_output(output, KINDS, [model])
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
    if as_json:
        print_json({"model": model, "file": output, "bytes": target.stat().st_size})
    else:
        say(f"model card: {output} ({file_size(output)})")
