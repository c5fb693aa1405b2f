"""What must not hurt: bad files under load, signals, kill -9, callers that hang up or dawdle."""

import os
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

import bmcd
from bmcd import container
from bmcd.serve.served_model import hash_of

PATIENCE = 120  # seconds, for a machine that is very busy
ONE = {"people": [{"clicked": ["i1", "i4"]}], "k": 5}


def wait_until(happened):
    """Wait for something that should happen soon; fail if it never does."""
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


class Load:
    """Callers that ask all the time, from several threads, until the end of the `with` block."""

    def __init__(self, service, callers=4):
        self.service, self.callers, self.answers, self.stop = service, callers, [], threading.Event()

    def __enter__(self):
        self.pool = ThreadPoolExecutor(self.callers)
        self.asking = [self.pool.submit(self.ask) for _ in range(self.callers)]
        return self

    def ask(self):
        with self.service.client() as client:
            while not self.stop.is_set():
                answer = client.post("/v1/recommend", json=ONE)
                self.answers.append((answer.status_code, answer.json().get("model")))

    def wait_for_more(self, n=10):
        until = len(self.answers) + n
        wait_until(lambda: len(self.answers) >= until)

    def __exit__(self, *_):
        self.stop.set()
        for one in self.asking:
            one.result()
        self.pool.shutdown()


def put(content, path):
    """Replace a file as one should: written elsewhere, then moved."""
    path.with_suffix(".new").write_bytes(content)
    os.replace(path.with_suffix(".new"), path)


def test_a_new_model_is_taken_and_a_bad_one_never_is_under_load(start, files, tmp_path):
    path = tmp_path / "model.bmcd"
    shutil.copy(files["tastes"], path)
    good, other = files["tastes"].read_bytes(), files["blend"].read_bytes()
    half = bytearray(good)
    half[len(half) // 2] ^= 0xFF
    _, header, arrays = container.read(path, "model")
    header["run"]["n_items"] = 99
    container.write(tmp_path / "lies", "model", header, arrays)
    service = start(path, "--quiet")
    first, second = hash_of(files["tastes"]), hash_of(files["blend"])
    bad = {
        "cut": good[: len(good) // 2],
        "empty": b"",
        "flipped": bytes(half),
        "another kind": b"PK\x03\x04" + bytes(1000),
        "lies with a right checksum": (tmp_path / "lies").read_bytes(),
        "zeros": bytes(10**6),
    }
    with Load(service) as load, service.client() as client:
        load.wait_for_more()
        for name, content in bad.items():
            put(content, path)
            answer = client.post("/v1/reload")
            assert answer.status_code == 409, name
            assert "is still in use" in answer.json()["detail"]
            load.wait_for_more(3)
        path.unlink()
        assert client.post("/v1/reload").status_code == 409
        path.mkdir()
        assert client.post("/v1/reload").status_code == 409
        path.rmdir()
        load.wait_for_more()
        before = len(load.answers)
        put(other, path)
        answer = client.post("/v1/reload")
        assert answer.json() == {"model": second, "before": first, "changed": True}
        load.wait_for_more()
    assert {status for status, _ in load.answers} == {200}  # not one failed
    assert load.answers[0][1] == first
    assert load.answers[-1][1] == second
    assert before < len(load.answers)


def test_sighup_reloads(start, files, tmp_path):
    path = tmp_path / "model.bmcd"
    shutil.copy(files["tastes"], path)
    service = start(path)
    with service.client() as client:
        put(b"nonsense", path)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("was not reloaded" in line for line in service.log))
        assert client.post("/v1/recommend", json=ONE).json()["model"] == hash_of(files["tastes"])
        put(files["bmcd"].read_bytes(), path)
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: client.get("/health/ready").json()["model"] == hash_of(files["bmcd"]))
        assert 'bmcd_reloads_total{outcome="failed"} 1.0' in client.get("/metrics").text


def test_not_ready_before_it_is_warm(start, files):
    """It listens before it is ready, says so, and never answers a question with an error of its own."""
    service = start(files["bmcd"], ready=False)
    seen = set()
    with service.client() as client:
        while True:
            ready, live = client.get("/health/ready"), client.get("/health/live")
            asked = client.post("/v1/recommend", json=ONE)
            seen.add((ready.status_code, asked.status_code))
            assert live.status_code == 200
            if asked.status_code == 200:
                break
            assert asked.headers["retry-after"] == "1"
    assert seen <= {(503, 503), (503, 200), (200, 200)}


def test_it_ends_with_what_it_has_begun_answered(start, files, clicks):
    service = start(files["bmcd"], "--slots", "1", "--grace", "100")
    many = {"people": [{"clicked": clicks.items.tolist()[:6]}] * 300, "k": 10}
    with service.client() as client, ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(client.post, "/v1/recommend", json=many) for _ in range(3)]
        with service.client() as other:
            wait_until(lambda: "bmcd_slots_busy 1.0" in other.get("/metrics").text)
        service.process.send_signal(signal.SIGTERM)
        answers = [one.result() for one in asked]
    assert [answer.status_code for answer in answers] == [200] * 3
    service.stopped()
    assert service.process.returncode == 0
    with pytest.raises(httpx.TransportError):
        httpx.get(service.url)


def test_it_ends_in_the_grace_time_although_a_question_takes_longer(start, files, clicks):
    service = start(
        files["bmcd"],
        *("--slots", "1", "--grace", "1"),
        *("--max-people", "100000", "--max-body", "100000000", "--max-recommendations", "10000000"),
    )
    endless = {"people": [{"clicked": clicks.items.tolist()[:9]}] * 60_000, "k": 10}
    with ThreadPoolExecutor(1) as pool:
        with service.client() as other:
            asked = pool.submit(httpx.post, f"{service.url}/v1/recommend", json=endless, timeout=600)
            wait_until(lambda: "bmcd_slots_busy 1.0" in other.get("/metrics").text)
        service.process.send_signal(signal.SIGTERM)
        service.stopped()
        assert asked.result().status_code == 503  # not 200: it was cut off
    assert service.process.returncode == 0


def test_after_kill_it_starts_again_and_says_the_same(start, files):
    first = start(files["tastes"])
    with first.client() as client:
        before = client.post("/v1/recommend", json=ONE).json()
    first.process.kill()
    first.stopped()
    again = start(files["tastes"], "--port", str(first.port))
    with again.client() as client:
        assert client.post("/v1/recommend", json=ONE).json() == before


def test_callers_that_hang_up_leave_no_work_behind(start, files, clicks):
    service = start(files["bmcd"], "--slots", "1")
    body = b'{"people": [' + b",".join([b'{"clicked": ["i1","i2","i3"]}'] * 400) + b"]}"
    head = b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", service.port)) as caller:
            caller.sendall(head + str(len(body)).encode() + b"\r\n\r\n" + body)
    with service.client() as client:
        assert client.post("/v1/recommend", json=ONE).status_code == 200
        idle = ("bmcd_slots_busy 0.0", "bmcd_queue_waiting 0.0")
        wait_until(lambda: all(line in client.get("/metrics").text for line in idle))
        text = client.get("/metrics").text
    assert 'status="500"' not in text


def test_callers_that_dawdle_are_hung_up_on_and_hold_nobody_up(start, files, monkeypatch):
    service = start(files["tastes"], "--slots", "1", "--max-arrival", "0.5")

    def until_closed(first):
        """Send a byte now and then until the other side has had enough; return what it said."""
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as caller:
            caller.sendall(first)
            said = b""
            try:
                while True:
                    caller.settimeout(0.05)
                    try:
                        if not (part := caller.recv(4096)):
                            return said
                        said += part
                    except TimeoutError:
                        caller.sendall(b"a")
            except OSError:
                return said

    head = b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    slow = [
        b"",
        b"P",
        head,
        head + b"content-length: 100000\r\n\r\n{",
        head + b"transfer-encoding: chunked\r\n\r\n",
    ]
    with ThreadPoolExecutor(len(slow)) as pool, service.client() as client:
        dawdling = [pool.submit(until_closed, first) for first in slow]
        assert client.post("/v1/recommend", json=ONE).status_code == 200
        said = [one.result() for one in dawdling]
    assert b" 408 " in said[3]


def test_a_model_that_cannot_be_served_ends_with_one_line(files, tmp_path):
    import subprocess
    import sys

    (tmp_path / "broken.bmcd").write_bytes(b"nonsense")
    for path, named in ((tmp_path / "none.bmcd", "none.bmcd"), (tmp_path / "broken.bmcd", "broken.bmcd")):
        ended = subprocess.run([sys.executable, "-m", "bmcd", "serve", str(path)], capture_output=True, text=True)
        assert ended.returncode == 1
        assert named in ended.stderr
        assert "Traceback" not in ended.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "bmcd", "serve", str(files["tastes"]), "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 1
    assert port in ended.stderr
    assert "--port" in ended.stderr


def test_a_file_that_is_being_written_is_not_taken(tmp_path, files, monkeypatch):
    from bmcd.serve import served_model

    hashes = iter("abcdef")
    monkeypatch.setattr(served_model, "hash_of", lambda _: next(hashes))
    with pytest.raises(bmcd.errors.StoreError, match="being written"):
        served_model.ServedModel.from_file(files["tastes"])
