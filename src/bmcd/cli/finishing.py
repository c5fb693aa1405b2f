"""The end of `bmcd fit`: the model is written whole or not at all, whenever Ctrl-C comes, and that is told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.cli.choosing import told
from bmcd.cli.errors import as_options
from bmcd.cli.output import file_size, say

if TYPE_CHECKING:
    from bmcd.models.load import Model


@contextmanager
def held_back() -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C back until the block is done; what is given says whether it came."""
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # which alone hears signals
        yield came.is_set
        return
    before = signal.signal(signal.SIGINT, lambda *_: came.set())
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def remove_checkpoint(checkpoint: Path) -> None:
    """Remove a checkpoint and what lies beside it."""
    from bmcd.sampling.store import previous, remove_leftovers

    remove_leftovers(checkpoint)
    for path in (checkpoint, previous(checkpoint), checkpoint.with_name(checkpoint.name + ".choice")):
        path.unlink(missing_ok=True)


def facts(model: Model, output: Path, seconds: float, checkpoint: Path | None) -> dict[str, Any]:
    """What --json says of a fit."""
    draws, verdict, data = model.draws_, model.verdict_, model.clicks_.summary()
    return {
        "model": output,
        "bytes": output.stat().st_size,
        "data": {name: getattr(data, name) for name in data.__dataclass_fields__},
        "n_clusters": model.n_clusters_,
        "choice": None if model.choice_ is None else told(model.choice_),
        "chains": draws.n_chains,
        "draws": draws.n_draws,
        "stopped": draws.stopped,
        "note": draws.note,
        "converged": verdict.converged,
        "verdict": verdict.text,
        "advice": list(verdict.advice),
        "seconds": round(seconds, 3),
        "checkpoint": checkpoint,
    }


def report(model: Model, output: Path, seconds: float, checkpoint: Path | None) -> None:
    """Say in words what was fitted, and whether it converged."""
    from bmcd.models.tastes import Tastes

    draws, verdict = model.draws_, model.verdict_
    word = "tastes" if isinstance(model, Tastes) else "clusters"
    say(f"Fitted {model.n_clusters_} {word}: {draws.n_chains} chains x {draws.n_draws} draws, {seconds:.1f} s.")
    say(as_options(verdict.text), style="green" if verdict.converged else "yellow")
    for advice in verdict.advice:
        say(f"- {as_options(advice)}")
    say()
    say(f"Model: {output} ({file_size(output)})")
    if checkpoint is not None:
        say(f"Checkpoint: {checkpoint} (run the same command with more time or draws to go on from it)")
