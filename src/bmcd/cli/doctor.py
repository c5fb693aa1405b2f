"""`bmcd doctor`: check the installation and its numerical results."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Annotated

import typer

from bmcd.cli.fit import described
from bmcd.cli.fit_checks import free_memory
from bmcd.cli.options import AsJson
from bmcd.cli.output import bytes_in_words, file_size, print_json, say
from bmcd.errors import FitWarning, StoreError
from bmcd.utils import plain

NEEDED = (
    "narwhals", "numba", "numpy", "pandas", "pyarrow", "rich", "safetensors", "scipy", "threadpoolctl", "typer",
)  # fmt: skip
EXTRA = {
    "matplotlib": "figures and the report", "arviz-base": "to_arviz", "polars": "polars frames", "implicit": "ALS",
    "pyspark": "SparkALS", "ortools": "rerank", "fastapi": "serve",
}  # fmt: skip
LITTLE = 500e6  # bytes of memory or disk that are too few even for the bundled data
WRONG = "Results may be wrong: clear the numba cache (below) and try again."
STYLES = {"good": "green", "note": "yellow", "broken": "bold red"}
Result = tuple[str, str] | tuple[str, str, str]
"""A state of `STYLES`, what was found, and advice."""


def doctor(
    model: Annotated[Path | None, typer.Argument(help="Inspect this model file as well.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check versions, cores, memory, disk and compiled code, and fit a tiny model with a known answer.

    Each problem comes with a remedy. The exit code is 0 only if nothing is broken.
    """
    found = []
    for name, check in (CHECKS | ({} if model is None else {"model": lambda: check_model(model)})).items():
        try:
            state, text, advice = (*check(), "")[:3]
        except Exception as error:  # this is the result of the check
            state, text, advice = "broken", f"{type(error).__name__}: {error}", "Reinstall: pip install -U bmcd"
        found.append({"name": name, "state": state, "text": text, "advice": advice})
    n_broken = sum(one["state"] == "broken" for one in found)
    if as_json:
        print_json({"healthy": not n_broken, "checks": found})
    else:
        for one in found:
            line = f"{one['state']:<8}{one['name']:<10}{one['text']} {one['advice']}"
            say(plain(line).strip(), style=STYLES[one["state"]])
        said = f"{n_broken} of {len(found)} checks failed." if n_broken else "Everything works."
        say(f"\n{said}", style="bold")
    if n_broken:
        raise typer.Exit(1)


def check_packages() -> Result:
    """Versions of Python, bmcd, and the required and optional packages."""
    from bmcd import __version__

    versions = {name: _version(name) for name in (*NEEDED, *EXTRA)}
    text = f"Python {platform.python_version()} ({platform.system()} {platform.machine()}), bmcd {__version__}"
    text = ", ".join([text, *(f"{name} {version}" for name, version in versions.items() if version)])
    if missing := [name for name in NEEDED if not versions[name]]:
        return "broken", f"{text}; missing: {', '.join(missing)}.", f"Install: pip install {' '.join(missing)}"
    optional = [f"{name} ({use})" for name, use in EXTRA.items() if not versions[name]]
    return "good", text + (f"; optional, not installed: {', '.join(optional)}." if optional else ".")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def check_machine() -> Result:
    """Cores, load, free memory, and free space in the current folder."""
    from bmcd.utils import n_cores

    folder, memory = Path.cwd(), free_memory()
    disk = shutil.disk_usage(folder).free
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    text = (
        f"{n_cores()} of {os.cpu_count()} cores may be used, load {load:.1f}; free: "
        f"{'unknown' if memory is None else bytes_in_words(memory)} of memory, {bytes_in_words(disk)} in {folder}."
    )
    advice = {
        "Other programs use the cores, so fits take longer.": load > 1.5 * n_cores(),
        "Close other programs: there is little memory.": memory is not None and memory < LITTLE,
        "Free some space.": disk < LITTLE,
        "The folder is read-only: give -o a path in another one.": not os.access(folder, os.W_OK),
    }
    wanted = [one for one, applies in advice.items() if applies]
    return ("note", text, " ".join(wanted)) if wanted else ("good", text)


def check_log_z() -> Result:
    """The footrule's log Z of 6 items against the sum over all 720 rankings."""
    import numpy as np

    from bmcd import mallows

    n, alpha = 6, 2.5
    distances = np.abs(np.array(list(permutations(range(n)))) - np.arange(n)).sum(axis=1)
    expected = float(np.log(np.exp(-alpha / n * distances).sum()))
    error = abs(float(mallows.log_partition(n, alpha)) - expected)
    if not error < 1e-9:
        return "broken", f"is {error:g} off the sum over all rankings.", WRONG
    return "good", f"exact, against the sum over all {len(distances)} rankings of {n} items."


def check_tiny_fit() -> Result:
    """A fit of 60 users, whose probabilities must sum to k."""
    import numpy as np

    import bmcd

    clicks = bmcd.simulate(60, 12, consensuses=2, alpha=6.0, mean_clicks=3.0, seed=1).clicks
    began, k = time.monotonic(), 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # it is too short to converge
        model = bmcd.BMCD(2).fit(clicks, draws=5, warmup=5, chains=2, seed=1, progress=False)
    probability, clicked = model.probabilities(k, progress=False), clicks.matrix.toarray()
    error = float(np.abs(probability.sum(axis=1) - np.minimum(k, (~clicked).sum(axis=1))).max())
    if not error < 1e-6 or probability[clicked].any() or not ((probability >= 0) & (probability <= 1 + 1e-9)).all():
        return "broken", f"the probabilities of a user sum to {k} with an error of {error:g}.", WRONG
    seconds = time.monotonic() - began
    return "good", f"60 users x 12 items in {seconds:.1f} s; the probabilities of each user sum to {k}."


def check_compiled() -> Result:
    """Where compiled code is kept."""
    from bmcd.compiling import ADVICE, CACHE
    from bmcd.rng import uniform

    if CACHE.kind == "none":
        return "note", "no folder is writable, so every start compiles again.", ADVICE
    text = f"kept in {CACHE.folder or uniform.stats.cache_path}"
    if CACHE.kind == "temporary":
        why = "a temporary folder, since this user can write neither beside the sources nor in a cache folder"
        return "note", f"{text}: {why}.", ADVICE
    return "good", f"{text}."


def check_model(path: Path) -> Result:
    """A model file: content, version, verdict."""
    from bmcd.models.persistence import load_model, sampled_models

    try:
        model = load_model(path)
    except StoreError as error:
        return "broken", str(error), "Get the file again, or fit again."
    clicks, draws = model.clicks_, [part.draws_ for part in sampled_models(model).values()]
    details = "".join(f", {one.problem.options['distance']}, seed {one.seed}" for one in draws[:1])
    versions = "".join(f", written by bmcd {version}" for version in sorted({one.version for one in draws}))
    as_of = getattr(model, "as_of_", None)
    details += "" if as_of is None else f", as of {as_of}"
    users = f"{clicks.n_users:,} users" if clicks.n_users else "no users (saved with --no-clicks)"
    text = (
        f"{path} ({file_size(path)}){versions}: {type(model).__name__}, {described(model)}{details}; knows {users} "
        f"and {clicks.n_items:,} items{'' if clicks.titles is None else ' with titles'}. {model.verdict_.text}"
    )
    return "good" if model.converged_ else "note", text


CHECKS: dict[str, Callable[[], Result]] = {
    "packages": check_packages,
    "machine": check_machine,
    "log Z": check_log_z,
    "tiny fit": check_tiny_fit,
    "compiled": check_compiled,
}
