"""`bmcd compare`: compare the models of a config file, which is stored beside the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.output import console, print_json, say
from bmcd.errors import OutputError


def compare(
    config: Annotated[Path, typer.Argument(help="A .toml or .json file: data, models, k and seed.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A folder for tables, plot and config.json.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit, tune and compare models on the same data: one table with intervals and paired differences.

    docs/baselines.md explains the config file. The config.json that is written can be run again.
    """
    if output is not None and output.exists() and not output.is_dir():
        raise OutputError(f"{output}: is a file. Give the name of a folder.")
    from bmcd.cli.compare_config import run_config

    comparison = run_config(config, output, n_threads=threads)
    if as_json:
        print_json({"config": config, "folder": output, **comparison.to_dict()})
        return
    console().print(comparison)
    if output is not None:
        say(f"Tables, plot and config.json: {output}")
