"""`bmcd serve --watch`: a file that changes is taken by itself, and one that cannot be loaded changes nothing."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from tests.serve.test_faults import ONE, Load, put, wait_until

from bmcd.serve.served_model import ServedModel, hash_of, state_of

# A service that looks at its file far more often than once a second, so that tests need not wait.
QUICK = (
    "from bmcd.serve import served_model\n"
    "served_model.LOOK_SECONDS = 0.01\n"
    "from bmcd.cli import app\n"
    "app(prog_name='bmcd')\n"
)
# A writer that replaces a file as `bmcd fit -o` does, slowly: in pieces, with the content of another file.
WRITER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from bmcd.files import replacement\n"
    "content, target, piece = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), 4096\n"
    "print('begun', flush=True)\n"
    "while True:\n"
    "    with replacement(target) as file:\n"
    "        for at in range(0, len(content), piece):\n"
    "            file.write(content[at : at + piece])\n"
    "            file.flush()\n"
    "            time.sleep(0.002)\n"
)


@pytest.fixture
def watched(files, tmp_path):
    path = tmp_path / "model.bmcd"
    shutil.copy(files["tastes"], path)
    return path


@pytest.fixture
def quick(start, monkeypatch, tmp_path):
    """Start services that look at their file every hundredth of a second."""
    script = tmp_path / "quick.py"
    script.write_text(QUICK)
    real = subprocess.Popen

    def popen(command, **options):
        if command[1:4] == ["-m", "bmcd", "serve"]:
            command = [sys.executable, str(script), *command[3:]]
        return real(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    return lambda path, *options: start(path, "--watch", *options)


def answering(client):
    return client.post("/v1/recommend", json=ONE).json()["model"]


def reloads(client, outcome):
    text = client.get("/metrics").text
    return int(float(re.search(rf'bmcd_reloads_total{{outcome="{outcome}"}} (\S+)', text)[1]))


def test_a_new_file_is_taken_by_itself_under_load(quick, watched, files):
    service = quick(watched, "--quiet")
    with Load(service) as load, service.client() as client:
        load.wait_for_more()
        for name in ("blend", "bmcd", "tastes"):
            put(files[name].read_bytes(), watched)
            wait_until(lambda name=name: answering(client) == hash_of(files[name]))
    assert {status for status, _ in load.answers} == {200}  # not one failed
    assert reloads_of(load) >= 3


def reloads_of(load):
    """Count how often the answering model changed, as one caller after another saw it."""
    return sum(one != two for one, two in pairwise(model for _, model in load.answers))


def test_at_its_usual_pace_it_takes_seconds(start, watched, files):
    service = start(watched, "--watch")
    put(files["blend"].read_bytes(), watched)
    with service.client() as client:
        wait_until(lambda: answering(client) == hash_of(files["blend"]))


def test_without_watch_the_file_is_left_alone(start, watched, files):
    service = start(watched)
    put(files["blend"].read_bytes(), watched)
    time.sleep(3)
    with service.client() as client:
        assert answering(client) == hash_of(files["tastes"])
        assert reloads(client, "done") == 0


def test_a_bad_file_keeps_the_old_model_and_is_tried_once(quick, watched, files):
    service = quick(watched)
    good, first = files["blend"].read_bytes(), hash_of(files["tastes"])
    with service.client() as client:
        for n, content in enumerate((good[: len(good) // 2], b"", bytes(10**5)), 1):
            put(content, watched)
            wait_until(lambda n=n: reloads(client, "failed") == n)
            time.sleep(0.2)  # twenty looks
            assert reloads(client, "failed") == n
            assert answering(client) == first
        watched.unlink()
        wait_until(lambda: any("is gone" in line for line in service.log))
        assert answering(client) == first
        put(good, watched)
        wait_until(lambda: answering(client) == hash_of(files["blend"]))
        assert (reloads(client, "failed"), reloads(client, "done")) == (3, 1)
        client.post("/v1/reload")
        time.sleep(0.2)
        assert reloads(client, "done") == 2  # what somebody else has loaded is not loaded again
    assert any("was not reloaded" in line for line in service.log)


def test_a_file_written_in_place_is_taken_when_it_is_whole(quick, watched, files):
    """Not as it should be done: the file grows under its own name, slower than the service looks."""
    service = quick(watched)
    content = files["blend"].read_bytes()
    with service.client() as client, open(watched, "wb") as file:
        for at in range(0, len(content), 1 + len(content) // 40):
            file.write(content[at : at + 1 + len(content) // 40])
            file.flush()
            assert answering(client) == hash_of(files["tastes"])
        file.close()
        wait_until(lambda: answering(client) == hash_of(files["blend"]))


@pytest.mark.parametrize("n_kills", [5, pytest.param(100, marks=pytest.mark.deep)])
def test_kill_9_while_the_file_is_written_and_watched(quick, watched, files, n_kills, tmp_path):
    """Whenever the writer is killed, the service answers with one of the two models, and without pause."""
    service = quick(watched, "--quiet")
    known = {hash_of(files["tastes"]), hash_of(files["blend"])}
    with Load(service, callers=2) as load, service.client() as client:
        for n in range(n_kills):
            name = ("blend", "tastes")[n % 2]
            command = [sys.executable, "-c", WRITER, files[name], watched]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
                assert writer.stdout.readline() == b"begun\n"
                time.sleep(0.005 + 0.037 * (n % 7))
                writer.send_signal(signal.SIGKILL)
            load.wait_for_more(3)
            # Half of a file that a killed program wrote under the model's own name: an older state is worth more.
            if n % 3 == 0:
                content = files["blend"].read_bytes()
                watched.write_bytes(content[: len(content) // 3])
                load.wait_for_more(3)
        put(files["blend"].read_bytes(), watched)
        wait_until(lambda: answering(client) == hash_of(files["blend"]))
    assert {status for status, _ in load.answers} == {200}
    assert {model for _, model in load.answers} <= known
    assert ServedModel.from_file(watched).hash == hash_of(files["blend"])


def resident(client):
    """The memory of the service in bytes."""
    text = client.get("/metrics").text
    return float(re.search(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)[1])


@pytest.mark.parametrize("n_reloads", [60, pytest.param(1_000, marks=pytest.mark.deep)])
def test_reloads_do_not_make_memory_grow(quick, watched, files, n_reloads):
    """A service keeps one model, or two while it loads: memory after many reloads is that after the first few."""
    service = quick(watched, "--quiet", "--slots", "1")
    with service.client() as client:
        sizes = []
        for n in range(n_reloads):
            name = ("blend", "tastes")[n % 2]
            put(files[name].read_bytes(), watched)
            wait_until(lambda name=name: answering(client) == hash_of(files[name]))
            sizes.append(resident(client))
        assert reloads(client, "done") >= n_reloads
    warm = n_reloads // 3
    # Every reload that kept its model (some 100 kB of arrays, ids and titles) would add up to much more than this.
    grown = max(sizes[-10:]) - max(sizes[:warm])
    assert grown < 4 * 2**20 + 5_000 * n_reloads, [round(size / 2**20, 1) for size in sizes[:: n_reloads // 20]]


def test_the_state_of_a_file_changes_with_every_kind_of_change(tmp_path):
    path = tmp_path / "file"
    assert state_of(path) is None
    path.write_bytes(b"one")
    states = [state_of(path)]
    put(b"one", path)  # the same content, another file
    states.append(state_of(path))
    path.write_bytes(b"three")
    states.append(state_of(path))
    os.utime(path, (1, 1))
    states.append(state_of(path))
    assert len(set(states)) == 4
