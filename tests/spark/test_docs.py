"""The two jobs of docs/scale.md run as they stand there."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest

import bmcd

pytestmark = pytest.mark.xdist_group("spark")  # one session for all of them

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"


def test_the_jobs_run(spark, simulation, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    recommend, fit = (block for block in blocks if block.startswith("import sys"))
    clicks, model, output = (str(tmp_path / name) for name in ("clicks.parquet", "model.bmcd", "found.parquet"))
    simulation.clicks.to_frame().to_parquet(clicks)
    # As it stands but for the sizes: a chain of 40 tastes on so few users is as good as 64 of them.
    small = fit.replace("Tastes(40)", "Tastes(3)").replace("chains=64", "chains=2, draws=4, warmup=5")
    assert small != fit
    for job, arguments in ((small, [clicks, model]), (recommend, [clicks, model, output])):
        monkeypatch.setattr(sys, "argv", ["job.py", *arguments])
        exec(compile(job, "docs/scale.md", "exec"), {})
    found = pd.read_parquet(output)
    assert set(found["user"]) == set(range(300))
    assert bmcd.load(model).draws_.n_chains == 2
