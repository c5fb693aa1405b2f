"""The command line, `bmcd`. May import any other package; no package imports it.

Heavy packages are imported when a command runs, so that `bmcd --help` is fast.
"""

from __future__ import annotations

from typing import Annotated

import typer

from bmcd import __version__
from bmcd.cli.backtest import backtest
from bmcd.cli.clusters import clusters
from bmcd.cli.compare import compare
from bmcd.cli.demo import demo
from bmcd.cli.doctor import doctor
from bmcd.cli.errors import Commands
from bmcd.cli.evaluate import evaluate
from bmcd.cli.explain import explain, similar
from bmcd.cli.fit import fit
from bmcd.cli.options import as_command
from bmcd.cli.recommend import recommend
from bmcd.cli.replay import replay
from bmcd.cli.report import card, report
from bmcd.cli.serve import serve
from bmcd.cli.simulate import simulate
from bmcd.cli.split import split
from bmcd.cli.update import update

app = typer.Typer(
    cls=Commands,
    help="Diverse recommendations from click logs, each with a calibrated probability.",
    epilog="Start with: bmcd demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bmcd {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Diverse recommendations from click logs, each with a calibrated probability."""


for command, example in (
    (demo, "bmcd demo"),
    (simulate, "bmcd simulate -o clicks.csv --users 500 --truth truth.csv"),
    (split, "bmcd split clicks.csv --train train.csv --test test.csv -k 5 --by time"),
    (fit, "bmcd fit clicks.csv -o model.bmcd --titles items.csv"),
    (update, "bmcd update model.bmcd new_clicks.csv --keep 72h"),
    (recommend, "bmcd recommend model.bmcd -k 5 -o recommendations.csv"),
    (evaluate, "bmcd evaluate model.bmcd test.csv -k 10 --hit-rate 0.5"),
    (backtest, "bmcd backtest clicks.csv --window 1d --cuts 5 -k 10 --horizon 1 -o backtest.csv"),
    (compare, "bmcd compare comparison.toml -o comparison"),
    (report, "bmcd report model.bmcd --test test.csv -o report.html"),
    (card, "bmcd card model.bmcd -o card.md"),
    (clusters, "bmcd clusters model.bmcd"),
    (explain, "bmcd explain model.bmcd ann A13"),
    (similar, "bmcd similar model.bmcd A13 -k 5"),
    (serve, "bmcd serve model.bmcd --port 8000"),
    (replay, "bmcd replay clicks.parquet --speed 60"),
    (doctor, "bmcd doctor"),
):
    app.command(epilog=f"Example: {example}")(as_command(command))
