"""`bmcd demo`: learn from a shop's earlier visits and test on later ones; or replay these to a live service."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bmcd.cli.options import Seed, Threads, option
from bmcd.cli.output import console, file_size, print_table, rows_of, say, write_frame
from bmcd.cli.recommend import recommendation_table
from bmcd.cli.replay import between, run_replay, total
from bmcd.cli.serve import KEY
from bmcd.errors import BmcdError, MissingPackageError, OutputError
from bmcd.utils import import_optional

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.evaluation.evaluate import Evaluation

# Next clicks to predict, the share of visits to learn from, and the share that --quick uses.
K, EARLIER, QUICK = 3, 0.8, 0.15
MODEL = "Blend"
BASELINES = ("EASE", "Transitions", "SessionKNN", "Popularity")
# Numbers of recommendations and baselines of the report, and visits that are printed.
REPORTED, REPORTED_BASELINES, SHOWN = (1, 3), ("EASE", "Popularity"), 5
FILES = {"model": "model.bmcd", "recommendations": "recommendations.csv", "report": "report.html"}
# With --live. The data have an order but no times: a visit begins every minute, with a click every half minute.
LIVE_MODEL, LIVE = "live-model.bmcd", "live"
VISIT, CLICK, BEGIN = "60s", "30s", "2026-05-01"
# Hours replayed, days learnt from, how many times faster; the same with --quick; seconds between counts.
REPLAYED, QUICKLY, REFRESH = (6, 12, 600.0), (1, 2, 360.0), 2
PATIENCE = 120.0


def demo(
    folder: Annotated[Path, option("The folder for the files.", "--folder", "-o")] = Path("bmcd-demo"),
    seed: Seed = 0,
    threads: Threads = None,
    quick: Annotated[bool, option("Use little data, only to show that it runs.", "--quick")] = False,
    live: Annotated[
        bool, option("Show live use instead: a service that follows the shop's last visits.", "--live")
    ] = False,
) -> dict[str, Any]:
    """Learn from a shop's earlier visits, and predict the next clicks of later ones.

    The data come with the package. Each later visit is stopped at a random moment; the table shows how often the
    recommendations hit the next clicks, beside the predicted share and four baselines. The last step is a report in
    one HTML file, if the extra "report" is installed. The first run takes about a minute, since code is compiled.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made: {error.strerror or error}.") from error
    return live_demo(folder, seed, quick) if live else report_demo(folder, seed, threads, quick)


def report_demo(folder: Path, seed: int, threads: int | None, quick: bool) -> dict[str, Any]:
    """Fit, compare and report; return the numbers."""
    began = time.monotonic()
    files = {what: folder / name for what, name in FILES.items()}
    no_report = ""
    try:
        import_optional("matplotlib", needed_by="the report", extra="report")
    except MissingPackageError as error:
        no_report = str(error)
        del files["report"]
    import bmcd
    from bmcd.evaluation.compare import compare

    clicks = bmcd.load_dataset("eshop")
    if quick:
        clicks = clicks.split_users(QUICK)[0]
    earlier, later = clicks.split_users(EARLIER)
    histories, test = later.moments(K, seed)
    say(f"A shop's clicks: {clicks.n_users:,} visits in order, {clicks.n_items} products.", style="bold")
    say(
        f"{earlier.n_users:,} earlier visits to learn from; {histories.n_users:,} later ones, each stopped at a "
        f"random moment with at least {K} clicks to come.\nFitting Blend ..."
    )
    run: dict[str, Any] = {"n_threads": threads, "progress": False}
    blend = bmcd.Blend().fit(earlier, seed=seed, **run)
    say(f"It uses {', '.join(blend.members_)}. {blend.verdict_.text}\nFitting the baselines ...")
    models = {MODEL: blend, **{name: getattr(bmcd.baselines, name)() for name in BASELINES}}
    compared = compare(models, earlier, test, K, histories=histories, seed=seed, progress=False)
    rates = {name: _rates(entry.evaluation) for name, entry in compared.entries.items()}
    own, gap = rates[MODEL], compared.differences["Transitions"]["accuracy"]
    say(
        f"\n{MODEL}: predicted {own['predicted']:.1%}, observed {own['hits']:.1%} of the recommended {K} products "
        f"among the next {K} clicks.",
        style="bold",
    )
    rows = [
        (name, *("" if value is None else f"{value:.1%}" for value in row.values()))
        for name, row in sorted(rates.items(), key=lambda pair: -float(pair[1]["hits"] or 0))
    ]
    print_table(("method", "predicted", "observed hits", "products shown"), rows, left=("method",))
    sure = "more than chance explains" if gap.low > 0 or gap.high < 0 else "within what chance explains"
    say(f"{-100 * gap.difference:+.1f} points against Transitions, {sure}. Baselines predict no hit rate.")

    blend.save(files["model"])
    write_frame(blend.recommend_for(histories, K, **run), files["recommendations"])
    if no_report:
        say(f"\nWithout the report: {no_report}", style="bold")
    else:
        say("\nWriting the report ...")
        bmcd.report(
            blend, earlier, test, files["report"], histories=histories, k=REPORTED, seed=seed, data="eshop",
            title="A shop's visits: what is recommended, and how good it is",
            rivals={name: models[name] for name in REPORTED_BASELINES},
        )  # fmt: skip
    seconds = time.monotonic() - began
    some = histories.of_users(range(0, histories.n_users, max(1, histories.n_users // SHOWN))[:SHOWN])
    shown = rows_of(blend.recommend_for(some, K, **run))
    say(f"\nFive visits, and the probability that a product is among the next {K} clicks:", style="bold")
    console().print(recommendation_table(shown))
    say(f"This took {seconds:.0f} s.\n")
    for what, path in files.items():
        say(f"{what + ':':17}{path} ({file_size(path)})")
    if not no_report:
        say(f"\nThe report for editors is {files['report'].resolve()}: open it in a browser.", style="bold")
    say("\nTry next:", style="bold")
    clicked = ",".join(some.items[some.sequence[: some.starts[1]]].tolist())
    say(f"  bmcd recommend {files['model']} -k 10 --horizon 1 --users {earlier.users[0]}")
    say(f"  bmcd explain {files['model']} {some.users[0]} {shown[0]['item']} --history {clicked}")
    say("  bmcd fit your_clicks.csv -o your.bmcd")
    facts: dict[str, Any] = {"n_users": earlier.n_users, "n_later": histories.n_users, "n_items": clicks.n_items}
    facts |= {"k": K, "members": list(blend.members_), "verdict": blend.verdict_.text, "methods": rates}
    return facts | own | {"seconds": round(seconds, 3), "files": files}


def _rates(evaluation: Evaluation) -> dict[str, float | None]:
    """Return predicted and observed share of hits, and the share of products that any visitor is shown."""
    predicted = None if evaluation.calibration is None else evaluation.calibration.mean_probability
    return {"predicted": predicted, "hits": evaluation.accuracy, "coverage": evaluation.coverage}


# ---- live ----


def live_demo(folder: Path, seed: int, quick: bool) -> dict[str, Any]:
    """Fit a model to all visits but those of the last hours, serve it live, replay these; return the numbers."""
    import_optional("uvicorn", needed_by="bmcd demo --live", extra="serve")
    import numpy as np

    import bmcd
    from bmcd.serve.replaying import Replay

    hours, days, speed = QUICKLY if quick else REPLAYED
    clicks = timed(bmcd.load_dataset("eshop"))
    assert clicks.times is not None
    end = clicks.times.max()
    cut, first = (str(end - np.timedelta64(n, "h")) for n in (hours, hours + 24 * days))
    earlier, later = between(clicks, first, cut), between(clicks, cut, None)
    say(
        f"A shop's clicks, with made-up times: a visit begins every minute. {earlier.n_clicks:,} clicks to learn "
        f"from, and {len(later.sequence):,} of the {hours} hours after them to replay.\nFitting Blend ...",
        style="bold",
    )
    model = bmcd.Blend(refresh="30min").fit(earlier, seed=seed, progress=False)
    model.save(folder / LIVE_MODEL)
    shutil.rmtree(folder / LIVE, ignore_errors=True)  # of an earlier demo
    say(f"It uses {', '.join(model.members_)}. {model.verdict_.text}\nStarting the service ...")
    with service(folder / LIVE_MODEL, folder / LIVE) as address:
        say(f"{address} shows it live: open it in a browser.\nReplaying at {speed:g} times the pace ...")
        run = Replay(later, address, speed=speed, seed=seed)
        found = run_replay(run)
        with urllib.request.urlopen(f"{address}v1/live", timeout=PATIENCE) as answer:
            view = json.load(answer)
    say(f"\nThe service itself reports: {view['hour']['text']}.", style="bold")
    say("\nTry next:", style="bold")
    say(f"  bmcd serve {folder / LIVE_MODEL} --live {folder / LIVE}")
    say("  bmcd fit your_clicks.csv -o your.bmcd --refresh 1h && bmcd serve your.bmcd --live your_live")
    return {"hours": [hour._asdict() for hour in found], **total(run, found), "live": view["hour"]}


def timed(clicks: Clicks) -> Clicks:
    """Return a log without times as one in which users come one after the other."""
    import pandas as pd

    from bmcd.clicks.log import Clicks

    frame = clicks.to_frame("pandas")
    visit = frame["user"].ne(frame["user"].shift()).cumsum() - 1
    place = frame.groupby("user").cumcount()
    times = pd.Timestamp(BEGIN) + visit * pd.Timedelta(VISIT) + place * pd.Timedelta(CLICK)
    return Clicks.from_frame(frame.assign(time=times), title_column="title")


@contextmanager
def service(model: Path, live: Path) -> Iterator[str]:
    """Run a live service on a free port until the block ends; yield its address when it is ready."""
    command = [sys.executable, "-m", "bmcd", "serve", str(model), "--live", str(live), "--refresh", str(REFRESH)]
    environment = {name: value for name, value in os.environ.items() if name != KEY}
    process = subprocess.Popen(
        [*command, "--port", "0", "--quiet"], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("http"):
            raise OutputError("the service did not start; its error is printed above.")
        address, end = line.split()[0], time.monotonic() + PATIENCE
        while True:
            try:
                urllib.request.urlopen(f"{address}health/ready", timeout=PATIENCE).close()
                break
            except OSError as error:
                if time.monotonic() > end:
                    raise BmcdError(f"the service was not ready within {PATIENCE:g} s: {error}.") from None
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
