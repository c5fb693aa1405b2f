"""What many users and many items cost on one machine: python benchmarks/scale.py log|growth [options]

log     A log from the Tastes model: read, fit to samples of users, and everybody scored to parquet, by the commands
        that people use; beside it implicit's ALS, fit and recommend, on the same clicks. Minutes, peak memory and
        accuracy. `log --users 1000000 --items 1000` is the full run.
figure  The exponents and the figure once more, from what `growth` kept in scale_growth.json.
growth  CPU time of a sweep and of a score against users (1,000 up to --users) and items (100 up to --items), for
        BMCD and Tastes, with the exponents, as a table and a figure. `growth --users 1000000 --items 10000` is the
        full run; the exact law of the first item, and so Tastes with the footrule, ends at 10,000 items. What is in
        scale_growth.json is not measured again: remove it first.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import bmcd
from bmcd.errors import ConvergenceWarning
from bmcd.inference.bmcd.sampler import ExactSampler
from bmcd.inference.tastes.sampler import TasteSampler
from bmcd.plots.style import BLUE, GREY, new_figure

HERE = Path(__file__).parent
ROWS = HERE / "scale_growth.json"
FIGURE = HERE.parent / "docs" / "figures" / "scale.png"
# Clicks of each user that are held out, and recommendations that are held against them.
HELD_OUT, K = 2, 10
# In `growth`: tastes, clusters, clicks of a user.
TASTES, CLUSTERS, CLICKS = 40, 5, 10
# Sweeps that are timed: as many as make so many users in all, but at least and at most so many.
SWEPT = {"Tastes": (100_000, 3, 50), "BMCD": (4_000, 1, 20)}
# Items while users grow, and users while items grow: BMCD takes longer, so it has fewer.
FIXED_ITEMS, FIXED_USERS = {"Tastes": 200, "BMCD": 50}, {"Tastes": 2_000, "BMCD": 200}
# Users who are scored, fewer where items are many; their cost is the same for each.
SCORED = {"Tastes": 2_000, "BMCD": 200}
FACTORS, ITERATIONS, CHUNK = 32, 15, 5_000
# Users with whom the settings of ALS are chosen; confidence and penalty, with FACTORS; then the number of factors.
ALS_USERS, ALS_FACTORS = 20_000, (16, 32, 64)
ALS_WEIGHTS = ((1.0, 2.0), (1.0, 8.0), (1.0, 32.0), (5.0, 8.0), (5.0, 32.0), (5.0, 64.0), (20.0, 128.0))
STEPS = ("simulate", "split", "fit", "recommend", "ALS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("log", "growth", "figure", "als"))
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--max-users", default="50000", help="users of each chain, or auto (log)")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--folder", type=Path, help="where the files of `log` go, and stay: it goes on from there")
    parser.add_argument("--until", choices=STEPS, default=STEPS[-1], help="the last step of `log` that is run")
    given = parser.parse_args()
    if given.what == "growth":
        growth(given.users, given.items)
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
        print(f"{name}: {hits:.5f} of {n:,} recommendations are hits (standard error about {error:.5f})")


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
    """Choose settings of ALS on training clicks, fit it to all of them, and write its recommendations."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    clock = [time.process_time()]
    train = bmcd.read_clicks(folder / "train.parquet")
    clock.append(time.process_time())
    best = als_settings(train)
    clock.append(time.process_time())
    model = bmcd.baselines.ALS(**best).fit(train)
    clock.append(time.process_time())
    writer = None
    for first in range(0, train.n_users, CHUNK):
        found = model.recommend(K, users=train.users[first : first + CHUNK].tolist())
        table = pa.Table.from_pandas(found, preserve_index=False)
        writer = writer or pq.ParquetWriter(folder / "als.parquet", table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    clock.append(time.process_time())
    parts = zip(("read", "choose settings", "fit", "recommend"), np.diff(clock), strict=True)
    print("ALS, CPU minutes: " + ", ".join(f"{name} {taken / 60:.2f}" for name, taken in parts))


def als_settings(train: bmcd.Clicks) -> dict[str, Any]:
    """Return the settings with the most hits among clicks held out of the training clicks of some users.

    First confidence and penalty are chosen, then the number of factors.
    """
    enough = np.flatnonzero(train.per_user >= HELD_OUT + 2)
    some = np.sort(np.random.default_rng(0).permutation(enough)[:ALS_USERS])
    inner, held = train.of_users(some).hold_out(HELD_OUT, seed=0)
    tried: dict[tuple[int, float, float], float] = {}

    def hits(setting: tuple[int, float, float]) -> float:
        if setting not in tried:
            found = bmcd.baselines.ALS(**named(setting)).fit(inner).recommend(K)
            clicked = held.matrix[held.rows_of(found["user"]), held.columns_of(found["item"])]
            tried[setting] = float(np.asarray(clicked).mean())
            print(f"ALS on {inner.n_users:,} users: {named(setting)}: {tried[setting]:.5f} hits", flush=True)
        return tried[setting]

    def named(setting: tuple[int, float, float]) -> dict[str, Any]:
        return {**dict(zip(("factors", "alpha", "regularization"), setting, strict=True)), "iterations": ITERATIONS}

    _, alpha, penalty = max(((FACTORS, *pair) for pair in ALS_WEIGHTS), key=hits)
    factors, *_ = max(((number, alpha, penalty) for number in ALS_FACTORS), key=hits)
    return named((factors, alpha, penalty))


def hits_of(recommended: Path, test: Path) -> tuple[float, int]:
    """Return the share of recommendations that are test clicks, and how many there are."""
    import pandas as pd

    shown = pd.read_parquet(recommended, columns=["user", "item"])
    clicked = pd.read_parquet(test, columns=["user", "item"])
    pairs = [frame["user"].to_numpy() * 2**20 + frame["item"].to_numpy() for frame in (shown, clicked)]
    return float(np.isin(*pairs).mean()), len(shown)


# ----------------------------------------------------------------------------------------------- cost against sizes


def growth(most_users: int, most_items: int) -> None:
    """Measure what is not among the rows yet, the smallest first."""
    users = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000) if n <= most_users]
    items = [n for n in (100, 200, 400, 1_000, 2_000, 4_000, 10_000) if n <= most_items]
    rows = json.loads(ROWS.read_text()) if ROWS.exists() else []
    done = {tuple(row[name] for name in ("model", "against", "users", "items")) for row in rows}
    sizes = [(model, "users", n, FIXED_ITEMS[model]) for model in SWEPT for n in users]
    sizes += [(model, "items", FIXED_USERS[model], n) for model in SWEPT for n in items]
    for model in SWEPT:
        cost(model, "users", 100, 50)  # loads and compiles
    for size in sorted(set(sizes) - done, key=lambda size: size[2] * size[3]):
        rows.append(cost(*size))
        rows.sort(key=lambda row: (row["against"], row["model"], row["users"], row["items"]))
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
    """Return CPU seconds of a sweep of one chain, of all else in a fit, and of the scores of one user."""
    clicks = bmcd.simulate_tastes(n_users, n_items, n_tastes=TASTES, mean_clicks=CLICKS, seed=1).clicks
    users_swept, least, most = SWEPT[model]
    # The first sweeps of Tastes also make tables, one for each scale they meet: there must be more of others.
    fewer = max(1, n_items // 200) if model == "BMCD" else 1
    n_sweeps = min(most, max(least, users_swept // n_users // fewer))
    kind: Any = bmcd.Tastes(TASTES, chains=1) if model == "Tastes" else bmcd.BMCD(CLUSTERS, start="random")
    warnings.simplefilter("ignore", ConvergenceWarning)  # so few sweeps cannot converge
    began = time.process_time()
    with timed_sweeps(TasteSampler if model == "Tastes" else ExactSampler) as sweeps:
        fitted = kind.fit(clicks, draws=1, warmup=n_sweeps, thin=1, chains=1, n_threads=1, progress=False)
    rest = time.process_time() - began - sum(sweeps)
    scored = max(20, min(SCORED[model], SCORED[model] * 200 // n_items))
    people = clicks.of_users(np.arange(min(scored, n_users)))
    fitted.recommend_for(people.of_users([0]), K, n_threads=1, progress=False)  # makes the draws ready
    began = time.process_time()
    fitted.recommend_for(people, K, n_threads=1, progress=False)
    score = (time.process_time() - began) / people.n_users
    row = {"model": model, "against": against, "users": n_users, "items": n_items}
    # The first sweep is left out: it meets empty caches.
    row |= {"sweep": float(np.median(sweeps[1:])), "score": score, "rest": rest}
    print(
        f"{model}: {n_users:,} users, {n_items:,} items: sweep {row['sweep']:.4f} CPU s, rest of a fit {rest:.2f}, "
        f"a user scored from one draw in {1e3 * score:.3f} ms",
        flush=True,
    )
    return row


@contextmanager
def timed_sweeps(sampler: Any) -> Iterator[list[float]]:
    """Give a list of the CPU seconds of every sweep that such a sampler makes meanwhile."""
    own, found = sampler.sweep, []

    def sweep(*arguments: Any) -> Any:
        began = time.thread_time()
        info = own(*arguments)
        found.append(time.thread_time() - began)
        return info

    sampler.sweep = sweep
    try:
        yield found
    finally:
        sampler.sweep = own


def draw(curves: dict[tuple[str, str, str], tuple[list[int], list[float]]]) -> None:
    figure = new_figure(8.4, 5.6, None)
    panels = figure.subplots(2, 2, sharey="row")
    labels = {
        "users": f"users (Tastes: {FIXED_ITEMS['Tastes']:,} items, BMCD: {FIXED_ITEMS['BMCD']:,})",
        "items": f"items (Tastes: {FIXED_USERS['Tastes']:,} users, BMCD: {FIXED_USERS['BMCD']:,})",
    }
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
