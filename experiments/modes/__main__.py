"""`python -m experiments.modes`: the comparison, from nothing to tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.modes.study import ModesStudy


def main(
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the page, tables and results.")],
    quick: Annotated[bool, typer.Option("--quick", help="A small form that shows that all parts run.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Tasks at a time; by default one for each core.")
    ] = None,
) -> None:
    """Compare moves between modes with plain chains; what is finished is not done again."""
    print(ModesStudy(quick=quick).reproduce(output, n_workers=workers))


if __name__ == "__main__":
    typer.run(main)
