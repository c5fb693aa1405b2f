"""Has anything that README and documentation quote become slower? python benchmarks/guard.py

Old and new code run the same figures in turns, in one go on this machine: CPU seconds on one thread, the best of
some rounds. It fails if new takes more than a third longer than old; a figure that does is measured again first,
with three times the rounds. Old is the revision in benchmarks/reference_revision.txt, or the one given.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).with_name("reference_revision.txt")
MOST = 4 / 3
ROUNDS = 5


def likelihood() -> Callable[[], Any]:
    """Exact log-likelihoods: 500 users, 200 items, 3 clusters (docs/model.md)."""
    import bmcd

    simulated = bmcd.simulate(500, 200, consensuses=3, mean_clicks=9.0, seed=0)
    return lambda: [bmcd.mallows.log_likelihood(simulated.clicks.matrix, simulated.rho, 3.0) for _ in range(20)]


def _shop(n_items: int = 60) -> Any:
    import bmcd

    return bmcd.load_dataset("eshop").most_clicked(n_items).at_least(8).split_users(0.15)[0]


def bmcd_exact() -> Callable[[], Any]:
    """A short fit of BMCD, sampler "exact"."""
    import bmcd

    shop = _shop()
    return lambda: bmcd.BMCD(6).fit(shop, draws=10, warmup=10, chains=1, progress=False)


def bmcd_paper() -> Callable[[], Any]:
    """A short fit of BMCD, sampler "paper"."""
    import bmcd

    shop = _shop()
    return lambda: bmcd.BMCD(6, sampler="paper").fit(shop, draws=20, warmup=1000, chains=1, progress=False)


def tastes() -> Callable[[], Any]:
    """A short fit of Tastes."""
    import bmcd

    shop = _shop()
    return lambda: bmcd.Tastes(10, chains=1).fit(shop, draws=20, warmup=40, progress=False)


def bmcd_people() -> Callable[[], Any]:
    """Recommendations of BMCD for people it has not seen."""
    import bmcd

    shop = _shop()
    model = bmcd.BMCD(6).fit(shop, draws=10, warmup=10, chains=1, progress=False)
    people = shop.of_users(range(200))
    return lambda: model.recommend_for(people, k=10, progress=False)


def _visits() -> Any:
    import bmcd

    return bmcd.load_dataset("eshop").split_users(0.8)


def blend_fit() -> Callable[[], Any]:
    """Blend, fitted to the first 80 % of the shop's visits: the README's first example."""
    import bmcd

    earlier = _visits()[0]
    return lambda: bmcd.Blend().fit(earlier)


def blend_people() -> Callable[[], Any]:
    """... and asked about 1,000 later visits."""
    import bmcd

    earlier, later = _visits()
    model = bmcd.Blend().fit(earlier)
    histories = later.moments(k=3, seed=1)[0].of_users(range(1000))
    return lambda: model.recommend_for(histories, k=3)


def reading() -> Callable[[], Any]:
    """A csv file of 300,000 clicks with times."""
    import numpy as np

    import bmcd

    rng, n = np.random.default_rng(0), 300_000
    columns = (
        rng.integers(0, 40_000, n),
        rng.zipf(1.3, n) % 5000,
        np.sort(rng.integers(1_700_000_000, 1_701_000_000, n)),
    )
    file = Path(tempfile.mkdtemp()) / "clicks.csv"
    file.write_text("user,item,time\n" + "".join(f"u{u},i{i},{t}\n" for u, i, t in zip(*columns, strict=True)))
    return lambda: bmcd.read_clicks(file)


def starting() -> Callable[[], Any]:
    """`bmcd --help` and `import bmcd; bmcd.Blend()`, each in a process of its own."""
    codes = ["from bmcd.cli import app", "import bmcd; bmcd.Blend()"]
    return lambda: [subprocess.run([sys.executable, "-c", code], check=True) for code in codes]


FIGURES = (likelihood, bmcd_exact, bmcd_paper, tastes, bmcd_people, blend_fit, blend_people, reading, starting)


def cpu() -> float:
    """Return the CPU seconds of this process and of those it has waited for."""
    return sum(os.times()[:4])


def work() -> None:
    """Measure what standard input names, a line each; every figure runs once before it is measured."""
    ready: dict[str, Callable[[], Any]] = {}
    for name in map(str.strip, sys.stdin):
        if name not in ready:
            ready[name] = next(figure for figure in FIGURES if figure.__name__ == name)()
            ready[name]()
        began = cpu()
        ready[name]()
        print(json.dumps(cpu() - began), flush=True)


class Worker:
    """A process that measures one version of the package."""

    def __init__(self, source: Path) -> None:
        single = dict.fromkeys(("BMCD_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment = os.environ | single | {"PYTHONPATH": str(source), "BMCD_QUIET": "1"}
        command = [sys.executable, "-W", "ignore", __file__, "--work"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def seconds(self, figure: str) -> float:
        """Measure a figure once."""
        assert self.process.stdin
        assert self.process.stdout
        print(figure, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{figure} failed, see above")
        return float(json.loads(line))


def check_out(revision: str, folder: Path) -> Path:
    """Write the package as it was at a revision into a folder."""
    archive = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        said = archive.stderr.decode().strip()
        sys.exit(f"{said}\nThe reference is not in this clone: git fetch --unshallow, or give another revision.")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder / "src"


def main() -> None:
    """Compare, print a table, and fail if something got slower by more than a third."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=REFERENCE.read_text().split()[0], help="a revision of git")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--only", nargs="*", default=[figure.__name__ for figure in FIGURES], help="names of figures"
    )
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
        return
    slower = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        old, new = Worker(check_out(given.against, Path(folder))), Worker(ROOT / "src")
        print(f"{'CPU ms, one thread':22}{'old':>10}{'new':>10}{'new / old':>12}   (old: {given.against[:12]})")
        for name in given.only:
            best = {old: float("inf"), new: float("inf")}
            for rounds in (given.rounds, 3 * given.rounds):
                for _ in range(rounds):
                    for version in best:
                        best[version] = min(best[version], version.seconds(name))
                ratio = best[new] / best[old]
                if ratio <= MOST:
                    break
            slower += [name] if ratio > MOST else []
            print(f"{name:22}{1000 * best[old]:10.0f}{1000 * best[new]:10.0f}{ratio:12.2f}", flush=True)
        for version in (old, new):
            version.process.kill()
            version.process.wait()
    print(f"{time.monotonic() - began:.0f} s")
    if slower:
        sys.exit(f"slower by more than a third: {', '.join(slower)}")


if __name__ == "__main__":
    main()
