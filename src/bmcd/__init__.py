"""Bayesian Mallows for Clicking Data: diverse recommendations with probabilities you can trust."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bmcd import baselines, mallows
    from bmcd.baselines import tune
    from bmcd.clicks import Clicks, ClicksError
    from bmcd.clusters import choose_n_clusters
    from bmcd.datasets import load_dataset
    from bmcd.evaluation import compare, evaluate
    from bmcd.exposure import rerank, trade_off
    from bmcd.model_file import load
    from bmcd.priors import Priors
    from bmcd.reading import read_clicks
    from bmcd.recommender import BMCD
    from bmcd.report import ReportModule
    from bmcd.simulation import Simulation, simulate

    report: ReportModule

__all__ = [
    "BMCD",
    "Clicks",
    "ClicksError",
    "Priors",
    "Simulation",
    "__version__",
    "baselines",
    "choose_n_clusters",
    "compare",
    "evaluate",
    "load",
    "load_dataset",
    "mallows",
    "read_clicks",
    "report",
    "rerank",
    "simulate",
    "trade_off",
    "tune",
]

# Where each public name lives. They are loaded when first used, so that `import bmcd` costs next to nothing.
_HOME = {
    "BMCD": "bmcd.recommender",
    "Clicks": "bmcd.clicks",
    "ClicksError": "bmcd.clicks",
    "Priors": "bmcd.priors",
    "Simulation": "bmcd.simulation",
    "choose_n_clusters": "bmcd.clusters",
    "compare": "bmcd.evaluation",
    "load": "bmcd.model_file",
    "evaluate": "bmcd.evaluation",
    "load_dataset": "bmcd.datasets",
    "read_clicks": "bmcd.reading",
    "rerank": "bmcd.exposure",
    "simulate": "bmcd.simulation",
    "tune": "bmcd.baselines",
    "trade_off": "bmcd.exposure",
}


def __getattr__(name: str) -> Any:
    if name in ("baselines", "mallows", "report"):
        return importlib.import_module(f"bmcd.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bmcd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
