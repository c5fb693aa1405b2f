"""`bmcd demo`: the whole way on bundled data, in at most two minutes."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bmcd.cli.blends import tuned_ease
from bmcd.cli.output import check_output, console, file_size, print_json, rows_of, say, write_frame
from bmcd.errors import FitWarning, OutputError

if TYPE_CHECKING:
    from rich.table import Table

    from bmcd.clicks.log import Clicks
    from bmcd.evaluation.compare import Comparison

HELD_OUT = 5
REPORTED = (5, 10)
SHOWN = 5
MODEL = "Blend"
FILES = {
    "model": "model.bmcd",
    "recommendations": "recommendations.csv",
    "clusters": "clusters.csv",
    "report": "report.html",
}


class Size(NamedTuple):
    """How large a demo is."""

    items: int
    at_least: int
    clusters: int
    tastes: int
    folds: int
    mixture: dict[str, Any]
    """The chains of BMCD."""
    chains: dict[str, Any]
    """The chains of Tastes, in each of its fits."""


# At most two minutes on two cores, compiling included; and the least that runs through, for tests.
WHOLE = Size(
    items=100,
    at_least=13,
    clusters=8,
    tastes=40,
    folds=3,
    mixture={"chains": 2, "warmup": 30, "draws": 20},
    chains={"chains": 8, "warmup": 40, "draws": 4, "thin": 5},
)
QUICK = Size(
    15, 10, 2, 3, 2, {"chains": 2, "warmup": 5, "draws": 5}, {"chains": 2, "warmup": 5, "draws": 3, "thin": 1}
)


def demo(
    folder: Annotated[Path, typer.Option("--folder", "-o", help="Where the files go.")] = Path("bmcd-demo"),
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="So small that it only shows that it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a shop's click log, and show what works best on it, and what is recommended with which probability.

    The data come with the package. Three models of this package stand beside popularity, neighbours and EASE. Some
    clicks of each user are kept from all of them; they show how often the recommendations hit. It ends with a
    report in one HTML file. It takes one to two minutes on two cores, more the first time, when code is compiled.
    """
    began, size = time.monotonic(), QUICK if quick else WHOLE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror or error}.") from error
    files = {what: folder / name for what, name in FILES.items()}
    targets = {what: check_output(path, (path.suffix,)) for what, path in files.items()}
    import bmcd
    from bmcd.cli.recommend import recommendation_table
    from bmcd.evaluation.compare import compare
    from bmcd.reporting.report import report as write_report

    tell = (lambda *_, **__: None) if as_json else say
    clicks = bmcd.load_dataset("eshop").most_clicked(size.items).at_least(size.at_least)
    train, test = clicks.hold_out(HELD_OUT, seed=seed)
    tell(f"A shop's clicks: {train.n_users:,} visitors, {train.n_items} products.", style="bold")
    tell(
        f"{HELD_OUT} clicks of each are kept aside; {train.n_clicks:,} are left to learn from.\n{_shortened(size)}"
    )
    run: dict[str, Any] = {"seed": seed, "n_threads": threads}
    ease, choice = tuned_ease(train, seed, threads, HELD_OUT)
    tell(f"{choice['reason']}\nFitting Tastes and EASE, and weighing them: Blend ...")
    blend = bmcd.Blend({"Tastes": bmcd.Tastes(size.tastes), "EASE": ease}, size.folds)
    mixture = bmcd.BMCD(size.clusters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # what was shortened is said above
        blend.fit(train, **run, fit_options={"Tastes": size.chains})
        tell("Fitting BMCD ...")
        mixture.fit(train, **run, **size.mixture)
    if mixture.draws_.stopped == "interrupted":
        raise KeyboardInterrupt
    rivals = {"BMCD": mixture, "ItemKNN": bmcd.baselines.ItemKNN(), "Popularity": bmcd.baselines.Popularity()}
    found = blend.recommend(HELD_OUT, n_threads=threads)
    compared = compare({MODEL: blend, **blend.models_, **rivals}, train, test, HELD_OUT, seed=seed, progress=False)
    blend.save(targets["model"])
    write_frame(found, targets["recommendations"])
    write_frame(blend.clusters_.to_frame(), targets["clusters"])
    tell("Writing the report: all methods beside it, figures, example visitors ...")
    title = "A shop's clicks: what is recommended, and how good it is"
    write_report(
        blend, train, test, targets["report"], k=REPORTED, rivals=rivals, title=title, data="eshop", seed=seed
    )
    seconds = time.monotonic() - began
    if as_json:
        methods = {name: _rates(compared, name) for name in compared.entries}
        facts = {"n_users": train.n_users, "n_items": train.n_items, "k": HELD_OUT, "methods": methods}
        print_json({**facts, **methods[MODEL], "seconds": round(seconds, 3), "files": files})
        return
    _tell_what_works(compared, train)
    some = train.users[:: max(1, train.n_users // SHOWN)][:SHOWN].tolist()
    say(f"\nFive visitors, and the probability that an item is among their next {HELD_OUT}:", style="bold")
    rows = rows_of(blend.recommend(HELD_OUT, some))
    console().print(recommendation_table(rows))
    say(f"This took {seconds:.0f} s. So short a run is for show: bmcd doctor {files['model']} judges it.\n")
    for what, path in files.items():
        say(f"{what + ':':17}{path} ({file_size(path)})")
    say(f"\nThe report for editors is {files['report'].resolve()}: open it in a browser.", style="bold")
    say("\nTry next:", style="bold")
    say(f"  bmcd recommend {files['model']} -k 10 --users {some[0]}")
    say(f"  bmcd explain {files['model']} {some[0]} {rows[0]['item']}")
    say("  bmcd fit your_clicks.csv -o your.bmcd --model blend")


def _shortened(size: Size) -> str:
    mixture, chains = size.mixture, size.chains
    return (
        f"To be quick, all of it is short: the {size.items} most clicked products; BMCD with "
        f"{mixture['chains']} chains of {mixture['warmup']} + {mixture['draws']} sweeps (bmcd fit: 4 of 200 + 200);"
        f"\nTastes with "
        f"{chains['chains']} chains of {chains['warmup']} + {chains['draws'] * chains['thin']} (16 of 100 + 100); "
        f"{size.folds} folds (5)."
    )


def _tell_what_works(compared: Comparison, train: Clicks) -> None:
    rates = {name: _rates(compared, name) for name in compared.entries}
    top = max(rates, key=lambda name: float(rates[name]["hits"] or 0))
    gap = compared.differences["EASE"]["accuracy"]
    own, sure = rates[MODEL], "clearly so" if gap.low > 0 or gap.high < 0 else "within what chance explains"
    say(
        f"\n{top} works best here: of the {HELD_OUT} products it recommends, {rates[top]['hits']:.1%} hit.",
        style="bold",
    )
    console().print(_table(rates))
    say(
        f"A hit is one of the {HELD_OUT} clicks kept aside; products at random would hit {_chance(train):.1%}.\n"
        f"{MODEL} hits {-100 * gap.difference:+.1f} points against EASE, {sure}. It promised "
        f"{own['mean_probability']:.1%} and {own['hits']:.1%} came true;\n"
        "EASE, ItemKNN and popularity promise nothing."
    )


def _rates(compared: Comparison, name: str) -> dict[str, float | None]:
    """The share of recommendations that hit, their mean probability if they have one; the share of items shown."""
    evaluation = compared.entries[name].evaluation
    promised = None if evaluation.calibration is None else evaluation.calibration.mean_probability
    return {"hits": evaluation.accuracy, "mean_probability": promised, "coverage": evaluation.coverage}


def _table(rates: dict[str, dict[str, float | None]]) -> Table:
    from rich.table import Table

    table = Table()
    for heading in ("method", "hits", "promised", "products shown"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name, row in sorted(rates.items(), key=lambda pair: -float(pair[1]["hits"] or 0)):
        table.add_row(name, *("" if value is None else f"{value:.1%}" for value in row.values()))
    return table


def _chance(train: Clicks) -> float:
    """How often an item chosen at random among those not clicked is one of those kept aside."""
    import numpy as np

    n_clicked = np.diff(train.matrix.indptr)
    return float((HELD_OUT / (train.n_items - n_clicked)).mean())
