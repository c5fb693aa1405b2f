"""CPU time and peak memory of read_clicks against pyarrow and pandas: `python benchmarks/reading.py [rows] [file]`.

The log is simulated, timed and not sorted, unless a file (user, item, time) is given. Each run is a process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PROBE = """
import sys, time
import numpy as np, pandas as pd, pyarrow as pa, pyarrow.csv, pyarrow.parquet, scipy.sparse
import bmcd
read_clicks = bmcd.read_clicks
how, file = sys.argv[1:]
text = ".csv" in file

def status(key):
    return next(int(line.split()[1]) / 1024 for line in open("/proc/self/status") if line.startswith(key))

pd.to_datetime(["2026-01-01"])
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again
before, began = status("VmRSS"), time.process_time()
if how == "bmcd":
    found = read_clicks(file)
elif how == "pandas":
    found = pd.read_csv(file) if text else pd.read_parquet(file)
else:
    found = pa.csv.read_csv(file) if text else pa.parquet.read_table(file)
seconds = time.process_time() - began
table = found.nbytes / 2**20 if how == "pyarrow" else 0
print(seconds, status("VmHWM") - before, table)
"""


def simulated(folder: Path, n: int) -> list[Path]:
    """Write a log with ids that are numbers, and one with ids and dates as text; each as csv and parquet."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(0)
    user, item = rng.integers(0, n // 8, n), (rng.pareto(1.2, n) * 50).astype(np.int64) % 40_000
    time = rng.integers(1_770_000_000_000, 1_772_000_000_000, n)
    numbers = pa.table({"user": user, "item": item, "time": time})
    names = {"user": [f"visitor-{u}" for u in user.tolist()], "item": [f"SKU-{i:05}" for i in item.tolist()]}
    texts = pa.table({**names, "time": pa.array(time, pa.timestamp("ms"))})
    files = []
    for kind, table in (("numbers", numbers), ("text", texts)):
        files += [folder / f"{kind}.csv", folder / f"{kind}.parquet"]
        pa.csv.write_csv(table, files[-2])
        pa.parquet.write_table(table, files[-1])
    return files


def main() -> None:
    """Print the best of three runs of each reader."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(sys.argv[2])] if len(sys.argv) > 2 else simulated(Path(folder), n)
        print("| file | reader | CPU s | peak MiB | table of pyarrow MiB |\n|---|---|---|---|---|")
        for file in files:
            for how in ("bmcd", "pyarrow", "pandas"):
                command = [sys.executable, "-c", PROBE, how, str(file)]
                runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
                columns = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
                seconds, peak, table = (min(column) for column in columns)
                shown = f"{table:.0f}" if table else ""
                print(f"| {file.name} | {how} | {seconds:.2f} | {peak:.0f} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
