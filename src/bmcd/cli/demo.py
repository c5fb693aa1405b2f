"""`bmcd demo`: the whole way on bundled data, in about a minute."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bmcd.cli.output import check_output, console, file_size, print_json, rows_of, say, write_frame
from bmcd.errors import FitWarning, OutputError

if TYPE_CHECKING:
    from bmcd.clicks.table import Clicks

HELD_OUT = 5
REPORTED = (5, 10)
SHOWN = 5


class Size(NamedTuple):
    """How large a demo is."""

    items: int
    at_least: int
    clusters: int
    warmup: int
    draws: int


# About 100 seconds of one core, which is a minute of two; and the least that runs through, for tests.
WHOLE = Size(items=100, at_least=13, clusters=8, warmup=120, draws=60)
QUICK = Size(items=15, at_least=10, clusters=2, warmup=5, draws=5)


def demo(
    folder: Annotated[Path, typer.Option("--folder", "-o", help="Where the files go.")] = Path("bmcd-demo"),
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="So small that it only shows that it runs.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Fit a shop's click log, and show its clusters and what it recommends to whom, with which probability.

    The data come with the package. Some clicks of each user are kept from the model; they show how often the
    recommendations hit. It ends with a report in one HTML file. It takes about a minute and a half on two cores,
    and longer the first time, when code is compiled.
    """
    began, size = time.monotonic(), QUICK if quick else WHOLE
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror or error}.") from error
    names = {"model": "model.bmcd", "recommendations": "recommendations.csv", "clusters": "clusters.csv"}
    files = {what: folder / name for what, name in {**names, "report": "report.html"}.items()}
    targets = {what: check_output(path, (path.suffix,)) for what, path in files.items()}
    import bmcd
    from bmcd.cli.clusters import cluster_table
    from bmcd.cli.recommend import recommendation_table
    from bmcd.reporting.report import report as write_report

    clicks = bmcd.load_dataset("eshop").most_clicked(size.items).at_least(size.at_least)
    train, test = clicks.hold_out(HELD_OUT, seed=seed)
    if not as_json:
        say(f"A shop's clicks: {train.n_users:,} visitors, {train.n_items} products.", style="bold")
        say(
            f"{HELD_OUT} clicks of each are kept aside; {train.n_clicks:,} are left to learn from.\n"
            f"Fitting {size.clusters} clusters: 2 chains, {size.warmup} + {size.draws} sweeps each ..."
        )
    model = bmcd.BMCD(size.clusters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # it is told below that so short a run is for show
        model.fit(train, draws=size.draws, warmup=size.warmup, chains=2, seed=seed, n_threads=threads)
    if model.draws_.stopped == "interrupted":
        raise KeyboardInterrupt
    found = model.recommend(HELD_OUT, n_threads=threads)
    hits, given = _hits(found, test)
    model.save(targets["model"])
    write_frame(found, targets["recommendations"])
    write_frame(model.clusters_.to_frame(), targets["clusters"])
    if not as_json:
        say("Writing the report: other methods beside it, figures, example visitors ...")
    write_report(
        model,
        train,
        test,
        targets["report"],
        k=REPORTED,
        title="A shop's clicks: what is recommended, and how good it is",
    )
    seconds = time.monotonic() - began
    if as_json:
        facts = {"n_users": train.n_users, "n_items": train.n_items, "k": HELD_OUT, "hits": hits}
        print_json({**facts, "mean_probability": given, "seconds": round(seconds, 3), "files": files})
        return
    say()
    console().print(cluster_table(model.clusters_, 4))
    some = train.users[:: max(1, train.n_users // SHOWN)][:SHOWN].tolist()
    say(f"\nFive visitors, and the probability that an item is among their next {HELD_OUT}:", style="bold")
    console().print(recommendation_table(rows_of(model.recommend(HELD_OUT, some))))
    say(
        f"\nHow honest is it? Of the {HELD_OUT} items recommended to each of {train.n_users:,} visitors,\n"
        f"  {hits:6.1%} are among the {HELD_OUT} clicks kept aside; the model gave them, on average,\n"
        f"  {given:6.1%} probability; and items chosen at random would hit\n"
        f"  {_chance(train):6.1%}.{' On these data its promises are cautious.' if hits > given else ''}\n"
        f"This took {seconds:.0f} s. So short a run is for show: bmcd doctor {files['model']} judges it.\n"
    )
    for what, path in files.items():
        say(f"{what + ':':17}{path} ({file_size(path)})")
    say(f"\nThe report for editors is {files['report'].resolve()}: open it in a browser.", style="bold")
    say("\nTry next:", style="bold")
    say(f"  bmcd recommend {files['model']} -k 10 --users {some[0]}")
    first = rows_of(model.recommend(1, some[:1]))[0]["item"]
    say(f"  bmcd explain {files['model']} {some[0]} {first}")
    say("  bmcd fit your_clicks.csv -o your.bmcd")


def _hits(found: Any, test: Clicks) -> tuple[float, float]:
    """The share of recommendations among the clicks kept aside, and their mean probability."""
    kept = set(zip(*(test.to_frame()[name].tolist() for name in ("user", "item")), strict=True))
    pairs = list(zip(found["user"].tolist(), found["item"].tolist(), strict=True))
    return sum(pair in kept for pair in pairs) / len(pairs), float(found["probability"].mean())


def _chance(train: Clicks) -> float:
    """How often an item chosen at random among those not clicked is one of those kept aside."""
    import numpy as np

    n_clicked = np.diff(train.matrix.indptr)
    return float((HELD_OUT / (train.n_items - n_clicked)).mean())
