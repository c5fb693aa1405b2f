"""Results of tasks are kept, computed again only when they must be, and do not depend on the number of workers."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
from experiments.tasks import StudyError, Task, run_tasks
from threadpoolctl import threadpool_info

import bmcd.errors
from bmcd.utils import thread_count


def square(x, counter=None):
    if counter is not None:
        with open(counter, "a") as file:
            file.write("x")
    return {"square": x * x, "root": x**0.5}


def fail(x):
    raise ValueError(f"{x} is too much")


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def warn_of(kind):
    warnings.warn("chains are short", getattr(bmcd.errors, kind), stacklevel=1)
    return {}


def wait(seconds):
    time.sleep(seconds)
    return {}


def process_left(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def n_runs(counter):
    return len(counter.read_text()) if counter.exists() else 0


@pytest.mark.parametrize("n_workers", [1, 2])
def test_results_do_not_depend_on_the_number_of_workers(tmp_path, n_workers):
    tasks = [Task(f"part/{x}", square, {"x": x}, seconds=x) for x in range(5)]
    results = run_tasks(tasks, tmp_path, n_workers=n_workers, progress=False)
    assert results == {f"part/{x}": {"square": x * x, "root": x**0.5} for x in range(5)}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [f"{x}.json" for x in range(5)]


def threads():
    return {"ours": thread_count(), "others": [pool["num_threads"] for pool in threadpool_info()]}


@pytest.mark.parametrize("n_workers", [1, 2])
def test_every_task_has_one_thread(tmp_path, n_workers):
    before = threads()
    results = run_tasks([Task("a", threads), Task("b", threads)], tmp_path, n_workers=n_workers, progress=False)
    for result in results.values():
        assert result["ours"] == 1
        assert set(result["others"]) <= {1}
    assert threads() == before


def test_a_kept_result_is_not_computed_again(tmp_path):
    counter = tmp_path / "counter"
    task = Task("first", square, {"x": 3, "counter": str(counter)})
    for _ in range(2):
        assert run_tasks([task], tmp_path, n_workers=1)["first"]["square"] == 9
    assert n_runs(counter) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: {**content, "version": "0.0.0"},
        lambda content: {**content, "arguments": {"x": 4}},
        lambda content: {**content, "run": "elsewhere.square"},
        lambda content: {key: value for key, value in content.items() if key != "result"},
        lambda content: {**content, "result": [1]},
        lambda content: [],
    ],
)
def test_a_result_with_another_recipe_is_computed_again(tmp_path, spoil):
    counter = tmp_path / "counter"
    task = Task("first", square, {"x": 3, "counter": str(counter)})
    run_tasks([task], tmp_path, n_workers=1)
    file = task.file(tmp_path)
    file.write_text(json.dumps(spoil(json.loads(file.read_text()))))
    assert run_tasks([task], tmp_path, n_workers=1)["first"]["square"] == 9
    assert n_runs(counter) == 2


@pytest.mark.parametrize("content", [b"", b"{", b'{"result": {"sq', b"\xff\xfe", b"null"])
def test_a_broken_file_is_computed_again(tmp_path, content):
    task = Task("first", square, {"x": 3})
    task.file(tmp_path).write_bytes(content)
    assert run_tasks([task], tmp_path, n_workers=1)["first"]["square"] == 9


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_failure_is_named_and_the_others_are_kept(tmp_path, n_workers):
    tasks = [Task("bad", fail, {"x": 7}, seconds=9), *(Task(f"good-{x}", square, {"x": x}) for x in range(3))]
    with pytest.raises(StudyError, match=r"1 of 4 tasks failed(.|\n)*bad: ValueError: 7 is too much"):
        run_tasks(tasks, tmp_path, n_workers=n_workers, progress=False)
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["good-0", "good-1", "good-2"]


def test_a_killed_worker_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(StudyError, match="--workers 1"):
        run_tasks([Task("a", die), Task("b", die)], tmp_path, n_workers=2, progress=False)


def test_a_result_that_is_no_number_is_an_error_not_a_broken_file(tmp_path):
    with pytest.raises(StudyError, match="ValueError"):
        run_tasks([Task("nan", dict, {"x": float("nan")})], tmp_path, n_workers=1)
    assert not list(tmp_path.iterdir())


def test_of_warnings_only_those_about_short_chains_are_not_shown(tmp_path):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for kind in ("ConvergenceWarning", "BmcdWarning"):
            run_tasks([Task(kind, warn_of, {"kind": kind})], tmp_path, n_workers=1)
    assert [warning.category.__name__ for warning in shown] == ["BmcdWarning"]


def test_names_must_differ(tmp_path):
    with pytest.raises(ValueError, match="same name"):
        run_tasks([Task("a", dict), Task("a", dict)], tmp_path)


def test_ctrl_c_ends_the_workers_and_keeps_what_is_done(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom experiments.tasks import Task, run_tasks\n"
        "sys.path.insert(0, sys.argv[2])\nimport test_tasks\n"
        "if __name__ == '__main__':\n"
        "    tasks = [Task('quick', test_tasks.square, {'x': 2}, 9)]\n"
        "    tasks += [Task(f'slow-{i}', test_tasks.wait, {'seconds': 60}) for i in range(3)]\n"
        "    run_tasks(tasks, Path(sys.argv[1]), n_workers=2)\n"
    )
    script = tmp_path / "study.py"
    script.write_text(code)
    folder = tmp_path / "results"
    command = [sys.executable, str(script), str(folder), os.path.dirname(__file__)]
    # A test run started in the background ignores SIGINT, and its children would too.
    heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}  # where the folder experiments is
    options = {"stderr": subprocess.PIPE, "start_new_session": True, "preexec_fn": heed, "env": environment}
    with subprocess.Popen(command, **options) as process:
        while not (folder / "quick.json").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=50)
    assert b"KeyboardInterrupt: stopped by Ctrl-C: 1 of 4 tasks are done and kept" in message
    # The workers are gone: nobody is left in the process group.
    until = time.monotonic() + 120
    while process_left(process.pid) and time.monotonic() < until:
        time.sleep(0.1)
    assert not process_left(process.pid)
    assert [path.name for path in folder.iterdir()] == ["quick.json"]


def test_the_bar_counts_what_was_kept(tmp_path, capsys):
    tasks = [Task(f"{x}", square, {"x": x}) for x in range(3)]
    run_tasks(tasks[:1], tmp_path, n_workers=1, progress=False)
    assert capsys.readouterr().err == ""
    run_tasks(tasks, tmp_path, n_workers=1, progress=True, label="squares")
    shown = capsys.readouterr().err
    assert "squares" in shown
    assert "3/3" in shown
    assert "left" in shown
