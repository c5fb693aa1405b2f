"""The two jobs of docs/scale.md run as they stand there."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.simulation import simulate_log

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"


@pytest.mark.deep
def test_the_jobs_run(spark, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    recommend, fit = (block for block in blocks if block.startswith("import sys"))
    clicks, model, output = (str(tmp_path / name) for name in ("clicks.parquet", "model.bmcd", "found.parquet"))
    hours = list(simulate_log(400, 60, mean_clicks=8.0, days=3, seed=2))
    log = pd.DataFrame({name: np.concatenate([hour[name] for hour in hours]) for name in hours[0]})
    log.to_parquet(clicks)
    # As it stands but for the length of the windows: an hour of so few users has too few clicks.
    longer = fit.replace('refresh="1h"', 'refresh="12h"')
    assert longer != fit
    for job, arguments in ((longer, [clicks, model]), (recommend, [clicks, model, output])):
        monkeypatch.setattr(sys, "argv", ["job.py", *arguments])
        exec(compile(job, "docs/scale.md", "exec"), {})
    found = pd.read_parquet(output)
    assert set(found["user"]) == set(log["user"])
    assert bmcd.load(model).clicks_.n_users == 0
