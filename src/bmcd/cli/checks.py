"""The checks of `bmcd doctor`. A check never raises: what goes wrong in it is its finding."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bmcd.cli.output import bytes_in_words, file_size
from bmcd.errors import FitWarning, StoreError

NEEDED = (
    "narwhals", "numba", "numpy", "pandas", "pyarrow", "rich", "safetensors", "scipy", "threadpoolctl", "typer",
)  # fmt: skip
EXTRA = {
    "matplotlib": "figures and the report",
    "arviz-base": "to_arviz",
    "polars": "answers in polars frames",
    "implicit": "ALS",
    "pyspark": "SparkALS",
    "ortools": "rerank",
    "fastapi": "serve",
}
LITTLE = 500e6  # bytes of memory or disk with which even the bundled data are tight


class Check(NamedTuple):
    """What one check found."""

    name: str
    state: Literal["good", "note", "broken"]
    text: str
    advice: str = ""


def all_checks(model: Path | None = None) -> Iterator[Check]:
    """Check the machine, the packages, the compiled code, and a model file if there is one."""
    checks: list[tuple[str, Callable[[], Check]]] = [
        ("python", _python),
        ("packages", _packages),
        ("extras", _extras),
        ("cores", _cores),
        ("memory", _memory),
        ("disk", _disk),
        ("log Z", _partition),
        ("tiny fit", _tiny_fit),
        ("compiled", _compiled),  # after the fit, which has loaded or compiled what there is
    ]
    if model is not None:
        checks.append(("model", lambda: _model(model)))
    for name, check in checks:
        try:
            yield check()
        except Exception as error:  # whatever it is, it is what is wrong
            yield Check(name, "broken", f"{type(error).__name__}: {error}", "Reinstall: pip install -U bmcd")


def _python() -> Check:
    from bmcd import __version__

    text = f"{platform.python_version()} ({platform.system()} {platform.machine()}); bmcd {__version__}"
    return Check("python", "good", text)


def _packages() -> Check:
    found, missing = [], []
    for name in NEEDED:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return Check(
            "packages", "broken", f"missing: {', '.join(missing)}.", f"Get them: pip install {' '.join(missing)}"
        )
    return Check("packages", "good", ", ".join(found))


def _extras() -> Check:
    said = []
    for name, use in EXTRA.items():
        try:
            said.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            said.append(f"{name} is not here ({use}; not needed)")
    return Check("extras", "good", ", ".join(said))


def _cores() -> Check:
    import numba

    from bmcd.utils import n_cores

    text = f"{n_cores()} of {os.cpu_count()} may be used; numba has {numba.get_num_threads()} threads"
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 1.5 * n_cores():
        load = f"{text}; the load is {os.getloadavg()[0]:.1f}"
        return Check("cores", "note", f"{load}, so others are using them.", "Fits take longer than they should.")
    return Check("cores", "good", text)


def _memory() -> Check:
    free = free_memory()
    if free is None:
        return Check("memory", "note", "how much is free cannot be told on this system.")
    text = f"{bytes_in_words(free)} free"
    return Check("memory", "note", f"{text}.", "Close other programs.") if free < LITTLE else _good("memory", text)


def free_memory() -> float | None:
    """Return the bytes of memory that are free, or None if this system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return None


def _disk() -> Check:
    folder = Path.cwd()
    free = shutil.disk_usage(folder).free
    text = f"{bytes_in_words(free)} free in {folder}"
    if not os.access(folder, os.W_OK):
        return Check("disk", "note", f"{text}, where nothing can be written.", "Give -o a path in another folder.")
    return Check("disk", "note", f"{text}.", "Make room.") if free < LITTLE else _good("disk", text)


def _partition() -> Check:
    """The footrule's log Z of 6 items against the sum over all 720 rankings."""
    import numpy as np

    from bmcd import mallows

    n, alpha = 6, 2.5
    distances = np.abs(np.array(list(permutations(range(n)))) - np.arange(n)).sum(axis=1)
    expected = float(np.log(np.exp(-alpha / n * distances).sum()))
    error = abs(float(mallows.log_partition(n, alpha)) - expected)
    if not error < 1e-9:
        return Check(
            "log Z",
            "broken",
            f"is {error:g} off the sum over all rankings.",
            "Results may be wrong: remove the compiled code (below) and try again.",
        )
    return _good("log Z", f"exact, against the sum over all {len(distances)} rankings of {n} items")


def _tiny_fit() -> Check:
    import numpy as np

    import bmcd

    simulation = bmcd.simulate(60, 12, consensuses=2, alpha=6.0, mean_clicks=3.0, seed=1)
    began = time.monotonic()
    model = bmcd.BMCD(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # it is too short to converge
        model.fit(simulation.clicks, draws=5, warmup=5, chains=2, seed=1, progress=False)
    k = 3
    probability = model.probabilities(k, progress=False)
    seconds = time.monotonic() - began
    clicked = simulation.clicks.matrix.toarray()
    expected = np.minimum(k, (~clicked).sum(axis=1))
    error = float(np.abs(probability.sum(axis=1) - expected).max())
    if not error < 1e-6 or probability[clicked].any() or not ((probability >= 0) & (probability <= 1 + 1e-9)).all():
        return Check(
            "tiny fit",
            "broken",
            f"the probabilities of a user sum to {k} with an error of {error:g}.",
            "Results may be wrong: remove the compiled code (below) and try again.",
        )
    return _good("tiny fit", f"60 users x 12 items in {seconds:.1f} s; the probabilities of each user sum to {k}")


def _compiled() -> Check:
    """Where compiled code is kept, whether it can be, and how much of what has run came from there."""
    from bmcd.compiling import ADVICE, CACHE, user_folder

    used = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("bmcd.")
        for value in vars(module).values()
        if hasattr(value, "py_func") and getattr(value, "signatures", None)
    ]
    from_disk = sum(sum(kernel.stats.cache_hits.values()) for kernel in _distinct(used))
    now = sum(sum(kernel.stats.cache_misses.values()) for kernel in _distinct(used))
    folders = sorted({str(kernel.stats.cache_path) for kernel in used if kernel.stats.cache_path})
    text = f"{from_disk} kernels came from disk, {now} were compiled just now"
    if CACHE.kind == "none":
        return Check("compiled", "note", f"{text}; no folder can be written, so every start compiles anew.", ADVICE)
    text += f"; kept in {', '.join(folders) or CACHE.folder or user_folder()}"
    if CACHE.kind == "temporary":
        why = "a temporary folder, since this user can write neither beside the sources nor in a cache folder"
        return Check("compiled", "note", f"{text}: {why}.", ADVICE)
    return _good("compiled", text)


def _distinct(kernels: list[Any]) -> list[Any]:
    """A kernel imported by name is in several modules."""
    return list({id(kernel): kernel for kernel in kernels}.values())


def _model(path: Path) -> Check:
    import bmcd
    from bmcd.models.persistence import load_model, sampled_models

    try:
        model = load_model(path)
    except StoreError as error:
        return Check("model", "broken", str(error), "Get the file anew, or fit again.")
    clicks, sampled = model.clicks_, sampled_models(model)
    chains = {
        name: f"{part.draws_.problem.n_clusters} {'tastes' if isinstance(part, bmcd.Tastes) else 'clusters'}, "
        f"{part.draws_.problem.options['distance']}, {part.draws_.n_chains} chains x {part.draws_.n_draws} draws, "
        f"seed {part.draws_.seed}"
        for name, part in sampled.items()
    }
    what = f"{type(model).__name__} with {', '.join(chains.values())}"
    if isinstance(model, bmcd.Blend):
        members = [f"{name} ({chains[name]})" if name in chains else name for name in model.members_]
        what = f"Blend of {', '.join(members)}"
        what += "" if model.as_of_ is None else f", as of {model.as_of_}"
    versions = sorted({part.draws_.version for part in sampled.values()})
    known = f"{clicks.n_users:,} users" if clicks.n_users else "no users (saved with --no-clicks)"
    text = (
        f"{path} ({file_size(path)}){', written by bmcd ' if versions else ''}{', '.join(versions)}: {what}; knows "
        f"{known} and {clicks.n_items:,} items{'' if clicks.titles is None else ' with titles'}. "
        f"{model.verdict_.text}"
    )
    return Check("model", "good" if model.converged_ else "note", text)


def _good(name: str, text: str) -> Check:
    return Check(name, "good", f"{text}.")
