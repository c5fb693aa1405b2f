"""A comparison as a folder: tables, plots, and the config that tells how to get them again."""

from __future__ import annotations

import importlib.metadata
import io
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.clicks.log import Clicks
from bmcd.files import open_replacement, write_csv, write_file, write_json

if TYPE_CHECKING:
    from bmcd.evaluation.compare import Comparison, Entry

PACKAGES = ("bmcd", "numpy", "scipy", "numba", "implicit", "pyspark")
PLOTTED = ("coverage", "novelty")


def save(comparison: Comparison, folder: Path, plots: bool) -> Path:
    """Write all files, see `Comparison.save`, and return the folder."""
    write_file(folder / "table.md", comparison.to_markdown().encode())
    with open_replacement(folder / "table.csv") as file:
        write_csv(file, comparison.table)
    write_json(folder / "comparison.json", comparison.to_dict(), indent=2)
    write_json(folder / "config.json", config_of(comparison), indent=2)
    for measure in PLOTTED if plots else ():
        image = io.BytesIO()
        comparison.plot(measure, "accuracy").savefig(image, dpi=150)
        write_file(folder / f"accuracy_{measure}.png", image.getvalue())
    return folder


def config_of(comparison: Comparison) -> dict[str, Any]:
    """Return what the comparison was made of, for `write_json`."""
    test = comparison.test
    return {
        **{name: getattr(comparison, name) for name in ("k", "seed", "against", "level", "resamples")},
        "models": {name: _settings(entry) for name, entry in comparison.entries.items()},
        "train": _described(comparison.train),
        "test": _described(test) if isinstance(test, Clicks) else {"simulation": _described(test.clicks)},
        "versions": {"python": platform.python_version(), **_versions()},
    }


def _versions() -> dict[str, str]:
    """Return the versions of the packages that a result may depend on, as far as they are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _settings(entry: Entry) -> dict[str, Any]:
    model = entry.model
    options = model.get_params() if hasattr(model, "get_params") else repr(model)
    fitted = {"fitted_before": True} if entry.fitted_before else {"fit": entry.fit}
    return {"class": type(model).__name__, "options": options, **fitted}


def _described(clicks: Clicks) -> dict[str, Any]:
    sizes = {name: getattr(clicks, name) for name in ("n_users", "n_items", "n_clicks")}
    return {**sizes, "fingerprint": clicks.fingerprint(), "history": clicks.history}
