"""`python -m experiments`: the command line of the studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bmcd.cli.errors import BAD_DATA, Commands
from bmcd.cli.output import complain, print_json, say
from experiments.study import Study
from experiments.tasks import StudyError


class Studies(Commands):
    """The studies, whose errors are reported as those of `bmcd`."""

    def invoke(self, ctx: Any) -> Any:
        """Run a study."""
        try:
            return super().invoke(ctx)
        except StudyError as error:
            complain(str(error))
            raise typer.Exit(BAD_DATA) from None


app = typer.Typer(
    cls=Studies,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    help="Run the study of next clicks or the paper's studies again, from nothing to tables and figures.",
    epilog="Example: python -m experiments simulation --quick -o simulation",
)

Output = Annotated[Path, typer.Option("--output", "-o", help="A folder for the page, tables, figures and results.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small form that shows that all parts run, in minutes.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Tasks at a time; by default one for each core.")]
Count = int | None
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command(epilog="Example: python -m experiments simulation -o simulation")
def simulation(
    output: Output = Path("bmcd-simulation"),
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
    """Run the simulation study: 20 data sets, BMCD, Tastes and collaborative filtering, the next 5 and 10 items.

    It takes about 45 minutes on two cores. Finished tasks are kept in the folder: after Ctrl-C or a crash, the same
    command continues where it was. Collaborative filtering needs the extra "baselines".
    """
    from experiments.simulation import SimulationStudy

    _reproduce(SimulationStudy(quick=quick, spark=spark), output, workers, as_json)


@app.command("case_study", epilog="Example: python -m experiments case_study --data eshop-2 -o case_study")
def case_study(
    output: Output = Path("bmcd-case-study"),
    data: Annotated[
        list[str] | None, typer.Option(help="eshop-1, eshop-2 or msweb; may be repeated. All unless given.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="Your own clicks instead (csv, tsv, parquet).")] = None,
    user_column: Annotated[str, typer.Option(help="The column of your clicks with users.")] = "user",
    item_column: Annotated[str, typer.Option(help="The column of your clicks with items.")] = "item",
    titles: Annotated[Path | None, typer.Option(help="A file with titles of your items.")] = None,
    most_clicked: Annotated[
        Count, typer.Option(min=1, help="Number of items to keep, the most clicked (200).")
    ] = None,
    at_least: Annotated[Count, typer.Option(min=1, help="Keep users with so many clicks on these (13).")] = None,
    remove: Annotated[Count, typer.Option(min=1, help="Clicks of each user to remove and recommend (10).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the removed clicks, and of every fit.")] = 0,
    quick: Quick = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Run the case study's protocol on public clicks or on yours: BMCD, Tastes and Blend against tuned baselines.

    It takes about 50 minutes on two cores. Finished tasks are kept in the folder: after Ctrl-C or a crash, the same
    command continues where it was. Collaborative filtering needs the extra "baselines".
    """
    from experiments.case_study import CaseStudy

    study = CaseStudy(
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
    )
    _reproduce(study, output, workers, as_json)


@app.command("pseudo_mallows", epilog="Example: python -m experiments pseudo_mallows -o pseudo_mallows")
def pseudo_mallows(
    output: Output = Path("bmcd-pseudo-mallows"),
    quick: Quick = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Compare Pseudo-Mallows, the fast method that the paper announces, with the exact sampler and the paper's.

    It takes about 15 minutes on two cores.
    """
    from experiments.pseudo_mallows.study import PseudoStudy

    _reproduce(PseudoStudy(quick=quick), output, workers, as_json)


@app.command("next_clicks", epilog="Example: python -m experiments next_clicks -o next_clicks")
def next_clicks(
    output: Output = Path("bmcd-next-clicks"),
    log: Annotated[Path | None, typer.Option(help="Back-test your own log (csv, tsv, parquet) instead.")] = None,
    user_column: Annotated[str, typer.Option(help="The column of your log with users.")] = "user",
    item_column: Annotated[str, typer.Option(help="The column of your log with items.")] = "item",
    time_column: Annotated[str | None, typer.Option(help="The column of your log with times.")] = None,
    session_column: Annotated[str | None, typer.Option(help="The column of your log with sessions.")] = None,
    window: Annotated[str, typer.Option(help="How long each fit of the back-test is in use.")] = "1d",
    cuts: Annotated[int, typer.Option(min=1, help="Fits of the back-test.")] = 5,
    k: Annotated[int, typer.Option("-k", min=1, help="Length of the lists of the back-test.")] = 10,
    horizon: Annotated[int, typer.Option(min=1, help="Next clicks that the back-test predicts.")] = 1,
    sessions: Annotated[
        Path | None, typer.Option(help="A session file to fit to: lists of item numbers, as text or pickle.")
    ] = None,
    test_sessions: Annotated[
        Path | None, typer.Option(help="A session file whose last clicks are predicted.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of every fit.")] = 0,
    quick: Quick = False,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Compare all methods on the clicks that came next: on the shop's visits, a log with times, or session files.

    The shop takes about ten minutes of processor time. Finished tasks are kept in the folder. It needs the extra
    "baselines".
    """
    from experiments.next_clicks.study import NextClicksStudy

    study = NextClicksStudy(
        quick=quick,
        log=log,
        user=user_column,
        item=item_column,
        time_column=time_column,
        session_column=session_column,
        window=window,
        cuts=cuts,
        k=k,
        horizon=horizon,
        sessions=sessions,
        test_sessions=test_sessions,
        seed=seed,
    )
    _reproduce(study, output, workers, as_json)


def _reproduce(study: Study, folder: Path, workers: int | None, as_json: bool) -> None:
    page = study.reproduce(folder, n_workers=workers)
    if as_json:
        files = [path for name in ("tables", "figures") for path in sorted((folder / name).glob("*"))]
        print_json({"page": page, "files": files})
    else:
        say(f"Tables and figures: {page}")


if __name__ == "__main__":
    app()
