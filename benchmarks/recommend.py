"""How long an answer takes: one person, many people, a file. Run: python benchmarks/recommend.py

200 items, 17 clusters, 100 stored draws of a short fit, which is not timed: to simulated clicks of the shape of the
paper's data (median 8 clicks, alpha = 10), and to `eshop`, whose users belong to several clusters each.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import bmcd
from bmcd.models.bmcd_predictor import PreparedDraws


def seconds(call, *args, **options) -> float:
    began = time.perf_counter()
    call(*args, **options)
    return time.perf_counter() - began


def measure(name: str, clicks: bmcd.Clicks, n_alone: int = 200, n_together: int = 512) -> None:
    model = bmcd.BMCD(17).fit(clicks, draws=25, warmup=15, chains=4, seed=0)
    own = clicks.items[clicks.matrix.indices].tolist()
    histories = [own[a:b] for a, b in pairwise(clicks.matrix.indptr.tolist())][:n_together]
    model.recommend_for(histories[:1])  # the first call makes the tables
    model.recommend_for(histories[:1], max_draws=None)
    alone = [seconds(model.recommend_for, [history], 10) for history in histories[:n_alone]]
    of_all = [seconds(model.recommend_for, [history], 10, max_draws=None) for history in histories[:n_alone]]
    together = seconds(model.recommend_for, histories, 10) / len(histories)
    known = seconds(model.recommend, 10, users=clicks.users[:n_together]) / len(histories)
    active = (PreparedDraws(model.draws_, None).memberships(clicks.matrix[:100]) > 0).sum(axis=2).mean()
    print(f"\n{name}: {active:.1f} of 17 clusters matter for a user in a draw")
    median, most = np.quantile(alone, [0.5, 0.9]) * 1e3
    print(f"  one new person (from 20 draws, the default): median {median:.1f} ms, 90 % within {most:.1f} ms")
    print(f"  ... from all 100 draws: median {np.median(of_all) * 1e3:.1f} ms")
    print(f"  {len(histories)} new people in one call: {together * 1e3:.1f} ms each")
    print(f"  {len(histories)} users of the fit in one call: {known * 1e3:.1f} ms each")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.bmcd")
        saved, loaded = seconds(model.save, path), seconds(bmcd.load, path)
        print(f"  file of {path.stat().st_size / 1e6:.1f} MB: written in {saved:.2f} s, opened in {loaded:.2f} s")


def main() -> None:
    like_the_papers = bmcd.simulate(2000, 200, consensuses=17, alpha=10, mean_clicks=8, seed=0).clicks
    measure("simulated, alpha = 10", like_the_papers)
    measure("eshop", bmcd.load_dataset("eshop").most_clicked(200).at_least(13).hold_out(10, seed=0)[0])


if __name__ == "__main__":
    main()
