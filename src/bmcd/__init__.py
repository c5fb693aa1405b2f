"""Bayesian Mallows for Clicking Data: diverse recommendations with probabilities you can trust."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from bmcd import baselines, errors, evaluation, mallows, plots, spark, testing
    from bmcd.blend.blend import Blend
    from bmcd.clicks.datasets import load_dataset
    from bmcd.clicks.log import Clicks, ClicksError
    from bmcd.clicks.reading import read_clicks
    from bmcd.evaluation.backtest import backtest
    from bmcd.evaluation.compare import compare
    from bmcd.evaluation.diversify import diversify
    from bmcd.evaluation.evaluate import evaluate
    from bmcd.evaluation.rerank import rerank, trade_off
    from bmcd.evaluation.tune import tune
    from bmcd.inference.mixture import Priors
    from bmcd.inference.tastes.priors import TastePriors
    from bmcd.inference.tastes.simulation import TasteSimulation, simulate_tastes
    from bmcd.models.bmcd import BMCD
    from bmcd.models.choose import choose_n_clusters
    from bmcd.models.list_rules import ListRules
    from bmcd.models.persistence import load
    from bmcd.models.tastes import Tastes
    from bmcd.reporting.report import report
    from bmcd.simulation import Simulation, simulate, simulate_log

__all__ = [
    "BMCD",
    "Blend",
    "Clicks",
    "ClicksError",
    "ListRules",
    "Priors",
    "Simulation",
    "TastePriors",
    "TasteSimulation",
    "Tastes",
    "__version__",
    "backtest",
    "baselines",
    "choose_n_clusters",
    "compare",
    "diversify",
    "errors",
    "evaluate",
    "evaluation",
    "load",
    "load_dataset",
    "mallows",
    "plots",
    "read_clicks",
    "report",
    "rerank",
    "simulate",
    "simulate_log",
    "simulate_tastes",
    "spark",
    "testing",
    "trade_off",
    "tune",
]

# Where each public name lives. They are loaded when first used, so that `import bmcd` costs next to nothing.
_HOME = {
    "BMCD": "bmcd.models.bmcd",
    "Blend": "bmcd.blend.blend",
    "Clicks": "bmcd.clicks.log",
    "ClicksError": "bmcd.clicks.log",
    "ListRules": "bmcd.models.list_rules",
    "Priors": "bmcd.inference.mixture",
    "Simulation": "bmcd.simulation",
    "TastePriors": "bmcd.inference.tastes.priors",
    "TasteSimulation": "bmcd.inference.tastes.simulation",
    "Tastes": "bmcd.models.tastes",
    "backtest": "bmcd.evaluation.backtest",
    "choose_n_clusters": "bmcd.models.choose",
    "compare": "bmcd.evaluation.compare",
    "diversify": "bmcd.evaluation.diversify",
    "evaluate": "bmcd.evaluation.evaluate",
    "load": "bmcd.models.persistence",
    "load_dataset": "bmcd.clicks.datasets",
    "read_clicks": "bmcd.clicks.reading",
    "report": "bmcd.reporting.report",
    "rerank": "bmcd.evaluation.rerank",
    "simulate": "bmcd.simulation",
    "simulate_log": "bmcd.simulation",
    "simulate_tastes": "bmcd.inference.tastes.simulation",
    "trade_off": "bmcd.evaluation.rerank",
    "tune": "bmcd.evaluation.tune",
}
_PACKAGES = ("baselines", "errors", "evaluation", "mallows", "plots", "spark", "testing")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"bmcd.{name}")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'bmcd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
