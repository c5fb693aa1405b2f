"""What the core does without its extras: a process that cannot import them, as after `pip install bmcd`."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import bmcd

pytestmark = pytest.mark.slow

OPTIONAL = (
    *("arviz", "arviz_base", "arviz_stats", "fastapi", "httptools", "implicit", "jinja2", "matplotlib"),
    *("ortools", "polars", "prometheus_client", "pyspark", "sklearn", "starlette", "uvicorn", "xarray"),
)
# What draws or serves imports what it draws or serves with; everything else needs no extra to be imported.
NEED_THEIRS = ("bmcd.plots", "bmcd.reporting", "bmcd.serve")


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Run Python code in a process in which no optional package can be imported."""
    folder = tmp_path_factory.mktemp("bare")
    blocked = "import sys\n" + "".join(f"sys.modules[{name!r}] = None\n" for name in OPTIONAL)
    (folder / "sitecustomize.py").write_text(blocked)
    path = os.pathsep.join([str(folder), str(Path(bmcd.__file__).parents[1])])

    def run(*arguments, cwd=folder):
        return subprocess.run(
            [sys.executable, *map(str, arguments)], env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
            cwd=cwd, capture_output=True, text=True,
        )  # fmt: skip

    return run


def test_every_module_can_be_imported_without_extras(bare):
    code = textwrap.dedent(f"""
        import importlib, json, pkgutil, bmcd
        wrong = {{}}
        for module in pkgutil.walk_packages(bmcd.__path__, "bmcd.", onerror=lambda name: None):
            if module.name != "bmcd.__main__" and not module.name.startswith({NEED_THEIRS!r}):
                try:
                    importlib.import_module(module.name)
                except ImportError as error:
                    wrong[module.name] = str(error)
        print(json.dumps(wrong))
    """)
    found = bare("-c", code)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == {}


def test_features_name_the_extra_that_they_need(bare):
    code = textwrap.dedent("""
        import importlib, json, bmcd
        clicks = bmcd.Clicks.from_matrix([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
        model = bmcd.BMCD(2).fit(clicks, draws=4, warmup=2, chains=2, progress=False)
        uses = {
            "plots": lambda: bmcd.plots.cluster_sizes([1]),
            "report": lambda: bmcd.report(model, clicks, clicks, "report.html"),
            "card": lambda: importlib.import_module("bmcd.reporting.card").html_card(model),
            "to_arviz": lambda: model.to_arviz(),
            "ALS": lambda: bmcd.baselines.ALS().fit(clicks),
            "rerank": lambda: bmcd.rerank(model, k=2, min_exposure=1),
            "spark": lambda: bmcd.spark.fit(None, model),
            "SparkALS": lambda: bmcd.baselines.SparkALS().fit(clicks),
        }
        said = {}
        for name, use in uses.items():
            try:
                use()
            except bmcd.errors.MissingPackageError as error:
                said[name] = str(error)
        print(json.dumps(said))
    """)
    found = bare("-W", "ignore", "-c", code)
    assert found.returncode == 0, found.stderr
    extras = {"plots": "report", "report": "report", "card": "report", "to_arviz": "arviz", "ALS": "baselines"}
    extras |= {"rerank": "rerank", "spark": "spark", "SparkALS": "spark"}
    said = json.loads(found.stdout)
    assert {name: text.split("pip install ")[-1] for name, text in said.items()} == {
        name: f'"bmcd[{extra}]"' for name, extra in extras.items()
    }


def test_commands_name_the_extra_that_they_need(bare, tmp_path):
    served = bare("-m", "bmcd", "serve", "none.bmcd")
    assert 'pip install "bmcd[serve]"' in served.stderr
    shown = bare("-m", "bmcd", "demo", "--quick", "-o", tmp_path / "demo")
    assert shown.returncode == 0, shown.stderr
    assert 'pip install "bmcd[report]"' in shown.stdout + shown.stderr
    assert (tmp_path / "demo" / "model.bmcd").exists()
    assert not (tmp_path / "demo" / "report.html").exists()
