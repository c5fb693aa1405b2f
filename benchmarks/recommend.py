"""How long an answer takes: one person, thousands of people, a file. Run: python benchmarks/recommend.py

200 items, 17 clusters, 100 stored draws of a short fit to `eshop`. The fit itself is not timed.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import bmcd


def seconds(call, *args, **options) -> float:
    began = time.perf_counter()
    call(*args, **options)
    return time.perf_counter() - began


def main() -> None:
    clicks = bmcd.load_dataset("eshop").most_clicked(200).at_least(13)
    train, _ = clicks.hold_out(10, seed=0)
    model = bmcd.BMCD(17).fit(train, draws=25, warmup=15, chains=4, seed=0)
    own = train.items[train.matrix.indices].tolist()
    starts = train.matrix.indptr.tolist()
    histories = [own[a:b] for a, b in pairwise(starts)]
    model.recommend_for(histories[:1])  # the first call makes the tables

    alone = [seconds(model.recommend_for, [history], 10) for history in histories[:300]]
    most = np.quantile(alone, 0.9) * 1e3
    print(f"one new person        : median {np.median(alone) * 1e3:6.1f} ms, 90 % within {most:.1f} ms")
    some = seconds(model.recommend_for, histories, 10) / len(histories)
    print(f"{len(histories):,} new people      : {some * 1e3:6.2f} ms each, in one call")
    known = seconds(model.recommend, 10) / train.n_users
    print(f"{train.n_users:,} users of the fit : {known * 1e3:6.2f} ms each, in one call")
    print(f"new people take {some / known:.2f} times as long as users of the fit")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.bmcd")
        saved = seconds(model.save, path)
        loaded = seconds(bmcd.load, path)
        print(
            f"file of {path.stat().st_size / 1e6:.1f} MB      : written in {saved:.2f} s, opened in {loaded:.2f} s"
        )


if __name__ == "__main__":
    main()
