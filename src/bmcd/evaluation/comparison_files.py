"""What a comparison leaves in a folder: tables, plots, and the config that tells how to get them again."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import platform
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bmcd.clicks.table import Clicks

if TYPE_CHECKING:
    from bmcd.evaluation.comparison import Comparison, Entry

PACKAGES = ("bmcd", "numpy", "scipy", "scikit-learn", "numba", "implicit", "pyspark")
PLOTS = ("coverage", "novelty")


def save(comparison: Comparison, folder: Path, plots: bool) -> Path:
    """Write everything; see `Comparison.save`."""
    folder.mkdir(parents=True, exist_ok=True)
    comparison.table.to_csv(folder / "table.csv", index=False)
    (folder / "table.md").write_text(comparison.to_markdown(), encoding="utf-8")
    write_json(folder / "comparison.json", numbers_of(comparison))
    write_json(folder / "config.json", config_of(comparison))
    if plots:
        for measure in PLOTS:
            comparison.plot(measure, "accuracy").savefig(folder / f"accuracy_{measure}.png", dpi=150)
    return folder


def numbers_of(comparison: Comparison) -> dict[str, Any]:
    """All measures, intervals and differences, ready for JSON."""
    models = {}
    for name, entry in comparison.entries.items():
        models[name] = {
            "fit_seconds": None if math.isnan(entry.fit_seconds) else entry.fit_seconds,
            "recommend_seconds": entry.recommend_seconds,
            "evaluation": entry.evaluation.to_dict(),
            "intervals": {measure: [own.low, own.high] for measure, own in entry.intervals.items()},
            "differences": {
                measure: found.to_dict() for measure, found in comparison.differences.get(name, {}).items()
            },
        }
    return {"k": comparison.k, "against": comparison.against, "level": comparison.level, "models": models}


def config_of(comparison: Comparison) -> dict[str, Any]:
    """What the comparison was made of, ready for JSON."""
    test = comparison.test
    return {
        "k": comparison.k,
        "seed": comparison.seed,
        "against": comparison.against,
        "level": comparison.level,
        "resamples": comparison.resamples,
        "models": {name: _settings(entry) for name, entry in comparison.entries.items()},
        "train": _described(comparison.train),
        "test": _described(test) if isinstance(test, Clicks) else {"simulation": _described(test.clicks)},
        "versions": {"python": platform.python_version(), **versions()},
    }


def versions() -> dict[str, str]:
    """Of the packages a result may depend on, those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def clicks_hash(clicks: Clicks) -> str:
    """SHA-256 of who clicked what, in the order of the rows and columns.

    >>> clicks_hash(Clicks.from_matrix([[1, 0], [1, 1]]))[:12]
    'e0d638fc9020'
    """
    parts = [clicks.users.tolist(), clicks.items.tolist()]
    parts += [clicks.matrix.indptr.tolist(), clicks.matrix.indices.tolist()]
    return hashlib.sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def write_json(path: Path, content: Any) -> None:
    """Write numbers as JSON has them: those that are not finite become null."""
    path.write_text(json.dumps(_plain(content), indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)


def _settings(entry: Entry) -> dict[str, Any]:
    model = entry.model
    options = model.get_params() if hasattr(model, "get_params") else repr(model)
    found = {"class": type(model).__name__, "options": options}
    return found | ({"fitted_before": True} if entry.fitted_before else {"fit": entry.fit})


def _described(clicks: Clicks) -> dict[str, Any]:
    sizes = {name: getattr(clicks, name) for name in ("n_users", "n_items", "n_clicks")}
    return {**sizes, "sha256": clicks_hash(clicks), "history": list(clicks.history)}
