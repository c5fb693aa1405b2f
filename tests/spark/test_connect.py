"""Under Spark Connect the model travels as an artifact, and the numbers are the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.simulation import simulate_log

pytestmark = pytest.mark.xdist_group("spark")  # they share the machine with one session

JOB = Path(__file__).with_name("connect_job.py")


@pytest.mark.deep
def test_numbers_are_those_of_the_local_call(require, spark, model, model_file, simulation, tmp_path):
    for package in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        require(package)
    clicks = simulation.clicks
    clicks.to_frame().to_parquet(tmp_path / "clicks.parquet")
    hours = list(simulate_log(400, 60, mean_clicks=8.0, days=2, seed=2))
    log = pd.DataFrame({name: np.concatenate([hour[name] for hour in hours]) for name in hours[0]})
    log.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "model.bmcd").write_bytes(model_file.read_bytes())
    environment = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "SPARK_REMOTE")}
    environment |= {"PYSPARK_PYTHON": sys.executable, "BMCD_QUIET": "1"}
    ended = subprocess.run(
        [sys.executable, str(JOB), str(tmp_path)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    told = json.loads((tmp_path / "measures.json").read_text())
    assert told["session"].startswith("pyspark.sql.connect")
    found = pd.read_parquet(tmp_path / "found.parquet").sort_values(["user", "rank"], ignore_index=True)
    want = model.recommend_for(clicks, 3).sort_values(["user", "rank"], ignore_index=True)
    for name in want:  # exactly, and not nearly
        assert found[name].tolist() == want[name].tolist(), name
    assert told["n_users"] == clicks.n_users
    assert told["promise"] == pytest.approx(want["probability"].mean(), rel=1e-12)
    # A fit is that of one machine.
    fitted = bmcd.load(tmp_path / "fitted.bmcd").fitted_
    local = bmcd.Blend(refresh="6h").fit(log, seed=5).fitted_
    assert fitted.settings == local.settings
    np.testing.assert_array_equal(fitted.tables.follows.item, local.tables.follows.item)
    np.testing.assert_allclose(fitted.rule.weights, local.rule.weights, rtol=1e-9, atol=1e-9)
