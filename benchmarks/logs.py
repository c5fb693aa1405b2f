"""What large logs cost Blend on one machine: CPU seconds and peak memory against users, items and clicks.

    python benchmarks/logs.py growth -o growth.json      # exponents; smaller with --base 30000
    python benchmarks/logs.py log clicks.parquet         # one log: read, fit, ten items for everybody
    python benchmarks/logs.py spark clicks.parquet       # the same fit in Spark, local[2], 4 GB

Logs are those of `bmcd simulate --model log`: a long tail of items that come and go, sessions, repeated clicks.
Each step is a process of its own, run as people run it, so that CPU seconds and peak memory are its own: reading
alone, `bmcd fit --refresh 1d` (reading included), `bmcd recommend -o lists.parquet` for every user. Of users, items
and clicks per user one grows fourfold, twice, while the others stay; the exponent is the slope of log(CPU seconds)
against log(size), after the seconds that an empty run takes are taken away.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

READ = "import sys, bmcd; bmcd.read_clicks(sys.argv[1])"
SPARK = """
import sys, time, resource, warnings
warnings.simplefilter("ignore")
import bmcd
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
         .config("spark.sql.shuffle.partitions", "8").config("spark.ui.enabled", "false").getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
began = time.monotonic()
bmcd.spark.fit(spark.read.parquet(sys.argv[1]), bmcd.Blend(refresh="1d")).save(sys.argv[2])
print(f"{time.monotonic() - began:.0f} s, all of Spark included", file=sys.stderr)
"""
START = "import bmcd; bmcd.Blend; import bmcd.cli.fit"
STEPS = ("read", "fit", "recommend")


def run(*command: str) -> dict[str, float]:
    """Run Python with these arguments; return CPU seconds and peak memory in GB."""
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawn(
            sys.executable, [sys.executable, *command], os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)],
        )  # fmt: skip
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    return {"cpu": round(used.ru_utime + used.ru_stime, 2), "gb": round(used.ru_maxrss / 1e6, 3)}


def steps(clicks: Path, folder: Path, refresh: str = "1d") -> dict[str, dict[str, float]]:
    """Read, fit and recommend; return what each cost."""
    model = folder / "model.bmcd"
    return {
        "read": run("-c", READ, str(clicks)),
        "fit": run("-m", "bmcd", "fit", str(clicks), "-o", str(model), "--refresh", refresh, "--quiet"),
        "recommend": run(
            "-m", "bmcd", "recommend", str(model), "-k", "10", "-o", str(folder / "lists.parquet"), "--quiet"
        ),
    }


def growth(base: int, output: Path | None) -> None:
    """Measure logs of which one size grows, and print the exponents."""
    sizes = {"users": base, "items": base // 2, "mean": 10}
    plans: dict[str, list[dict[str, int]]] = {
        "users": [{**sizes, "users": base * f} for f in (1, 4, 16)],
        "items": [{**sizes, "items": base // 2 * f} for f in (1, 4, 16)],
        "clicks per user": [{**sizes, "mean": 10 * f} for f in (1, 4, 16)],
    }
    empty, rows, done = run("-c", START)["cpu"], [], dict[str, Any]()
    for against, plan in plans.items():
        for own in plan:
            key = json.dumps(own)
            if key not in done:
                with tempfile.TemporaryDirectory() as folder:
                    clicks = Path(folder) / "clicks.parquet"
                    made = ("--users", own["users"], "--items", own["items"], "--mean-clicks", own["mean"])
                    run("-m", "bmcd", "simulate", "--model", "log", *map(str, made), "-o", str(clicks))
                    done[key] = steps(clicks, Path(folder))
            rows.append({"against": against, **own, **done[key]})
            print(json.dumps(rows[-1]), flush=True)
    for against in plans:
        own_rows = [row for row in rows if row["against"] == against]
        name = {"users": "users", "items": "items"}.get(against, "mean")
        x = np.log([row[name] for row in own_rows])
        slopes = []
        for step in STEPS:
            y = np.log([max(row[step]["cpu"] - empty, 0.05) for row in own_rows])
            slopes.append(f"{step} {np.polyfit(x, y, 1)[0]:.2f} (last {(y[-1] - y[-2]) / (x[-1] - x[-2]):.2f})")
        print(f"exponents against {against}: {', '.join(slopes)}", flush=True)
    if output is not None:
        output.write_text(json.dumps({"start": empty, "rows": rows}, indent=1) + "\n")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("growth", "log", "spark"))
    parser.add_argument("clicks", type=Path, nargs="?")
    parser.add_argument("--base", type=int, default=20_000, help="users of the smallest log")
    parser.add_argument("--refresh", default="1d")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.what == "growth":
        growth(given.base, given.output)
        return
    with tempfile.TemporaryDirectory() as folder:
        if given.what == "log":
            print(json.dumps(steps(given.clicks, Path(folder), given.refresh)))
        else:
            print(json.dumps(run("-c", SPARK, str(given.clicks), str(Path(folder) / "model.bmcd"))))


if __name__ == "__main__":
    main()
