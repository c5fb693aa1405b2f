"""A live service as a user runs it: clicks in, answers that know them, counts, restarts, what is refused."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pandas as pd
import pytest

import bmcd
from bmcd.baselines.counting import events_of
from bmcd.blend.features import EventCounts, count
from bmcd.serve.served_model import hash_of
from bmcd.serve.store import DATABASE, Reader
from bmcd.serve.updating import MODEL, clicks_of

pytestmark = pytest.mark.xdist_group("live")  # many services, one after the other

PATIENCE = 120


def until(true, seconds=PATIENCE):
    """Wait until something is true, and return it."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.1)
    return found


def send(client, *clicks, status=200):
    """Send clicks as (user, item, time)."""
    body = [dict(zip(("user", "item", "time", "event"), click)) for click in clicks]  # noqa: B905
    body = [{**one, "time": str(one["time"])} for one in body]
    answer = client.post("/v1/clicks", json={"clicks": body})
    assert answer.status_code == status, answer.text
    return answer.json()


def asked(client, user, **options):
    answer = client.get(f"/v1/users/{user}/recommendations", params={"k": 5, "horizon": 1, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()


def counted(client, before):
    """Wait until another model answers than that with the hash before."""
    until(lambda: client.get("/v1/model").json()["hash"] != before)
    return client.get("/v1/model").json()


def recorded(folder):
    reader = Reader(folder / DATABASE)
    rows, _ = reader.since(0, 0)
    reader.close()
    return rows


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "live"


@pytest.fixture
def live(start, model, folder):
    """A live service that counts every second, and a client."""

    clients = []

    def started(*options, path=model):
        service = start(path, "--live", str(folder), "--refresh", "1", *options)
        clients.append(service.client())
        return service, clients[-1]

    yield started
    for client in clients:
        client.close()


def test_own_clicks_count_at_once_and_those_of_others_after_a_count(live, end, folder, rows):
    _service, client = live("--refresh", "5")
    before = client.get("/v1/model").json()
    nobody = asked(client, "ann")
    assert nobody["clicked"] == []
    now = end + pd.Timedelta(minutes=5)
    assert send(client, ("ann", "i3", now)) == {"recorded": 1, "duplicates": 0}
    own = asked(client, "ann")
    assert own["clicked"] == ["i3"]
    assert own["recommendations"][0]["item"] == "i4"
    # To the last digit what the model says of such a history.
    want = bmcd.load(folder / MODEL).recommend_for([["i3"]], 5, horizon=1)
    assert [row["item"] for row in own["recommendations"]] == want["item"].tolist()
    assert [row["probability"] for row in own["recommendations"]] == want["probability"].tolist()
    send(client, *((f"new{n}", "fresh", now + pd.Timedelta(seconds=n)) for n in range(200)))
    assert asked(client, "new7")["unknown_items"] == ["fresh"]
    assert client.get("/v1/items", params={"q": "fresh"}).json()["total"] == 0
    about = counted(client, before["hash"])
    assert client.get("/v1/items", params={"q": "fresh"}).json()["total"] == 1
    assert asked(client, "ann")["recommendations"][0]["item"] in ("i4", "fresh")
    assert asked(client, "new7")["unknown_items"] == []
    assert about["live"]["not_counted"] == 0
    assert about["data"]["clicks"] > before["data"]["clicks"] - 300
    # An hour later the session is over, which takes the click into account as an earlier one.
    send(client, ("bob", "i9", now + pd.Timedelta(hours=1)))
    assert asked(client, "ann")["clicked"] == ["i3"]


def test_the_counts_are_those_of_a_fit_to_everything(live, end, folder, rows, model):
    rng = np.random.default_rng(3)
    _service, client = live()
    sent = []
    for _batch in range(12):
        clicks = [
            (
                f"u{rng.integers(800)}",
                f"i{rng.integers(30)}",
                end - pd.Timedelta(minutes=int(rng.integers(-200, 600))),
            )
            for _ in range(40)
        ]
        sent += clicks
        send(client, *clicks, *sent[:3])
        time.sleep(0.2)
    until(lambda: client.get("/v1/model").json()["live"]["not_counted"] == 0)
    client.post("/v1/reload")
    found = bmcd.load(folder / MODEL)
    every = pd.concat([rows, pd.DataFrame(sent, columns=["user", "item", "time"])])
    whole = bmcd.Clicks.from_frame(every)
    whole = whole.add(whole, keep="144h")
    assert found.clicks_.fingerprint() == whole.fingerprint()
    again = bmcd.load(model).update(bmcd.Clicks.from_frame(every), keep="144h")
    # The weights may have been learnt again meanwhile: these clicks cover hours.
    ours, theirs = found.fitted_.tables, again.fitted_.tables
    for name in ("share", "popularity", "follows", "follows_recent", "two_steps", "later", "goes_with"):
        one, other = (getattr(each, name) for each in (ours, theirs))
        parts = zip(one, other, strict=True) if isinstance(one, tuple) else ((one, other),)
        assert all(np.array_equal(*part) for part in parts), name


def test_users_by_id_use_what_was_counted_and_recorded(live, end):
    _, client = live("--refresh", "600")
    user = "u5"
    before = asked(client, user)
    assert before["clicked"]
    send(client, (user, "i11", end), (user, "i12", end + pd.Timedelta(seconds=9)))
    assert asked(client, user)["clicked"] == [
        *(one for one in before["clicked"] if one not in ("i11", "i12")), "i11", "i12",
    ] or set(asked(client, user)["clicked"]) == {*before["clicked"], "i11", "i12"}  # fmt: skip
    assert not {"i11", "i12"} & {row["item"] for row in asked(client, user)["recommendations"]}


def test_who_is_forgotten_is_gone(live, end, folder):
    _, client = live()
    name, item = "somebody-with-a-long-name", "u77"
    before = client.get("/v1/model").json()["hash"]
    send(client, *((name, f"private-{n}", end + pd.Timedelta(seconds=n)) for n in range(20)), ("bob", "i1", end))
    middle = counted(client, before)["hash"]
    known = bmcd.load(folder / MODEL).clicks_.users.tolist()
    assert name in known
    assert item in known
    send(client, (name, "private-late", end + pd.Timedelta(seconds=50)))
    for user in (name, item):
        gone = client.delete(f"/v1/users/{user}")
        assert gone.status_code == 200
        assert asked(client, user)["clicked"] == []
        assert client.post("/v1/explain", json={"user": user, "item": "i3"}).status_code == 404
    counted(client, middle)
    until(lambda: name not in bmcd.load(folder / MODEL).clicks_.users.tolist())
    left = bmcd.load(folder / MODEL).clicks_
    assert item not in left.users.tolist()
    assert "bob" in left.users.tolist()
    until(lambda: client.get("/v1/items?q=private").json()["total"] == 0)
    for path in folder.iterdir():
        assert name.encode() not in path.read_bytes(), path
        assert b"private-" not in path.read_bytes(), path
    # Who comes back is a new user.
    send(client, (name, "i2", end + pd.Timedelta(seconds=60)))
    assert asked(client, name)["clicked"] == ["i2"]


def test_who_is_forgotten_stays_so_after_a_restart(live, end, folder, model):
    service, client = live("--refresh", "600")
    client.delete("/v1/users/u5")
    send(client, ("u5", "i1", end))
    os.kill(service.process.pid, signal.SIGKILL)
    service.stopped()
    _, client = live("--refresh", "600")
    assert asked(client, "u5")["clicked"] == ["i1"]
    assert bmcd.load(model).clicks_.users.tolist().count("u5") == 1  # the file that was given is left alone


def test_a_restart_counts_what_was_recorded(live, end, folder, model, rows):
    service, client = live("--refresh", "600")
    send(client, *((f"new{n}", f"i{n % 20}", end + pd.Timedelta(seconds=n)) for n in range(300)))
    service.process.send_signal(signal.SIGTERM)
    service.stopped()
    assert service.process.returncode == 0
    _, client = live("--refresh", "600")
    assert asked(client, "new7")["clicked"] == ["i7"]
    assert client.get("/v1/model").json()["live"]["not_counted"] == 0
    assert "new7" in bmcd.load(folder / MODEL).clicks_.users.tolist()


@pytest.mark.parametrize(
    "damage",
    ["cut", pytest.param("gone", marks=pytest.mark.deep), pytest.param("another base", marks=pytest.mark.deep)],
)
def test_the_model_of_the_folder_is_made_again_if_it_cannot_be_used(live, end, folder, model, tmp_path, damage):
    service, client = live("--refresh", "600")
    send(client, ("new", "i7", end))
    service.process.kill()
    service.stopped()
    path, given = folder / MODEL, model
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "gone":
        path.unlink()
    else:
        given = tmp_path / "another.bmcd"
        more = pd.DataFrame({"user": ["other"], "item": ["i1"], "time": [end]})
        bmcd.load(model).update(more).save(given)
    _, client = live("--refresh", "600", path=given)
    assert asked(client, "new")["clicked"] == ["i7"]
    assert asked(client, "other")["clicked"] == (["i1"] if damage == "another base" else [])
    assert asked(client, "u5")["clicked"]


def test_a_second_service_and_other_models_are_refused(live, model, folder, files):
    live()

    def refused(path, where):
        command = [sys.executable, "-m", "bmcd", "serve", str(path), "--live", str(where), "--port", "0"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr.count("\n") == 1
        return ended.stderr

    assert "another service uses this folder" in refused(model, folder)
    other = folder.with_name("other")
    assert "live use needs a Blend of counts, fitted to clicks with times" in refused(files["tastes"], other)
    without = folder.with_name("without.bmcd")
    bmcd.load(model).save(without, clicks=False)
    assert "saved with its clicks" in refused(without, other)


REFUSED = [
    ({}, "clicks: is missing"),
    ({"clicks": []}, "clicks:"),
    ({"clicks": [{"user": "ann"}]}, "clicks.0.item: is missing"),
    ({"clicks": [{"user": "ann", "item": "a", "when": 7}]}, "there is no such field"),
    ({"clicks": [{"user": " ", "item": "a"}]}, "clicks.0.user: ' ' is empty"),
    ({"clicks": [{"user": True, "item": "a"}]}, "clicks.0.user"),
    ({"clicks": [{"user": "a" * 501, "item": "a"}]}, "has more than 500 characters"),
    ({"clicks": [{"user": 2**63, "item": "a"}]}, "too large a number for an id"),
    ({"clicks": [{"user": "ok", "item": "ok"}, {"user": "ann", "item": "a", "time": "soon"}]}, "clicks.1.time"),
    ({"clicks": [{"user": "ann", "item": "a", "time": 12}]}, "is not a time"),
    ({"clicks": [{"user": "ann", "item": "a", "time": "2199-01-01"}]}, "ahead of this service's clock"),
    ({"clicks": [{"user": "ann", "item": "a"}] * 5001}, "5,001 are more than 5,000"),
]


def test_what_is_refused_records_nothing(live, folder):
    _, client = live("--refresh", "600")
    for body, said in REFUSED:
        answer = client.post("/v1/clicks", json=body)
        assert answer.status_code == 422, (body, answer.text)
        assert said in answer.json()["detail"], answer.text
    lone = client.post(
        "/v1/clicks",
        content=b'{"clicks":[{"user":"\\ud800","item":"a"}]}',
        headers={"content-type": "application/json"},
    )
    assert lone.status_code in (400, 422)
    assert recorded(folder) == []


def test_odd_clicks_are_taken_and_counted(live, end, folder):
    """Whole numbers, hostile ids, late clicks, a flood of new items, a user with very many clicks."""
    _, client = live()
    before = client.get("/v1/model").json()["hash"]
    hostile = ["'; DROP TABLE clicks; --", "nul\0inside", "two\nlines", "\U0001f600", "x" * 500, "../../etc", "12"]
    send(client, *((user, item, end) for user in hostile for item in hostile))
    send(client, (12, 7, end), ("late", "i1", "1990-01-01T00:00:00Z"))
    for first in range(0, 20_000, 5_000):
        send(client, *(("flood", f"junk-{n}", end - pd.Timedelta(seconds=n)) for n in range(first, first + 5_000)))
    for first in range(0, 100_000, 5_000):
        when = [end - pd.Timedelta(hours=1) + pd.Timedelta(milliseconds=n) for n in range(first, first + 5_000)]
        send(client, *(("robot", f"i{n % 25}", t) for n, t in zip(range(first, first + 5_000), when, strict=True)))
    assert len(asked(client, "robot")["clicked"]) == 25
    counted(client, before)
    until(lambda: client.get("/v1/model").json()["live"]["not_counted"] == 0)
    for user in hostile:
        found = client.get("/v1/items", params={"ids": [user]}).json()
        assert [one["item"] for one in found["items"]] == [user]
    assert asked(client, "12")["clicked"]
    assert len(asked(client, "robot")["clicked"]) == 25
    until(lambda: min(row[3] for row in recorded(folder)) > 10**15)  # 1990 has left the window
    assert len(recorded(folder)) == len(hostile) ** 2 + 1 + 20_000 + 100_000


def test_a_click_without_a_time_is_of_now(live, folder):
    _, client = live("--refresh", "600")
    before = time.time_ns() // 1000
    assert client.post("/v1/clicks", json={"clicks": [{"user": "ann", "item": "i1"}]}).status_code == 200
    assert before <= recorded(folder)[0][3] <= time.time_ns() // 1000


def test_a_clock_that_is_set_back_does_not_turn_clicks_around(monkeypatch):
    from bmcd.serve import api
    from bmcd.serve.settings import Limits

    clock = [10**18]
    monkeypatch.setattr(api.time, "time_ns", lambda: clock[0])
    own = api.Api(None, None, None, Limits())
    body = b'{"clicks": [{"user": "ann", "item": "a"}, {"user": "ann", "item": "b"}]}'
    times = []
    for change in (0, 10**9, -60 * 10**9, 30 * 10**9, 40 * 10**9, -(10**14)):
        clock[0] += change
        times.append([click.time for click in own._clicks(body)])
    assert times[0] == [10**15, 10**15 + 1]
    assert times[1] == times[2] == times[3]
    assert times[4][0] == times[1][0] + 10**7
    assert times[5][0] == times[4][0] - 10**11  # set right by more than an hour: that is the time


def test_clicks_recorded_while_the_clock_was_ahead_wait(folder, model, end):
    from bmcd.serve.store import Click, Store
    from bmcd.serve.updating import Counter, start_model

    told = []
    store = Store(folder, 100, told.extend)
    ahead = time.time_ns() // 1000 + 10**9
    store.record([Click("ann", "i1", ahead), Click("bob", "i2", int(end.timestamp() * 1e6))]).result()
    counter = Counter(folder, start_model(folder, model), None)
    counter.count()
    users = counter.model.clicks_.users.tolist()
    assert "bob" in users
    assert "ann" not in users
    counter._held = [(row[0], row[1], row[2], row[3] - 10**9 - 10**6) for row in counter._held]  # time passes
    counter.count()
    assert counter.model.clicks_.users.tolist().count("ann") == 1
    store.close()


@pytest.mark.chance(0)
def test_killed_at_any_moment_nothing_that_was_acknowledged_is_lost(live, folder, model, end, deep, rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    acknowledged, number = [], 0
    base = bmcd.load(model).clicks_
    for _turn in range(100 if deep else 2):
        service, client = live()

        def load(first, client=client):
            n = first
            while True:
                clicks = [
                    (f"u{n % 700}", f"i{n % 40}", end + pd.Timedelta(milliseconds=n * 20 + m), f"{n}.{m}")
                    for m in range(5)
                ]
                try:
                    send(client, *clicks)
                except (httpx.HTTPError, AssertionError):
                    return
                acknowledged.extend(clicks)
                n += 1

        threads = [threading.Thread(target=load, args=(number + 10**6 * t,)) for t in range(1, 4)]
        number += 10_000
        for thread in threads:
            thread.start()
        time.sleep(1 + rng.exponential(2))
        os.kill(service.process.pid, signal.SIGKILL)
        service.stopped()
        for thread in threads:
            thread.join()
    _, client = live("--refresh", "600")
    rows = recorded(folder)
    found = [(row[1], row[2], row[3]) for row in rows]
    assert len(found) == len(set(found))
    wanted = {(user, item, round(when.timestamp() * 1e6)) for user, item, when, _ in acknowledged}
    assert wanted <= set(found)
    assert len(wanted) > 20
    fresh = bmcd.load(folder / MODEL)
    whole = base.add(clicks_of(rows, base), keep="144h")
    assert fresh.clicks_ == whole
    settings = fresh.fitted_.settings
    plain = settings._replace(members=tuple(name for name in settings.members if name != "EASE"))
    want = count(EventCounts(events_of(whole)), plain, 0.0)
    for name in ("popularity", "share", "known"):
        np.testing.assert_array_equal(getattr(fresh.fitted_.tables, name), getattr(want, name))
    for name in ("follows", "follows_recent", "goes_with"):
        for one, other in zip(getattr(fresh.fitted_.tables, name), getattr(want, name), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_process_that_counts_and_dies_is_started_again(live, end):
    service, client = live()
    before = client.get("/v1/model").json()["hash"]
    children = subprocess.run(
        ["pgrep", "-P", str(service.process.pid)], capture_output=True, text=True
    ).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    send(client, ("ann", "new", end + pd.Timedelta(seconds=1)))
    counted(client, before)
    until(lambda: client.get("/v1/items", params={"q": "new"}).json()["total"] == 1)


def test_weights_are_learnt_again_beside_the_service(live, end, folder, rows, tmp_path):
    given = tmp_path / "without-refresh.bmcd"  # so its weights are for windows of another length
    before = bmcd.Blend().fit(rows, seed=1, progress=False)
    before.save(given)
    _, client = live(path=given)
    until(lambda: bmcd.load(folder / MODEL).refresh is not None, 240)
    until(lambda: client.get("/v1/model").json()["hash"] == hash_of(folder / MODEL))
    assert not (folder / "learnt.bmcd").exists()
    learnt = bmcd.load(folder / MODEL)
    assert learnt.fitted_.settings.half_lives == before.fitted_.settings.half_lives
    assert learnt.weights_["weight"].tolist() != before.weights_["weight"].tolist()
    send(client, ("ann", "i1", end))
    assert asked(client, "ann")["recommendations"]


def test_the_examples_and_metrics_of_a_live_service(live, end):
    _, client = live("--refresh", "600")
    description = client.get("/openapi.json").json()
    body = description["paths"]["/v1/clicks"]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert client.post("/v1/clicks", json=body).json() == {"recorded": 1, "duplicates": 0}
    text = client.get("/metrics").text
    assert "bmcd_live_clicks_not_counted 1.0" in text
    assert 'bmcd_live_warning{window="hour"} 0.0' in text
    assert json.dumps(client.get("/v1/live").json())
