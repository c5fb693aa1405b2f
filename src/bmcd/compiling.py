"""What a person should know about compiled code: that it compiles, once, and that it never runs stale.

Numba compiles a kernel at its first call and keeps the result on disk (where: `kernel_cache`). Two things are added
here:

* the first compilation in a process says so on standard error, so that a cold start does not look stuck;
* numba checks only the file of the kernel itself, not of the kernels it calls. After an edit or an update a
  caller could go on running the old version of a callee, so results older than their sources are removed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from numba.core import event

from bmcd.kernel_cache import PACKAGE, choose_cache, kept_folders
from bmcd.progress import QUIET


class _Announcement(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says "compiling" at the first compilation of a kernel of this package; cached kernels stay silent."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        """Speak once, and never when BMCD_QUIET is set."""
        function = event.data["dispatcher"].py_func
        if self.said or not function.__module__.startswith("bmcd.") or os.environ.get(QUIET):
            return
        self.said = True
        print(f"bmcd: compiling for this machine ({CACHE.remark()}) ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """Nothing to say."""


def forget_stale_kernels(package: Path = PACKAGE) -> int:
    """Remove compiled kernels that are older than a source they may depend on; return how many.

    Those are the files that have kernels themselves and, since kernels also use constants, every file of a
    subpackage that has some.
    """
    folders = kept_folders(CACHE, package)
    kernels = {index: source for folder, source in folders.items() for index in folder.glob("*.nbi")}
    sources: set[Path] = set()
    for index, folder in kernels.items():
        sources.update([folder / f"{index.name.split('.')[0]}.py"] if folder == package else folder.glob("*.py"))
    newest = max((source.stat().st_mtime_ns for source in sources if source.exists()), default=0)
    stale = 0
    for index in kernels:
        # Another process may have removed it first, or the folder may be read-only: then numba's own check is
        # all there is.
        with contextlib.suppress(OSError):
            if index.stat().st_mtime_ns < newest:
                index.unlink()
                stale += 1
    return stale


CACHE = choose_cache()
event.register("numba:compile", _Announcement())
forget_stale_kernels()
