"""Long work in tasks: each leaves a file with its result, so that a stopped study continues where it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmcd import __version__
from bmcd.errors import FitWarning
from bmcd.files import write_file
from bmcd.utils import THREADS, thread_count

Result = dict[str, Any]


class StudyError(Exception):
    """A study cannot run as asked, or tasks of it failed; the message says why, and what to do."""


@dataclass(frozen=True)
class Task:
    """A piece of work whose result depends on its arguments alone."""

    name: str
    """Its file has the same name, such as "set-03/als"."""
    function: Callable[..., Result]
    """A function of a module; what it returns must be fit for JSON."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """By name; fit for JSON."""
    seconds: float = 1.0
    """About how long it takes. The bar moves by it, and the tasks that take longest begin first."""

    def file(self, folder: Path) -> Path:
        """Return where its result is kept."""
        return folder / f"{self.name}.json"

    @property
    def recipe(self) -> dict[str, Any]:
        """The version, function and arguments with which a kept result must have been made to be used again."""
        return {
            "version": __version__,
            "run": f"{self.function.__module__}.{self.function.__qualname__}",
            "arguments": json.loads(json.dumps(dict(self.arguments))),
        }


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: bool | None = None,
    label: str = "tasks",
) -> dict[str, Result]:
    """Run the tasks that have no kept result yet, several at a time, and return all results by name.

    A result that was made with the same version, function and arguments is read from ``folder``. All other tasks
    run, each with one thread, in processes of their own (in this process, if ``n_workers`` is 1); the number of
    workers changes no result. If some tasks fail, the others are finished first, and `StudyError` names the failed
    ones. After Ctrl-C the finished results are kept. Progress bar and errors call the tasks by the ``label``.

    >>> folder = Path("study")
    >>> run_tasks([Task("first", dict, {"a": 1})], folder, n_workers=1)
    {'first': {'a': 1}}
    >>> (folder / "first.json").exists()
    True
    """
    if len({task.name for task in tasks}) < len(tasks):
        raise ValueError("two tasks have the same name, so one would overwrite the other's result.")
    results = {task.name: read_result(task, folder) for task in tasks}
    # What takes longest comes first, or the last task runs alone while the other cores have nothing to do.
    open_tasks = sorted((task for task in tasks if results[task.name] is None), key=lambda task: -task.seconds)
    errors: list[str] = []
    try:
        with _progress_bar(progress, label, tasks, open_tasks) as show:
            for task, outcome in _outcomes(open_tasks, folder, thread_count(n_workers)):
                if isinstance(outcome, str):
                    errors.append(f"{task.name}: {outcome}")
                else:
                    results[task.name] = outcome
                show(task)
    except KeyboardInterrupt:
        n_done = sum(read_result(task, folder) is not None for task in tasks)
        raise KeyboardInterrupt(
            f"stopped by Ctrl-C: {n_done} of {len(tasks)} tasks are done and kept in {folder}; the same command "
            "does the rest."
        ) from None
    if errors:
        summary = f"{len(errors)} of {len(tasks)} {label} failed; the others are kept in {folder}"
        raise StudyError("\n".join([f"{summary}, and the same command tries only these again.", *errors]))
    return {name: result for name, result in results.items() if result is not None}


def read_result(task: Task, folder: Path) -> Result | None:
    """Return the kept result of a task, or None if there is none that was made with the same recipe."""
    try:
        content = json.loads(task.file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # The file is missing or damaged. (It was renamed into place, so only a person can have cut it.)
        return None
    if not isinstance(content, dict) or any(content.get(key) != value for key, value in task.recipe.items()):
        return None
    result = content.get("result")
    return result if isinstance(result, dict) else None


def run_task(task: Task, folder: Path) -> Result:
    """Run a task with one thread, write its result into the folder, and return it as it will be read again.

    Warnings that chains are short are not shown: they are meant to be, and the pages say what came of it.
    """
    start, cpu_start = time.monotonic(), time.process_time()
    with _one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        result = task.function(**task.arguments)
    seconds, cpu_seconds = time.monotonic() - start, time.process_time() - cpu_start
    times = {"seconds": round(seconds, 2), "cpu_seconds": round(cpu_seconds, 2)}
    text = json.dumps({**task.recipe, **times, "result": result}, allow_nan=False)
    write_file(task.file(folder), text.encode())
    result_as_read: Result = json.loads(text)["result"]
    return result_as_read


def _outcomes(tasks: Sequence[Task], folder: Path, n_workers: int) -> Iterator[tuple[Task, Result | str]]:
    """Yield every task with its result, or with the text of its error, as soon as it is finished."""
    if n_workers == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _attempt(task, folder)
        return
    others = multiprocessing.active_children()
    # New processes, not copies of this one: numba's threads and Java do not survive being copied.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(n_workers, len(tasks)), context, initializer=_prepare_worker) as pool:
        futures: dict[Future[Result | str], Task] = {pool.submit(_attempt, task, folder): task for task in tasks}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool as error:
            raise StudyError(
                "a worker process was killed, perhaps for want of memory; finished results are kept. Run the same "
                "command again, with --workers 1 if it happens again."
            ) from error
        except BaseException:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _attempt(task: Task, folder: Path) -> Result | str:
    try:
        return run_task(task, folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _prepare_worker() -> None:
    """Leave Ctrl-C to the main process, and all messages to its progress bar."""
    os.environ["BMCD_QUIET"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: the other cores have other tasks, and sums over threads may differ in their last digits."""
    import scipy.linalg  # noqa: F401  (libraries that are loaded later would not be limited)
    from threadpoolctl import threadpool_limits

    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before


@contextmanager
def _progress_bar(
    progress: bool | None, label: str, tasks: Sequence[Task], open_tasks: Sequence[Task]
) -> Iterator[Callable[[Task], None]]:
    """Show a bar that moves by the seconds of the finished tasks; without a terminal show nothing."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda task: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    counts = TextColumn("{task.fields[done]}/{task.fields[of]} · {task.fields[last]}")
    time_left = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(compact=True))
    columns = (TextColumn(label), BarColumn(bar_width=24), counts, *time_left)
    n_done = len(tasks) - len(open_tasks)
    console = Console(stderr=True, force_terminal=progress or None)
    with Progress(*columns, console=console, speed_estimate_period=3600) as bar:
        seconds, first_words = (
            sum(task.seconds for task in open_tasks),
            "starting; the first time, code is compiled",
        )
        row = bar.add_task(label, total=seconds, done=n_done, of=len(tasks), last=first_words)

        def show(task: Task) -> None:
            nonlocal n_done
            n_done += 1
            bar.update(row, advance=task.seconds, done=n_done, last=task.name)

        yield show
