"""`bmcd reproduce`: the paper's experiments, from nothing to tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.output import OutputError, print_json, say

reproduce = typer.Typer(
    no_args_is_help=True,
    help="Run the paper's experiments again, from nothing to tables and figures beside the paper's own numbers.",
    epilog="Example: bmcd reproduce simulation --quick -o simulation",
)

Quick = Annotated[bool, typer.Option("--quick", help="A small form that shows that all parts run, in minutes.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Tasks at a time; by default one for each core.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@reproduce.command(epilog="Example: bmcd reproduce simulation -o simulation")
def simulation(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder for the page, tables, figures and results.")
    ] = Path("bmcd-simulation"),
    quick: Quick = False,
    workers: Workers = None,
    spark: Annotated[
        bool | None,
        typer.Option(
            "--spark/--no-spark", help="Also run Spark's ALS on some data sets; by default if it is there."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run the simulation study: 20 data sets, BMCD and collaborative filtering, the next 5 and the next 10 items.

    It takes about an hour on two cores. What is done is kept in the folder: stopped by Ctrl-C or worse, the same
    command goes on where it was. Collaborative filtering needs the extra "baselines".
    """
    _check_folder(output)
    from bmcd.experiments.simulation import reproduce_simulation

    _tell(reproduce_simulation(output, quick=quick, n_workers=workers, spark=spark), as_json)


@reproduce.command("case-study", epilog="Example: bmcd reproduce case-study --data eshop-2 -o case_study")
def case_study(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A folder for the page, tables, figures and results.")
    ] = Path("bmcd-case-study"),
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="eshop-1, eshop-2 or msweb; may be repeated. All unless given."),
    ] = None,
    clicks: Annotated[
        Path | None, typer.Option(help="Your own clicks instead (csv, tsv, parquet), by the same protocol.")
    ] = None,
    user_column: Annotated[str, typer.Option(help="The column of your clicks that says who.")] = "user",
    item_column: Annotated[str, typer.Option(help="The column of your clicks that says what.")] = "item",
    titles: Annotated[Path | None, typer.Option(help="A file with titles of your items.")] = None,
    most_clicked: Annotated[
        int | None, typer.Option(min=1, help="Keep so many of your items, the most clicked: 200 unless given.")
    ] = None,
    at_least: Annotated[
        int | None, typer.Option(min=1, help="Keep users with so many clicks on them: 13 unless given.")
    ] = None,
    remove: Annotated[
        int | None, typer.Option(min=1, help="Clicks of each user to remove, and to recommend: 10 unless given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the removed clicks, and of every fit.")] = 0,
    quick: Quick = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Run the case study's protocol on public clicks, or on your own: BMCD against tuned rivals.

    It takes about 40 minutes on two cores. What is done is kept in the folder: stopped by Ctrl-C or worse, the
    same command goes on where it was. Collaborative filtering needs the extra "baselines".
    """
    _check_folder(output)
    from bmcd.experiments.case_study import reproduce_case_study

    page = reproduce_case_study(
        output,
        data=data,
        quick=quick,
        clicks=clicks,
        user=user_column,
        item=item_column,
        titles=titles,
        most_clicked=most_clicked,
        at_least=at_least,
        remove=remove,
        seed=seed,
        n_workers=workers,
    )
    _tell(page, as_json)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file. Give the name of a folder.")


def _tell(page: Path, as_json: bool) -> None:
    folder = page.parent
    if as_json:
        files = [path for name in ("tables", "figures") for path in sorted((folder / name).iterdir())]
        print_json({"page": page, "files": files})
        return
    say(f"Tables and figures: {page}")
