"""`bmcd demo`: fit the shop's earlier visits, test on later ones, write a report; in about a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bmcd.cli.output import check_output, console, file_size, print_json, rows_of, say, write_frame
from bmcd.errors import MissingPackageError, OutputError
from bmcd.utils import import_optional

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.evaluation.compare import Comparison

# Next clicks to predict, the share of visits to learn from, and the share that --quick looks at.
K, EARLIER, QUICK = 3, 0.8, 0.15
REPORTED = (1, 3)
SHOWN = 5
MODEL = "Blend"
BASELINES = ("EASE", "Transitions", "SessionKNN", "Popularity")
# Those of the report, which compares on all its numbers of recommendations.
REPORTED_BASELINES = ("EASE", "Popularity")
FILES = {"model": "model.bmcd", "recommendations": "recommendations.csv", "report": "report.html"}


def demo(
    folder: Annotated[Path, typer.Option("--folder", "-o", help="Where the files go.")] = Path("bmcd-demo"),
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="So small that it only shows that it runs.")] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Show live use instead: a service that follows the shop's last visits.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Learn from a shop's earlier visits, and predict the next clicks of later ones.

    The data come with the package. Each later visit is stopped at a random moment; the table shows how often the
    recommendations hit the next clicks, beside the predicted share and four baselines. It ends with a report in one
    HTML file, if the extra [report] is installed. It takes about a minute the first time, when code is compiled.
    """
    began = time.monotonic()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror or error}.") from error
    if live:
        from bmcd.cli.live_demo import live_demo

        live_demo(folder, seed, quick, as_json)
        return
    files = {what: folder / name for what, name in FILES.items()}
    targets = {what: check_output(path, (path.suffix,)) for what, path in files.items()}
    no_report = ""
    try:
        import_optional("matplotlib", needed_by="the report", extra="report")
    except MissingPackageError as error:
        no_report = str(error)
    import bmcd
    from bmcd.cli.recommend import recommendation_table
    from bmcd.evaluation.compare import compare

    tell = (lambda *_, **__: None) if as_json else say
    clicks = bmcd.load_dataset("eshop")
    if quick:
        clicks = clicks.split_users(QUICK)[0]
    earlier, later = clicks.split_users(EARLIER)
    histories, test = later.moments(K, seed)
    tell(f"A shop's clicks: {clicks.n_users:,} visits in order, {clicks.n_items} products.", style="bold")
    tell(
        f"{earlier.n_users:,} earlier visits to learn from; {histories.n_users:,} later ones, each stopped at a "
        f"random moment with at least {K} clicks to come.\nFitting Blend ..."
    )
    run: dict[str, Any] = {"seed": seed, "n_threads": threads, "progress": False}
    blend = bmcd.Blend().fit(earlier, **run)
    tell(f"It uses {', '.join(blend.members_)}. {blend.verdict_.text}\nFitting the baselines ...")
    baselines = {name: getattr(bmcd.baselines, name)() for name in BASELINES}
    compared = compare(
        {MODEL: blend, **baselines}, earlier, test, K, histories=histories, seed=seed, progress=False
    )
    rates = {name: _rates(compared, name) for name in compared.entries}
    if not as_json:
        _tell_what_works(rates, compared)

    found = blend.recommend_for(histories, K, n_threads=threads, progress=False)
    blend.save(targets["model"])
    write_frame(found, targets["recommendations"])
    if no_report:
        tell(f"\nWithout the report: {no_report}", style="bold")
        del files["report"]
    else:
        tell("\nWriting the report ...")
        bmcd.report(
            blend, earlier, test, targets["report"], histories=histories, k=REPORTED, seed=seed, data="eshop",
            title="A shop's visits: what is recommended, and how good it is",
            rivals={name: getattr(bmcd.baselines, name)() for name in REPORTED_BASELINES},
        )  # fmt: skip
    seconds = time.monotonic() - began
    if as_json:
        facts: dict[str, Any] = {
            "n_users": earlier.n_users,
            "n_later": histories.n_users,
            "n_items": clicks.n_items,
            "k": K,
        }
        facts |= {"members": list(blend.members_), "verdict": blend.verdict_.text, "methods": rates}
        print_json({**facts, **rates[MODEL], "seconds": round(seconds, 3), "files": files})
        return
    some = histories.of_users(range(0, histories.n_users, max(1, histories.n_users // SHOWN))[:SHOWN])
    rows = rows_of(blend.recommend_for(some, K, n_threads=threads, progress=False))
    say(f"\nFive visits, and the probability that a product is among the next {K} clicks:", style="bold")
    console().print(recommendation_table(rows))
    say(f"This took {seconds:.0f} s.\n")
    for what, path in files.items():
        say(f"{what + ':':17}{path} ({file_size(path)})")
    if not no_report:
        say(f"\nThe report for editors is {files['report'].resolve()}: open it in a browser.", style="bold")
    say("\nTry next:", style="bold")
    clicked = ",".join(some.items[some.sequence[: some.starts[1]]].tolist())
    say(f"  bmcd recommend {files['model']} -k 10 --horizon 1 --users {earlier.users[0]}")
    say(f"  bmcd explain {files['model']} {some.users[0]} {rows[0]['item']} --history {clicked}")
    say("  bmcd fit your_clicks.csv -o your.bmcd")


def _tell_what_works(rates: dict[str, dict[str, float | None]], compared: Comparison) -> None:
    own, gap = rates[MODEL], compared.differences["Transitions"]["accuracy"]
    say(
        f"\n{MODEL}: predicted {own['predicted']:.1%}, observed {own['hits']:.1%} of the recommended {K} products "
        f"among the next {K} clicks.",
        style="bold",
    )
    console().print(_table(rates))
    sure = "more than chance explains" if gap.low > 0 or gap.high < 0 else "within what chance explains"
    say(f"{-100 * gap.difference:+.1f} points against Transitions, {sure}. Baselines predict no hit rate.")


def _rates(compared: Comparison, name: str) -> dict[str, float | None]:
    """Return observed and predicted share of hits, and the share of products that anybody is shown."""
    evaluation = compared.entries[name].evaluation
    predicted = None if evaluation.calibration is None else evaluation.calibration.mean_probability
    return {"predicted": predicted, "hits": evaluation.accuracy, "coverage": evaluation.coverage}


def _table(rates: dict[str, dict[str, float | None]]) -> Table:
    from rich.table import Table

    table = Table()
    for heading in ("method", "predicted", "observed hits", "products shown"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name, row in sorted(rates.items(), key=lambda pair: -float(pair[1]["hits"] or 0)):
        table.add_row(name, *("" if value is None else f"{value:.1%}" for value in row.values()))
    return table
