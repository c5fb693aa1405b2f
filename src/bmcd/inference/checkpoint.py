"""The checkpoint of a run: what it must agree with, how it is written, and how the chains are restored from it.

The last two checkpoints are kept, so that one that was damaged on the disk costs a minute and not the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bmcd import __version__, container
from bmcd.container import Stored
from bmcd.errors import StoreError, StoreWarning
from bmcd.files import remove_leftovers, temporary_name
from bmcd.inference.record import ChainRecord, Recording
from bmcd.inference.run import Plan

KIND = "checkpoint"


class Checkpoint:
    """The checkpoint of a run: what it must agree with, and where it is."""

    def __init__(self, path: Path, recording: Recording, plan: Plan, seed: int) -> None:
        self.path, self.recording, self.plan = path, recording, plan
        problem = recording.problem
        self.header = {
            "version": __version__,
            "seed": int(seed),
            "data_hash": problem.data_hash,
            "options": {
                **json.loads(json.dumps(dict(problem.options))),
                "n_clusters": problem.n_clusters,
                "n_chains": plan.n_chains,
                "warmup": plan.warmup,
                "thin": plan.thin,
            },
        }
        self._newest_is_whole = False
        self.up_to_date = False

    def resumed(self) -> list[ChainRecord] | None:
        """Return the chains as they stood, or None if there is no checkpoint; StoreError for another run."""
        remove_leftovers(self.path)
        stored = read_checkpoint(self.path)
        if stored is None:
            return None
        self._newest_is_whole = stored.path == self.path
        if differs := _differences(stored.header, self.header):
            raise StoreError(
                f"{stored.path}: is the checkpoint of another run. What differs: {'; '.join(differs)}. "
                "Give another checkpoint path, or remove the file to start again."
            )
        try:
            return self._records(stored)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreError(f"{stored.path}: cannot be resumed from: {error}.") from error

    def _records(self, stored: Stored) -> list[ChainRecord]:
        plan, done = self.plan, stored.header["run"].get("next_sweep")
        parts: dict[str, dict[str, NDArray[Any]]] = {str(chain): {} for chain in range(plan.n_chains)}
        for name, array in stored.arrays.items():
            chain, _, rest = name.partition("/")
            parts[chain][rest] = array
        if (
            not isinstance(done, list)
            or len(done) != len(parts)
            or not all(type(n) is int and n >= 0 for n in done)
        ):
            raise ValueError(f"next_sweep must give a sweep number for each of {len(parts)} chains, not {done!r}")
        if max(done) > plan.n_sweeps:
            has = plan.kept_before(max(done))
            raise ValueError(f"it has {has} draws, more than the {plan.draws} asked for; ask for {has} or more")
        return [
            ChainRecord.resumed(int(chain), done[int(chain)], arrays, self.recording, plan)
            for chain, arrays in parts.items()
        ]

    def write(self, records: list[ChainRecord]) -> None:
        """Write it; StoreError if that fails."""
        header = {**self.header, "run": {"next_sweep": [record.next_sweep for record in records]}}
        arrays = {f"{r.chain}/{name}": array for r in records for name, array in r.arrays().items()}
        self.up_to_date = False
        write_checkpoint(self.path, header, arrays, keep_previous=self._newest_is_whole)
        self._newest_is_whole = self.up_to_date = True

    def write_or_warn(self, records: list[ChainRecord]) -> None:
        """Write it, or warn: in the middle of a run a full disk must not cost the draws."""
        try:
            self.write(records)
        except StoreError as error:
            warnings.warn(f"{error} The run continues without it.", StoreWarning, stacklevel=3)


def write_checkpoint(
    path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], keep_previous: bool
) -> None:
    """Write a checkpoint, and keep what was there under ``<path>.1`` if that is complete (`keep_previous`)."""
    path = Path(path)

    def keep() -> None:
        if keep_previous and path.exists():
            _keep(path, previous(path))

    container.write(path, KIND, header, arrays, private=True, before_rename=keep)


def read_checkpoint(path: str | Path) -> Stored | None:
    """Read the newest complete checkpoint, with a warning if it is the older one; None if there is none."""
    path = Path(path)
    older = previous(path)
    if not path.exists() and not older.exists():
        return None
    try:
        return container.read(path, KIND)
    except StoreError as error:
        if not older.exists():
            hint = f"Remove it to start again, or give another checkpoint path; there is no older one ({older})."
            raise StoreError(f"{error} {hint}") from error
        try:
            stored = container.read(older, KIND)
        except StoreError as second:
            hint = "Neither checkpoint can be used: remove both to start again, or give another checkpoint path."
            raise StoreError(f"{error} {second} {hint}") from second
        warnings.warn(f"{error} Resuming from the checkpoint before it, {older}.", StoreWarning, stacklevel=2)
        return stored


def previous(path: Path) -> Path:
    """Return where the checkpoint before the newest is kept."""
    return path.with_name(path.name + ".1")


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint with the one before it and what killed runs have left beside it."""
    remove_leftovers(path)
    for file in (path, previous(path)):
        file.unlink(missing_ok=True)


def _keep(path: Path, older: Path) -> None:
    """Give the file a second name, so that there is never a moment without ``path``."""
    for _ in range(100):
        second = temporary_name(path)
        try:
            os.link(path, second)
            os.replace(second, older)
        except FileNotFoundError:  # another run at the same path has replaced the file, or removed the second name
            if not path.exists():
                return
        except OSError:  # a file system without hard links
            with contextlib.suppress(FileNotFoundError):  # another run has kept it
                os.replace(path, older)
            return
        else:
            return
        finally:  # renaming does nothing if both names are the same file already, as after a kill just here
            second.unlink(missing_ok=True)


def _differences(there: Mapping[str, Any], here: Mapping[str, Any], within: str = "") -> list[str]:
    found = []
    for key in here if not within else sorted({*there, *here}):
        one, two = there.get(key, "nothing"), here.get(key, "nothing")
        if isinstance(one, dict) and isinstance(two, dict):
            found += _differences(one, two, f"{key}.")
        elif one != two:
            found.append(f"{within}{key} is {one!r} there and {two!r} here")
    return found
