"""What an audit found: bodies that cost too much, reloads without end, pipes, early signals, names of users."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from bmcd.errors import InputError, StoreError
from bmcd.serve.messages import Problem, Recommend
from bmcd.serve.metrics import Metrics
from bmcd.serve.served_model import BLOCK, CurrentModel, ServedModel
from bmcd.serve.settings import Limits, Settings
from bmcd.serve.slots import Slots, stop_if_unwanted

PATIENCE = 60
MEGABYTE = 2**20


def full(start, one, end):
    """A body as large as may be, of many times the same."""
    return start + b",".join([one] * ((MEGABYTE - 100) // (len(one) + 1))) + end


HOSTILE = {
    "people": full(b'{"people":[', b"1", b"]}"),
    "no people": full(b'{"people":[', b"{}", b"]}"),
    "clicks": full(b'{"people":[{"clicked":[', b"[]", b"]}]}"),
    "items": full(b'{"people":[{"clicked":[]}],"items":[', b"1.5", b"]}"),
    "fields": b'{"people":[],' + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}",
    "fields of a person": b'{"people":[{' + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}]}",
    "columns": b'{"inputs":{' + b",".join(b'"%d":1' % number for number in range(90_000)) + b"}}",
    "lists": full(b'{"people":[', b"[]", b"]}"),
    "rows": full(b'{"dataframe_split":{"columns":["item"],"data":[', b"[1]", b"]}}"),
    "nested lists": full(b'{"inputs":[', b"[" * 190 + b"]" * 190, b"]}"),
    "too deep": b"[" * (MEGABYTE - 100),
    "a huge number": b'{"people":[{"clicked":[' + b"9" * (MEGABYTE - 100) + b"]}]}",
    "huge numbers": full(b'{"people":[{"clicked":[', b"9" * 4_000, b"]}]}"),
    "infinite": full(b'{"people":[{"clicked":[', b"1e999", b"]}]}"),
    "no UTF-8": b'{"people":["' + b"\xff" * (MEGABYTE - 100) + b'"]}',
    "half of UTF-8": full(b'{"people":[', b'"ab"', b',"\xc3'),
    "surrogates": full(b'{"people":[{"clicked":[', b'"\\ud800"', b"]}]}"),
    "long text": b'{"people":"' + b"a" * (MEGABYTE - 100) + b'"}',
    "the same field": full(b"{", b'"people":[]', b"}"),
    "blanks": b" " * (MEGABYTE - 100),
}
# CPU seconds for which validation may keep the event loop waiting: it holds Python's lock.
MOST_SECONDS = 0.2


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/explain", "/invocations"])
def test_a_large_invalid_body_costs_little(inside, path, body, monkeypatch):
    """Half a million errors were made of one megabyte: 5 s of the event loop, and a gigabyte."""
    from bmcd.serve.api import Api

    parsed, seconds = Api._parsed, []

    def timed(*arguments):
        began = time.thread_time()
        try:
            return parsed(*arguments)
        finally:
            seconds.append(time.thread_time() - began)

    monkeypatch.setattr(Api, "_parsed", timed)

    async def ask(client):
        headers = {"content-type": "application/json"}
        await client.post(path, content=body, headers=headers)
        tracemalloc.start()
        try:
            return await client.post(path, content=body, headers=headers), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    answer, peak = inside("tastes").run(ask)
    assert answer.status_code in (400, 422)
    assert len(answer.content) < 20_000
    assert peak < 60 * MEGABYTE
    assert max(seconds[:1], default=0) < MOST_SECONDS


@pytest.mark.parametrize("path", ["/health/live", "/", "/docs", "/page/page.js"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_callers_without_the_key_cannot_send_anything(inside, path, method):
    """They could keep all places of large bodies taken, and those who have the key from sending theirs."""

    async def ask(client):
        headers = {"content-type": "application/json"}
        return await client.request(method, path, content=b"{}", headers=headers), await client.get(path)

    sent, asked = inside("tastes", key="a key nobody guesses").run(ask)
    assert (sent.status_code, asked.status_code) == (413, 200)
    assert sent.headers["connection"] == "close"


def test_as_many_lists_as_a_request_needs_can_be_sent(inside):
    rows = [[f"u{number // 200}", "i1"] for number in range(50_000)]
    people = [{"clicked": ["[[[[["] * 100}] * 200

    async def ask(client):
        split = {"columns": ["user", "item"], "data": rows}
        return [
            await client.post("/invocations", json={"dataframe_split": split, "params": {"k": 2}}),
            await client.post("/v1/recommend", json={"people": people, "k": 1}),
        ]

    few, many = inside("tastes").run(ask)
    assert few.status_code == 200, few.text
    assert many.status_code == 200, many.text


def test_invalid_rows_of_mlflow_stop_at_the_first(inside):
    body = full(b'{"instances":[', b"1", b"]}")

    async def ask(client):
        return await client.post("/invocations", content=body, headers={"content-type": "application/json"})

    answer = inside("tastes").run(ask)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 1


def test_bodies_are_validated_away_from_the_event_loop(inside, monkeypatch):
    threads, validate = [], Recommend.model_validate_json

    def noted(*arguments, **options):
        threads.append(threading.current_thread().name)
        return validate(*arguments, **options)

    monkeypatch.setattr(Recommend, "model_validate_json", noted)

    async def ask(client):
        return [await client.post("/v1/recommend", json=body) for body in ({"people": [{"clicked": []}]}, {})]

    assert [one.status_code for one in inside("tastes").run(ask)] == [200, 422]
    assert [name.startswith("bmcd-slot") for name in threads] == [True, True]


def test_people_times_k_is_limited(inside):
    async def ask(client):
        bodies = [{"people": [{"clicked": []}] * n, "k": k} for n, k in ((10, 10), (10, 11), (101, 1))]
        return [await client.post("/v1/recommend", json=body) for body in bodies]

    answers = inside("tastes", limits=Limits(recommendations=100)).run(ask)
    assert [one.status_code for one in answers] == [200, 422, 422]
    assert "110 recommendations, more than 100" in answers[1].json()["detail"]
    assert "20,000" in f"{Limits().recommendations:,}"


def endless(began, ended):
    """Return work that ends only when it is no longer wanted."""

    def work():
        began.set()
        try:
            while True:
                stop_if_unwanted()
                time.sleep(0.001)
        finally:
            ended.set()

    return work


def test_an_answer_that_took_too_long_frees_its_slot():
    """Work that nobody waits for ends at its next look; before, it went on to its end."""
    slots, began, ended = Slots(1, 5), threading.Event(), threading.Event()

    async def ask():
        with pytest.raises(Problem) as late:
            await slots.run(endless(began, ended), 0.05)
        return late.value.status, await slots.run(lambda: "next", PATIENCE)

    assert asyncio.run(ask()) == (504, "next")
    assert ended.wait(PATIENCE)
    stop_if_unwanted()  # in no slot


def test_work_is_stopped_at_the_end():
    """Python aborts if it ends while a daemon thread computes."""
    slots, began, ended = Slots(1, 5), threading.Event(), threading.Event()
    question, waiting = slots.submit(endless(began, ended)), slots.submit(lambda: None)
    assert began.wait(PATIENCE)
    slots.close(PATIENCE)
    assert ended.is_set()
    assert slots.busy == slots.waiting == 0
    assert question.exception(PATIENCE) is not None
    assert not waiting.done()


def test_many_people_are_answered_in_blocks_that_can_be_stopped(files, monkeypatch):
    model = ServedModel.from_file(files["tastes"])
    people = [{"id": number, "clicked": ["i1", "i4"][: number % 3]} for number in range(2 * BLOCK + 5)]
    whole = model.recommend(Recommend(people=people, k=5))
    for first in range(0, len(people), 7):
        some = model.recommend(Recommend(people=people[first : first + 7], k=5))["people"]
        assert some == whole["people"][first : first + 7]
    looks = []

    def look():
        looks.append(True)
        if len(looks) == 2:
            raise KeyError("unwanted")

    monkeypatch.setattr("bmcd.serve.served_model.stop_if_unwanted", look)
    with pytest.raises(KeyError):
        model.recommend(Recommend(people=people, k=5))
    assert len(looks) == 2


@pytest.mark.parametrize("gone", [False, True])
def test_reloads_share_a_load(files, monkeypatch, gone):
    """300 callers who asked for a reload and hung up caused 300 loads."""
    current = CurrentModel(Settings(files["tastes"]), Metrics(Slots(1, 1, start=False)))
    loaded, go = [], threading.Event()
    first = ServedModel.from_file(files["tastes"])

    def load(path):
        go.wait(PATIENCE)
        loaded.append(path)
        return first

    monkeypatch.setattr(current, "_load", load)

    async def ask():
        await current.start(first)
        asked = [asyncio.ensure_future(current.reload())]
        await asyncio.sleep(0.05)  # this one loads
        asked += [asyncio.ensure_future(current.reload()) for _ in range(300)]
        await asyncio.sleep(0.05)
        if gone:
            for one in asked:
                one.cancel()
        go.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        while current._next is not None or current._loading.locked():
            await asyncio.sleep(0.01)
        return answers

    answers = asyncio.run(ask())
    assert len(loaded) == 2  # that of the first, and one for all who came while it ran
    assert gone or {one["model"] for one in answers} == {first.hash}


def test_a_reload_that_fails_is_told_to_all_who_share_it(files, tmp_path):
    path = tmp_path / "m.bmcd"
    path.write_bytes(files["tastes"].read_bytes())
    current = CurrentModel(Settings(path), Metrics(Slots(1, 1, start=False)))

    async def ask():
        await current.start(ServedModel.from_file(path))
        path.write_bytes(b"nonsense")
        return await asyncio.gather(*(current.reload() for _ in range(3)), return_exceptions=True)

    assert [one.status for one in asyncio.run(ask())] == [409] * 3


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_a_pipe_is_refused_and_nobody_waits_for_it(files, tmp_path, inside):
    pipe = tmp_path / "m.bmcd"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ServedModel.from_file, pipe)
        try:
            with pytest.raises(StoreError, match="is not a file"):
                asked.result(PATIENCE)
        finally:
            with contextlib.suppress(OSError):
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def test_an_unknown_user_is_told_of_no_other(inside, clicks):
    async def ask(client):
        by_path = await client.get("/v1/users/nobody/recommendations")
        return by_path, await client.post("/v1/explain", json={"user": "nobody", "item": "i1"})

    for answer in inside("tastes").run(ask):
        assert answer.status_code == 404
        assert not any(str(user) in answer.text for user in clicks.users.tolist())


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ({"host": "0.0.0.0"}, "there is no key"),
        ({"host": ""}, "there is no key"),
        ({"host": "::"}, "there is no key"),
        ({"host": "shop.example"}, "there is no key"),
        ({"host": "0.0.0.0", "key": "long enough"}, None),
        ({"host": "0.0.0.0", "no_key": True}, None),
        ({"host": "127.0.0.2"}, None),
        ({"host": "::1"}, None),
        ({"key": "long enough", "no_key": True}, "leave out no_key"),
    ],
)
def test_off_the_loopback_address_a_key_or_a_decision_is_needed(options, refused, files):
    if refused is None:
        Settings(files["tastes"], **options)
    else:
        with pytest.raises(InputError, match=refused):
            Settings(files["tastes"], **options)


def test_the_command_line_refuses_to_serve_everybody_without_a_key(files):
    command = [sys.executable, "-m", "bmcd", "serve", str(files["tastes"]), "--port", "0", "--host", "0.0.0.0"]
    environment = os.environ | {"BMCD_SERVE_KEY": ""}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert "--key-file" in ended.stderr
    assert "--no-key" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_sighup_while_it_starts_reloads_later(files, tmp_path):
    """It ended the process, and systemd took that for a clean end."""
    path, manager = tmp_path / "m.bmcd", socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    path.write_bytes(files["tastes"].read_bytes())
    manager.bind(str(tmp_path / "notify"))
    manager.settimeout(PATIENCE)
    code = """
import os, signal, sys
from bmcd.serve import served_model
whole = served_model.ServedModel.from_file

def load(path):
    os.kill(os.getpid(), signal.SIGHUP)  # while the file is read
    served_model.ServedModel.from_file = whole
    return whole(path)

served_model.ServedModel.from_file = load
from bmcd.cli import app
app(["serve", sys.argv[1], "--port", "0"], prog_name="bmcd")
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")},
    )
    try:
        url = process.stdout.readline().split(" ")[0]
        assert url.startswith("http")
        assert manager.recv(100) == b"READY=1"
        end = time.monotonic() + PATIENCE
        while 'bmcd_reloads_total{outcome="done"} 1.0' not in httpx.get(f"{url}metrics", timeout=PATIENCE).text:
            assert time.monotonic() < end
            time.sleep(0.05)
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        manager.close()


class WithHorizon:
    """A model that takes a horizon, and remembers which."""

    def __init__(self, model):
        self._model, self.asked = model, []

    def __getattr__(self, name):
        return getattr(self._model, name)

    def lists_for(self, people, k=10, items=None, *, n_threads=None, horizon=None):
        self.asked.append(("lists_for", horizon))
        return self._model.lists_for(people, k, items, n_threads=n_threads)

    def lists(self, k=10, users=None, items=None, *, n_threads=None, horizon=None):
        self.asked.append(("lists", horizon))
        return self._model.lists(k, users, items, n_threads=n_threads)

    def explain(self, user, item, k=10, *, history=None, horizon=None):
        self.asked.append(("explain", horizon))
        return self._model.explain(user, item, k, history=history)


def test_the_horizon_is_passed_on_where_it_is_given(inside):
    service = inside("tastes")
    service.service._loaded.model = model = WithHorizon(service.service._loaded.model)

    async def ask(client):
        model.asked.clear()
        answers = [
            await client.post("/v1/recommend", json={"people": [{"clicked": []}], "k": 3, "horizon": 1}),
            await client.get("/v1/users/107/recommendations?k=3&horizon=2"),
            await client.post("/v1/explain", json={"clicked": [], "item": "i1", "k": 3, "horizon": 5}),
            await client.post("/invocations", json={"inputs": {"item": ["i1"]}, "params": {"horizon": 4}}),
            await client.post("/v1/recommend", json={"people": [{"clicked": []}], "k": 3}),
        ]
        wrong = [
            await client.post("/v1/recommend", json={"people": [{"clicked": []}], "horizon": value})
            for value in (0, 201, "3", 1.5)
        ]
        wrong.append(await client.get("/v1/users/107/recommendations?horizon=0"))
        return answers, wrong

    answers, wrong = service.run(ask)
    assert [one.status_code for one in answers] == [200] * 5, answers
    assert model.asked == [("lists_for", 1), ("lists", 2), ("explain", 5), ("lists_for", 4), ("lists_for", None)]
    assert [answers[place].json()["horizon"] for place in (0, 1, 4)] == [1, 2, 3]
    assert [one.status_code for one in wrong] == [422] * 5
    assert all("horizon" in one.json()["detail"] for one in wrong)


def test_no_query_has_thousands_of_errors(inside):
    """The framework looks up each parameter that it does not know among all: 8,000 took a second."""

    async def ask(client):
        queries = ["&".join(f"{number}=1" for number in range(n)) for n in (1_000, 8_000)]
        return [await client.get(f"/v1/users/107/recommendations?{query}") for query in queries]

    few, many = inside("tastes").run(ask)
    assert (few.status_code, many.status_code) == (422, 422)
    assert len(few.json()["errors"]) == 1
    assert "1,000 parameters" in many.json()["detail"]
