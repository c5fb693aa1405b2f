"""Blend beside its rivals on the case study's splits: hits, promises, calibration, diversity, time.

    python benchmarks/blend.py eshop-1 eshop-2 msweb

Settings of all are chosen on training clicks alone: those of Tastes by "auto", of EASE and ALS by `bmcd.tune`.
"""

from __future__ import annotations

import sys
import time

import bmcd
from bmcd.baselines import ALS, EASE
from bmcd.evaluation import paired_difference

# Data, users with at least so many clicks, clicks held out of each.
SETS = {"eshop-1": ("eshop", 13, 10), "eshop-2": ("eshop", 23, 20), "msweb": ("msweb", 6, 3)}
GRIDS = {
    EASE: {"regularization": [10.0, 30.0, 100.0, 300.0, 1000.0]},
    ALS: {"factors": [16, 32], "regularization": [30.0, 60.0, 100.0]},
}
FOLDS = 5


def main(names: list[str]) -> None:
    """Print one line for each method on each set."""
    for name in names:
        data, least, k = SETS[name]
        train, test = bmcd.load_dataset(data).most_clicked(200).at_least(least).hold_out(k, seed=0)
        rivals = {kind: bmcd.tune(kind, train, grid, FOLDS, k).model for kind, grid in GRIDS.items()}
        began, cpu = time.perf_counter(), time.process_time()
        blend = bmcd.Blend({"Tastes": bmcd.Tastes("auto"), "EASE": rivals[EASE]}).fit(train, seed=0, progress=False)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        models = {"Blend(Tastes, EASE)": blend, "Tastes": blend.models_["Tastes"]}
        models |= {f"Blend({kind.__name__})": bmcd.Blend(rival).fit(train) for kind, rival in rivals.items()}
        plain = {kind.__name__: rival.fit(train) for kind, rival in rivals.items()}
        found = {m: bmcd.evaluate(of.recommend(k), train, test, k=k) for m, of in {**models, **plain}.items()}
        best = max(plain, key=lambda rival: found[rival].accuracy)
        print(f"{name}: Blend took {seconds:.0f} s, {cpu:.0f} CPU s; {blend.models_['Tastes'].choice_.reason}")
        for method, of in found.items():
            gap = paired_difference(of, found[best])
            said = f"  {method:<20} {of.accuracy:.2%} hits, {100 * gap.difference:+.2f} ({100 * gap.low:+.2f} to "
            said += f"{100 * gap.high:+.2f}) against {best}, coverage {of.coverage:.3f}, rare {of.rare_share:.1%}"
            if (c := of.calibration) is not None:
                gain = 1 - c.brier / c.uncertainty
                said += (
                    f"; promise {c.mean_probability:.2%}, ECE@k {c.ece_at_k:.4f}, Brier {gain:.1%} below constant"
                )
            print(said, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SETS))
