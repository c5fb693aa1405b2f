"""Small models of every kind in files, services started as a user would, and one in this process."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace

import httpx
import pytest

import bmcd
from bmcd.clicks.log import Clicks
from bmcd.serve.served_model import ServedModel
from bmcd.serve.server import Service
from bmcd.serve.settings import Settings

PATIENCE = 120  # seconds, for a machine that is very busy


def make_clicks() -> Clicks:
    """Clicks with text ids and titles, of which one would be markup."""
    simulated = bmcd.simulate(n_users=80, n_items=20, consensuses=2, seed=3).clicks
    items = [f"i{number}" for number in range(20)]
    titles = {item: f"Item {number}" for number, item in enumerate(items)} | {"i3": "<b>bold</b> & \u202eodd"}
    return Clicks.from_matrix(simulated.matrix, users=list(range(100, 180)), items=items).with_titles(titles)


@pytest.fixture(scope="session")
def clicks():
    return make_clicks()


@pytest.fixture(scope="session")
def files(clicks, tmp_path_factory):
    """The path of a small model of each kind."""
    folder = tmp_path_factory.mktemp("served")
    short = {"warmup": 10, "seed": 1, "progress": False}
    fitted = {
        "bmcd": bmcd.BMCD(2).fit(clicks, draws=6, chains=2, **short),
        "tastes": bmcd.Tastes(3, chains=2).fit(clicks, draws=4, **short),
        "blend": bmcd.Blend(
            {"Tastes": bmcd.Tastes(3, chains=2), "EASE": bmcd.baselines.EASE(regularization=50.0)}
        ).fit(clicks, seed=1, progress=False, fit_options={"Tastes": {"draws": 2, "warmup": 5}}),
    }
    paths = {}
    for name, model in fitted.items():
        paths[name] = folder / f"{name}.bmcd"
        model.save(paths[name])
    paths["without"] = folder / "without.bmcd"
    fitted["tastes"].save(paths["without"], clicks=False)
    return paths


class Running:
    """A service in a process of its own."""

    def __init__(self, path, *options, env=None):
        command = [sys.executable, "-m", "bmcd", "serve", str(path), "--port", "0", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | (env or {})
        )
        self.log = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.first_line = self.process.stdout.readline()
        assert self.first_line.startswith("http"), self.stopped()
        self.url = self.first_line.split(" ")[0].rstrip("/")
        self.port = int(self.url.rpartition(":")[2])

    def _read(self):
        self.log.extend(iter(self.process.stderr.readline, ""))

    def wait_until_ready(self):
        until = time.monotonic() + PATIENCE
        while httpx.get(f"{self.url}/health/ready", timeout=PATIENCE).status_code != 200:
            assert time.monotonic() < until, "the service was never ready"
            time.sleep(0.05)
        return self

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=PATIENCE, **options)

    def stopped(self):
        """Wait for its end, and return what it wrote to standard error."""
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return "".join(self.log)

    def access_lines(self):
        """What it wrote of requests so far."""
        return [json.loads(line) for line in self.log if line.startswith("{")]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        # A process that learns weights for a killed service has its standard error, and may go on for a while;
        # to close a pipe that a thread reads from would wait for it.
        self._reader.join(PATIENCE)
        if not self._reader.is_alive():
            self.process.stderr.close()


@pytest.fixture
def start():
    """Start services that end with the test."""
    with contextlib.ExitStack() as stack:

        def started(path, *options, ready=True, env=None):
            running = Running(path, *options, env=env)
            stack.callback(running.close)
            return running.wait_until_ready() if ready else running

        yield started


@pytest.fixture(scope="session")
def running(files):
    """One service of the tastes for all tests that only ask."""
    service = Running(files["tastes"]).wait_until_ready()
    yield service
    service.close()


class Inside:
    """A service in this process: requests go through everything but the network."""

    def __init__(self, path, **options):
        self.service = Service(ServedModel.from_file(path), Settings(path, **options), self.fail)
        self.failed = []

    def fail(self, error):
        self.failed.append(error)

    def run(self, ask):
        """Return what the coroutine ``ask(client)`` gives."""

        async def inside():
            await self.service.current.start(self.service._loaded)
            transport = httpx.ASGITransport(self.service.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await ask(client)

        return asyncio.run(inside())


@pytest.fixture(scope="session")
def inside(files):
    """Make services in this process."""

    def made(kind="tastes", path=None, **options):
        return Inside(path or files[kind], **({"slots": 2} | options))

    return made


@pytest.fixture
def settings(files):
    """Return settings of a service of the tastes, with some changed."""
    return lambda **options: replace(Settings(files["tastes"]), **options)
