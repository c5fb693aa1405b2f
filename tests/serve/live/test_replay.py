"""A log replayed to a live service: clicks at their pace, lists along the way, hits by hour."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest

import bmcd
from bmcd.errors import InputError
from bmcd.serve.replaying import Replay

T = pd.Timestamp("2026-05-01 10:00")


class Fake(BaseHTTPRequestHandler):
    """A service that answers every user with the items after the last one clicked, and is busy now and then."""

    protocol_version = "HTTP/1.1"

    def _answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        own = self.server
        own.n += 1
        if own.n % 3 == 0:
            self._answer(429, {"detail": "busy"})
            return
        for click in body["clicks"]:
            own.clicks.append((click["user"], click["item"], click["time"]))
            own.last[click["user"]] = int(click["item"])
        self._answer(200, {"recorded": len(body["clicks"]), "duplicates": 0})

    def do_GET(self):
        user = self.path.split("/")[3]
        first = self.server.last[user] + 1
        rows = [{"item": first + n, "probability": 0.25} for n in range(2)]
        self._answer(200, {"recommendations": rows})

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    server.daemon_threads = True
    server.n, server.clicks, server.last = 0, [], {}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.address_text = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def log():
    """Visits that go from item to the next one, but for every fourth click, which goes five on."""
    rows = []
    for user in range(40):
        item = user
        for click in range(9):
            rows.append((user, item, T + pd.Timedelta(minutes=3 * user + 4 * click)))
            item += 5 if click % 4 == 3 else 1
    return pd.DataFrame(rows, columns=["user", "item", "time"])


def test_clicks_come_in_order_and_hits_are_counted(fake):
    clicks = bmcd.Clicks.from_frame(log())
    run = Replay(clicks, fake.address_text, speed=600, ask=1.0)
    shown = []
    hours = run.run(shown.append)
    assert [click[2] for click in fake.clicks] == sorted(int(time.value // 1000) for time in log()["time"])
    assert len(fake.clicks) == len(set(fake.clicks)) == 360
    assert sum(hour.clicks for hour in hours) == 360
    assert shown == hours
    asked = sum(hour.asked for hour in hours)
    assert 100 < asked <= 40 * 8 - run.n_late
    assert all(hour.predicted == 0.5 for hour in hours if hour.asked)
    hits = sum(hour.observed * hour.asked for hour in hours)
    assert hits == sum(hit for *_, hit in run.compared)
    # Of a user's eight next clicks two go five on; which of them came too late is chance.
    assert abs(hits / asked - 0.75) < 0.15


@pytest.mark.deep
def test_some_ask_and_sessions_end(fake):
    frame = log()
    frame.loc[frame["user"] % 2 == 0, "time"] += pd.to_timedelta(frame.groupby("user").cumcount() * 60, unit="min")
    run = Replay(bmcd.Clicks.from_frame(frame), fake.address_text, speed=2_000, ask=0.5, seed=2)
    asked = sum(hour.asked for hour in run.run()) + run.n_late
    assert 20 < asked < 110  # half of the 160 clicks after which a session goes on, but those sent together


def test_what_cannot_be_replayed_is_refused(fake):
    clicks = bmcd.Clicks.from_frame(log())
    with pytest.raises(InputError, match="only a log with times"):
        Replay(bmcd.Clicks.from_frame(log()[["user", "item"]], order="rows"), fake.address_text, speed=1)
    with pytest.raises(InputError, match="speed"):
        Replay(clicks, fake.address_text, speed=0)
    with pytest.raises(InputError, match="not the address of a service"):
        Replay(clicks, "nowhere", speed=1).run()


def test_the_command_replays_to_a_service(start, model, rows, end, tmp_path):
    later = rows[-300:].assign(time=lambda f: f["time"] + pd.Timedelta(hours=5), user=lambda f: f["user"] + "later")
    later.to_csv(tmp_path / "later.csv", index=False)
    service = start(model, "--live", str(tmp_path / "live"), "--refresh", "1")
    command = [sys.executable, "-m", "bmcd", "replay", str(tmp_path / "later.csv"), "--url", service.url]
    first = str(later["time"].quantile(0.5))
    ended = subprocess.run(
        [*command, "--speed", "1200", "--ask", "1", "--from", first, "--json"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["clicks"] == int((later["time"] >= first).sum())
    assert found["lists"] > 10
    # What follows an item is nearly fixed, and lists have 10 of 25 items.
    assert found["observed"] > 0.6
    with service.client() as client:
        live = client.get("/v1/live").json()
    assert live["day"]["clicks"] == found["clicks"]
    assert live["day"]["lists"] > 10
    none = subprocess.run([*command, "--from", "2030-01-01"], capture_output=True, text=True, timeout=300)
    assert none.returncode == 1
    assert "there are no clicks between these times" in none.stderr
