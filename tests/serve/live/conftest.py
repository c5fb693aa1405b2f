"""A small model of clicks with times, in files, and services that follow clicks."""

import numpy as np
import pandas as pd
import pytest

import bmcd

START = pd.Timestamp("2026-03-01")
DAYS = 5


@pytest.fixture(scope="session")
def rows():
    """Visits over some days: what follows an item is nearly fixed; ids of items are text."""
    rng = np.random.default_rng(4)
    found = []
    for user in range(600):
        time = START + pd.Timedelta(hours=float(rng.random() * 24 * DAYS))
        item = int(rng.integers(0, 25))
        for _ in range(int(rng.integers(2, 9))):
            found.append((f"u{user}", f"i{item}", time.round("s")))
            item = (item + int(rng.choice([1, 2, 3, 7], p=[0.6, 0.2, 0.1, 0.1]))) % 25
            time += pd.Timedelta(minutes=float(rng.exponential(6)))
    frame = pd.DataFrame(found, columns=["user", "item", "time"])
    return frame.sort_values("time", kind="stable", ignore_index=True)


@pytest.fixture(scope="session")
def end(rows):
    """The time of the last click of the model."""
    return rows["time"].max()


@pytest.fixture(scope="session")
def model(rows, tmp_path_factory):
    """The file of a blend of counts."""
    path = tmp_path_factory.mktemp("live-model") / "model.bmcd"
    clicks = bmcd.Clicks.from_frame(rows, titles={f"i{n}": f"Item {n}" for n in range(25)})
    bmcd.Blend(refresh="1h").fit(clicks, seed=1, progress=False).save(path)
    return path
