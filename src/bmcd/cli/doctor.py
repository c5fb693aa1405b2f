"""`bmcd doctor`: is everything here that bmcd needs, and does it compute what it should?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.output import console, plain, print_json, say


def doctor(
    model: Annotated[Path | None, typer.Argument(help="Inspect this model file as well.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check versions, cores, memory, disk and compiled code, and fit something tiny whose answer is known.

    Says what is wrong and what to do. The exit code is 0 only if nothing is broken.
    """
    from bmcd.cli.checks import all_checks

    found = list(all_checks(model))
    broken = [check for check in found if check.state == "broken"]
    if as_json:
        print_json({"healthy": not broken, "checks": [check._asdict() for check in found]})
    else:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        styles = {"good": "green", "note": "yellow", "broken": "bold red"}
        for check in found:
            said = plain(check.text) + (f" {plain(check.advice)}" if check.advice else "")
            table.add_row(Text(check.state, style=styles[check.state]), Text(plain(check.name)), Text(said))
        console().print(table)
        verdict = "Everything works." if not broken else f"{len(broken)} of {len(found)} checks say: broken."
        say(f"\n{verdict}", style="bold")
    if broken:
        raise typer.Exit(1)
