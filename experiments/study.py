"""What both studies share: run the tasks, keep their results, and write the page from the results alone."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from experiments.document import Contents, write_page
from experiments.tasks import Result, StudyError, Task, run_tasks

Sampling = Mapping[str, Any]
"""Chains, and the warm-up and draws of each, as arguments of `BMCD.fit`."""
# How every task calls the package: other tasks have the other cores, and one bar for all tasks is enough.
IN_A_TASK: dict[str, Any] = {"n_threads": 1, "progress": False}


class Stage(NamedTuple):
    """Tasks that can run at the same time."""

    name: str
    """What the progress bar calls them."""
    tasks: Sequence[Task]
    one_at_a_time: bool = False
    """Whether a task takes all cores for itself."""


class Study(ABC):
    """One of the paper's studies: which tasks it runs, and what its page says about their results."""

    package: ClassVar[str]
    """The package with its page.md, the template of its page, and expected.json, the paper's numbers."""

    @abstractmethod
    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield the stages in order; ``results`` has those of all earlier stages, by the names of their tasks."""

    @abstractmethod
    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words, tables and figures of page.md."""

    def reproduce(self, folder: Path, *, n_workers: int | None = None, progress: bool | None = None) -> Path:
        """Run the study, write its page, tables and figures into a folder, and return the path of the page.

        Parameters
        ----------
        folder
            Made if it is not there. Results are kept in ``folder``/results, so that a study that was stopped
            continues where it was, and the page of a finished one is only written again.
        n_workers
            Tasks at a time; as many as there are cores unless given. It changes no number.
        progress
            Show a bar: by default only if standard error is a terminal.
        """
        if folder.exists() and not folder.is_dir():
            raise StudyError(f"{folder}: is a file. Give the name of a folder.")
        require_package("implicit", extra="baselines")
        results = self.run(folder / "results", n_workers=n_workers, progress=progress)
        return write_page(folder, read_text(self.package, "page.md"), self.contents(results))

    def run(self, folder: Path, *, n_workers: int | None = None, progress: bool | None = None) -> dict[str, Result]:
        """Run the tasks whose results are not in the folder yet, and return all results by the tasks' names."""
        results: dict[str, Result] = {}
        for stage in self.stages(results):
            workers = 1 if stage.one_at_a_time else n_workers
            results |= run_tasks(stage.tasks, folder, n_workers=workers, progress=progress, label=stage.name)
        return results


def read_text(package: str, file: str) -> str:
    """Return the text of a file that lies beside the code of a study."""
    return (resources.files(package) / file).read_text(encoding="utf-8")


@cache
def paper_numbers(package: str) -> dict[str, Any]:
    """Return the paper's own numbers for a study, and where they stand in it."""
    numbers: dict[str, Any] = json.loads(read_text(package, "expected.json"))
    return numbers


def require_package(package: str, extra: str) -> None:
    """Raise an error if a package that tasks need is missing: before hours of work, not after them.

    >>> require_package("numpy", extra="baselines")
    """
    if find_spec(package) is None:
        raise StudyError(f'this study needs the package {package}: pip install "bmcd[{extra}]"')


def why_no_spark() -> str:
    """Return why the ALS of Spark's MLlib cannot run here; empty if it can."""
    if find_spec("pyspark") is None:
        return "the package pyspark is not installed"
    from bmcd.baselines.spark_session import check_java
    from bmcd.errors import JavaError

    try:
        check_java()
    except JavaError:
        return "there is no Java that Spark can use"
    return ""
