"""Long work in pieces: each piece leaves a file, so that a study that is stopped goes on where it was."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmcd import __version__
from bmcd.system.files import write_file
from bmcd.system.threads import thread_count

Result = dict[str, Any]


class TaskError(Exception):
    """A piece of a study failed; the message says which, and why. The others are done and kept."""


@dataclass(frozen=True)
class Task:
    """One piece of work: what it gives depends on its arguments alone."""

    name: str
    """Also that of its file, such as "set-03/als"."""
    run: Callable[..., Result]
    """A function of a module; what it returns must be fit for JSON."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """By name; fit for JSON."""
    seconds: float = 1.0
    """About what it takes, to say how long all will take, and to begin with what takes longest."""

    def file(self, folder: Path) -> Path:
        """Where its result is kept."""
        return folder / f"{self.name}.json"

    @property
    def recipe(self) -> dict[str, Any]:
        """What a kept result must have been made with to be used again."""
        return {
            "version": __version__,
            "run": f"{self.run.__module__}.{self.run.__qualname__}",
            "arguments": json.loads(json.dumps(dict(self.arguments))),
        }


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    *,
    n_workers: int | None = None,
    progress: bool | None = None,
    what: str = "tasks",
) -> dict[str, Result]:
    """Do what is not done yet, several at a time, and return all results by name.

    A result that was made with the same version and arguments is read from ``folder``; all else is done, each with
    one thread, in processes of their own (in this one, if ``n_workers`` is 1); results do not depend on it. If some
    fail the others are finished first, and `TaskError` names the failed ones. After Ctrl-C what is done is kept.

    >>> from experiments.tasks import Task, run_tasks
    >>> folder = Path("study")
    >>> run_tasks([Task("one", dict, {"a": 1})], folder, n_workers=1)
    {'one': {'a': 1}}
    >>> (folder / "one.json").exists()
    True
    """
    if len({task.name for task in tasks}) < len(tasks):
        raise ValueError("two tasks have the same name, so one would overwrite the other's result.")
    kept = {task.name: read_result(task, folder) for task in tasks}
    open_tasks = [task for task in tasks if kept[task.name] is None]
    # What takes longest first, or the last of them runs alone while other cores have nothing to do.
    open_tasks.sort(key=lambda task: -task.seconds)
    failed: dict[str, str] = {}
    try:
        with _bar(progress, what, tasks, open_tasks) as show:
            for task, outcome in _outcomes(open_tasks, folder, thread_count(n_workers)):
                if isinstance(outcome, str):
                    failed[task.name] = outcome
                else:
                    kept[task.name] = outcome
                show(task)
    except KeyboardInterrupt:
        done = sum(read_result(task, folder) is not None for task in tasks)
        said = f"stopped by Ctrl-C: {done} of {len(tasks)} tasks are done and kept in {folder}"
        raise KeyboardInterrupt(f"{said}; the same command goes on.") from None
    if failed:
        lines = [f"{name}: {why}" for name, why in failed.items()]
        raise TaskError(
            f"{len(failed)} of {len(tasks)} {what} failed; the others are kept in {folder}, and the same command "
            "tries only these again.\n" + "\n".join(lines)
        )
    return {name: result for name, result in kept.items() if result is not None}


def read_result(task: Task, folder: Path) -> Result | None:
    """The kept result, or None if there is none that was made in the same way."""
    try:
        kept = json.loads(task.file(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # Not there, or not whole (it is renamed into place, so only a hand can have cut it): it is made anew.
        return None
    if not isinstance(kept, dict) or any(kept.get(key) != value for key, value in task.recipe.items()):
        return None
    result = kept.get("result")
    return result if isinstance(result, dict) else None


def do_task(task: Task, folder: Path) -> Result:
    """Run it and keep the result; the file is whole or not there."""
    began, used = time.monotonic(), time.process_time()
    with _one_thread():
        result = task.run(**task.arguments)
    taken = {"seconds": round(time.monotonic() - began, 2), "cpu_seconds": round(time.process_time() - used, 2)}
    text = json.dumps({**task.recipe, **taken, "result": result}, allow_nan=False)
    write_file(task.file(folder), text.encode())
    done: Result = json.loads(text)["result"]
    return done


def _outcomes(tasks: Sequence[Task], folder: Path, n_workers: int) -> Iterator[tuple[Task, Result | str]]:
    """Every task with its result, or with the text of its error, as they are finished."""
    if n_workers == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, _attempt(task, folder)
        return
    # New processes, not copies of this one: numba's threads and Java do not survive being copied.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(n_workers, len(tasks)), context, initializer=_prepare_worker) as pool:
        waiting: dict[Future[Result | str], Task] = {pool.submit(_attempt, task, folder): task for task in tasks}
        try:
            while waiting:
                finished, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool as error:
            raise TaskError(
                "a worker process was killed, perhaps for want of memory; what was done is kept. Run the same "
                "command again, with --workers 1 if it happens again."
            ) from error
        except BaseException:
            for process in pool._processes.values():
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _attempt(task: Task, folder: Path) -> Result | str:
    try:
        return do_task(task, folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _prepare_worker() -> None:
    """Ctrl-C is the parent's to answer, and the bar alone speaks."""
    os.environ["BMCD_QUIET"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Other tasks have the other cores; and sums over threads, as in k-means, may differ in their last digits."""
    import numba
    from threadpoolctl import threadpool_limits

    before = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        numba.set_num_threads(before)


@contextmanager
def _bar(
    progress: bool | None, what: str, tasks: Sequence[Task], open_tasks: Sequence[Task]
) -> Iterator[Callable[[Task], None]]:
    """A bar that moves by the seconds the tasks are thought to take; nothing where there is no terminal."""
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda task: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = TextColumn("{task.fields[done]}/{task.fields[of]} · {task.fields[last]}")
    left = TimeRemainingColumn(compact=True)
    columns = (TextColumn(what), BarColumn(bar_width=24), text, TimeElapsedColumn(), TextColumn("left"), left)
    done = len(tasks) - len(open_tasks)
    with Progress(
        *columns, console=Console(stderr=True, force_terminal=progress or None), speed_estimate_period=3600
    ) as bar:
        shown = bar.add_task(
            what,
            total=sum(task.seconds for task in open_tasks),
            done=done,
            of=len(tasks),
            last="starting; the first time, code is compiled",
        )

        def show(task: Task) -> None:
            nonlocal done
            done += 1
            bar.update(shown, advance=task.seconds, done=done, last=task.name)

        yield show
