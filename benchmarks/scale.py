"""What many users and many items cost on one machine: python benchmarks/scale.py log|growth [options]

log     A log from the Tastes model: read, fit to samples of users, and everybody scored to parquet, by the commands
        that people use; beside it implicit's ALS, fit and recommend, on the same clicks. Minutes, peak memory and
        accuracy. `log --users 1000000 --items 1000` is the full run.
figure  The exponents and the figure once more, from what `growth` kept in scale_growth.json.
growth  Cost of a sweep and of a score against users (1,000 up to --users) and items (100 up to --items), for BMCD
        and Tastes, with the exponents, as a table and a figure. `growth --users 1000000 --items 10000` is the full
        run; the exact law of the first item, and so Tastes with the footrule, ends at 10,000 items.

Each step of `log` is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import bmcd
from bmcd.errors import ConvergenceWarning
from bmcd.plots.style import BLUE, GREY, new_figure

HERE = Path(__file__).parent
ROWS = HERE / "scale_growth.json"
FIGURE = HERE.parent / "docs" / "figures" / "scale.png"
# Clicks of each user that are held out, and recommendations that are held against them.
HELD_OUT, K = 2, 10
# In `growth`: tastes, clusters, clicks of a user.
TASTES, CLUSTERS, CLICKS = 40, 5, 10
# Sweeps that are timed, of all users together: as many as make so many users, but at least and at most so many.
SWEPT = {"Tastes": (400_000, 4, 200), "BMCD": (4_000, 4, 20)}
# Users are scored for about this many; their cost is the same for each.
SCORED = 2_000
FACTORS, ITERATIONS, CHUNK = 32, 15, 5_000
STEPS = ("simulate", "split", "fit", "recommend", "ALS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("log", "growth", "figure", "als"))
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--max-users", default="50000", help="users of each chain, or auto (log)")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--most-of-bmcd", type=int, default=10_000, help="users for BMCD at most (growth)")
    parser.add_argument("--folder", type=Path, help="where the files of `log` go, and stay: it goes on from there")
    parser.add_argument("--until", choices=STEPS, default=STEPS[-1], help="the last step of `log` that is run")
    given = parser.parse_args()
    if given.what == "growth":
        growth(given.users, given.items, given.most_of_bmcd)
    elif given.what == "figure":
        show(json.loads(ROWS.read_text()))
    elif given.what == "als":
        als(given.folder)
    elif given.folder is not None:
        log(given, given.folder)
    else:
        with tempfile.TemporaryDirectory() as folder:
            log(given, Path(folder))


# ---------------------------------------------------------------------------------------------------- one large log


def log(given: argparse.Namespace, folder: Path) -> None:
    clicks, train, test, model = (
        folder / name for name in ("c.parquet", "train.parquet", "test.parquet", "m.bmcd")
    )
    sizes = ("--users", given.users, "--items", given.items)
    split = ("--train", train, "--test", test, "-k", HELD_OUT, "--keep", 2, "--too-few", "drop")
    fit = ("--model", "tastes", "--max-users", given.max_users, "--chains", given.chains)
    commands: dict[str, tuple[Any, ...]] = {
        "simulate": ("simulate", "--model", "tastes", *sizes, "-o", clicks),
        "split": ("split", clicks, *split),
        "fit": ("fit", train, "-o", model, *fit, "--json"),
        "recommend": ("recommend", model, "-k", K, "-o", folder / "tastes.parquet"),
    }
    lines = {name: ["-m", "bmcd", *map(str, command), "--quiet"] for name, command in commands.items()}
    lines["ALS"] = [str(Path(__file__)), "als", "--folder", str(folder)]
    for name in STEPS[: STEPS.index(given.until) + 1]:
        measure(name, [sys.executable, *lines[name]], folder)
    if given.until != STEPS[-1]:
        return
    print((folder / "ALS.txt").read_text().strip())
    said = json.loads((folder / "fit.txt").read_text())
    print(f"fit: {said['verdict']}")
    if said["user_sample"]:
        print(f"fit: {said['user_sample']['reason']}")
    for name in ("tastes", "als"):
        hits, n = hits_of(folder / f"{name}.parquet", test)
        error = np.sqrt(hits * (1 - hits) / n)
        print(f"{name}: {hits:.4f} of {n:,} recommendations are hits (standard error about {error:.4f})")


def measure(name: str, command: list[str], folder: Path) -> None:
    """Run a command in a process of its own, unless that is done, and print its minutes and its peak memory."""
    told = folder / f"{name}.cost"
    if not told.exists():
        began = time.monotonic()
        with (folder / f"{name}.txt").open("wb") as file:
            child = os.posix_spawn(
                command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, file.fileno(), 1)]
            )
            _, status, used = os.wait4(child, 0)
        if status:
            raise SystemExit(f"{name} failed: {' '.join(command)}")
        taken, cpu = time.monotonic() - began, used.ru_utime + used.ru_stime
        cost = f"{taken / 60:.2f} min, {cpu / 60:.2f} CPU min, peak {used.ru_maxrss / 1e6:.2f} GB"
        told.write_text(f"{name}: {cost}\n")
    print(told.read_text().strip(), flush=True)


def als(folder: Path) -> None:
    """Fit ALS to the training clicks of a folder, and write its recommendations there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    began = time.monotonic()
    train = bmcd.read_clicks(folder / "train.parquet")
    read = time.monotonic()
    model = bmcd.baselines.ALS(factors=FACTORS, iterations=ITERATIONS).fit(train)
    fitted = time.monotonic()
    writer = None
    for first in range(0, train.n_users, CHUNK):
        found = model.recommend(K, users=train.users[first : first + CHUNK].tolist())
        table = pa.Table.from_pandas(found, preserve_index=False)
        writer = writer or pq.ParquetWriter(folder / "als.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    done = time.monotonic()
    parts = {"read": read - began, "fit": fitted - read, "recommend": done - fitted}
    print("ALS, minutes: " + ", ".join(f"{name} {taken / 60:.2f}" for name, taken in parts.items()))


def hits_of(recommended: Path, test: Path) -> tuple[float, int]:
    """Return the share of recommendations that are test clicks, and how many there are."""
    import pandas as pd

    shown = pd.read_parquet(recommended, columns=["user", "item"])
    clicked = pd.read_parquet(test, columns=["user", "item"])
    pairs = [frame["user"].to_numpy() * 2**20 + frame["item"].to_numpy() for frame in (shown, clicked)]
    return float(np.isin(*pairs).mean()), len(shown)


# ----------------------------------------------------------------------------------------------- cost against sizes


def growth(most_users: int, most_items: int, most_of_bmcd: int) -> None:
    users = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= most_users]
    items = [n for n in (100, 200, 400, 800, 1_000, 2_000, 4_000, 8_000) if n <= most_items]
    for model in SWEPT:  # loads and compiles
        cost(model, "users", 100, 50)
    rows = [cost("Tastes", "users", n, 200) for n in users]
    rows += [cost("BMCD", "users", n, 200) for n in users if n <= most_of_bmcd]
    rows += [cost("Tastes", "items", 2_000, n) for n in items]
    rows += [cost("BMCD", "items", 1_000, n) for n in items if n <= 1_000]
    ROWS.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Print the exponents, and draw the figure."""
    curves: dict[tuple[str, str, str], tuple[list[int], list[float]]] = {}
    for row in rows:
        for what in ("sweep", "score"):
            x, y = curves.setdefault((row["against"], what, row["model"]), ([], []))
            x.append(row[row["against"]])
            y.append(row[what])
    for (against, what, model), (x, y) in curves.items():
        known = len(x) > 1
        exponent = np.polyfit(np.log(x), np.log(y), 1)[0] if known else np.nan
        late = np.log(y[-1] / y[-2]) / np.log(x[-1] / x[-2]) if known else np.nan
        print(f"{model}, {what} against {against}: exponent {exponent:.2f}, between the last two {late:.2f}")
    draw(curves)


def cost(model: str, against: str, n_users: int, n_items: int) -> dict[str, Any]:
    """Return CPU seconds of a sweep of one chain, and of the scores of one user."""
    clicks = bmcd.simulate_tastes(n_users, n_items, n_tastes=TASTES, mean_clicks=CLICKS, seed=1).clicks
    times, (users_swept, least, most) = [], SWEPT[model]
    n_sweeps = min(most, max(least, users_swept // n_users))
    kind: Any = bmcd.Tastes(TASTES, chains=1) if model == "Tastes" else bmcd.BMCD(CLUSTERS, start="random")
    warnings.simplefilter("ignore", ConvergenceWarning)  # so few sweeps cannot converge
    for sweeps in (1, 1 + n_sweeps):  # what is left out of the difference: the start, and all that is done once
        began = time.process_time()
        fitted = kind.fit(clicks, draws=1, warmup=sweeps, thin=1, chains=1, n_threads=1, progress=False)
        times.append(time.process_time() - began)
    people = clicks.of_users(np.arange(min(SCORED if model == "Tastes" else SCORED // 10, n_users)))
    began = time.process_time()
    fitted.recommend_for(people, K, n_threads=1, progress=False)
    score = (time.process_time() - began) / people.n_users
    row = {"model": model, "against": against, "users": n_users, "items": n_items}
    row |= {"sweep": max(times[1] - times[0], 1e-9) / n_sweeps, "score": score, "start": times[0]}
    print(
        f"{model}: {n_users:,} users, {n_items:,} items: sweep {row['sweep']:.4f} CPU s, start {row['start']:.2f}, "
        f"a user scored from one draw in {1e3 * score:.3f} ms",
        flush=True,
    )
    return row


def draw(curves: dict[tuple[str, str, str], tuple[list[int], list[float]]]) -> None:
    figure = new_figure(8.4, 5.6, None)
    panels = figure.subplots(2, 2)
    labels = {"users": "users (200 items)", "items": "items (Tastes: 2,000 users, BMCD: 1,000)"}
    units = {"sweep": ("CPU s a sweep", 1.0), "score": ("CPU ms a user and draw", 1e3)}
    for row, (what, (unit, factor)) in zip(panels, units.items(), strict=True):
        for axes, against in zip(row, labels, strict=True):
            for model, color in (("BMCD", GREY), ("Tastes", BLUE)):
                x, y = curves.get((against, what, model), ([], []))
                axes.loglog(x, factor * np.array(y), color=color, marker="o", markersize=4, label=model)
            axes.set_xlabel(labels[against])
            axes.set_ylabel(unit)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
                axis.set_minor_formatter(lambda *_: "")
    panels[0, 0].legend()
    figure.savefig(FIGURE, dpi=120)
    print(f"figure: {FIGURE}")


if __name__ == "__main__":
    main()
