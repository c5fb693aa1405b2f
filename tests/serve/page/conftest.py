"""Small models with hostile titles, the service as a user starts it, and its pages in a browser."""

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest

import bmcd

PATIENCE = 120  # seconds; the machine may be slow
TITLES = [
    "<img src=x onerror=\"document.title='owned'\">",
    "</script><script>document.title = 'owned'</script>",
    "\"&<> 'quoted', with a comma",
    "gnp.\u202eexe evil",
    "\u05e7\u05e4\u05d4 \u200fcoffee",
    "long " + "x" * 2_000,
    '=HYPERLINK("http://example.org")',
    "emoji \U0001f600 \u88e4\u5b50",
    "Trousers, red",
    "50 % cotton\r\nand a second line",
    "Skirt",
    "Blouse, white",
]
# Whole numbers that JavaScript cannot hold.
ITEMS = [2**53 + 1 + 2 * place for place in range(len(TITLES))]


class Service:
    """A service that runs, and questions to it."""

    def __init__(self, address, path, key=None):
        self.address, self.path, self.key = address, path, key

    def ask(self, path, body=None):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def recommended(self, clicked=(), k=10, user=None):
        """The rows that the service recommends."""
        if user is not None:
            return self.ask(f"v1/users/{quote(user)}/recommendations?k={k}")["recommendations"]
        people = [{"clicked": list(clicked)}]
        return self.ask("v1/recommend", {"people": people, "k": k})["people"][0]["recommendations"]


@contextmanager
def served(path, key=None, *options):
    """Run `bmcd serve` on a free port until the end of the block."""
    environment = os.environ | {"BMCD_SERVE_KEY": key or ""}
    command = [sys.executable, "-m", "bmcd", "serve", str(path), "--port", "0", "--quiet", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line.startswith("http://"), line
            service = Service(line.split()[0], path, key)
            _until_ready(service)
            yield service
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _until_ready(service):
    from selenium.webdriver.support.ui import WebDriverWait

    def answers(_):
        try:
            return service.ask("health/ready")
        except OSError:  # it does not listen yet, or says that it is not ready
            return None

    WebDriverWait(None, PATIENCE).until(answers)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Files of a BMCD, a Tastes and a Blend model of the same clicks."""
    folder = tmp_path_factory.mktemp("served")
    simulated = bmcd.simulate(80, len(TITLES), consensuses=2, alpha=5.0, mean_clicks=4.0, seed=3).clicks
    users = [f"user \u00fc {number}" for number in range(simulated.n_users)]
    clicks = bmcd.Clicks.from_matrix(simulated.matrix, users=users, items=ITEMS)
    clicks = clicks.with_titles(dict(zip(ITEMS, TITLES, strict=True)))
    few = {"draws": 8, "warmup": 8, "chains": 2, "seed": 3, "progress": False}
    shorter = {"draws": 4, "warmup": 4, "chains": 2}
    blend = bmcd.Blend({"Tastes": bmcd.Tastes(2), "EASE": bmcd.baselines.EASE()})
    fitted = {
        "BMCD": bmcd.BMCD(2).fit(clicks, **few),
        "Tastes": bmcd.Tastes(3).fit(clicks, **few),
        "Blend": blend.fit(clicks, seed=3, progress=False, fit_options={"Tastes": shorter}),
    }
    for name, model in fitted.items():
        model.save(folder / f"{name}.bmcd")
    return {name: folder / f"{name}.bmcd" for name in fitted}


@pytest.fixture(scope="session")
def serve():
    """Start services of other models."""
    return served


@pytest.fixture(scope="session")
def service(models, tmp_path_factory):
    """A service of the BMCD model, from a file of its own that a test may replace."""
    path = tmp_path_factory.mktemp("service") / "model.bmcd"
    path.write_bytes(models["BMCD"].read_bytes())
    with served(path) as running:
        yield running


@pytest.fixture
def replace_model(service, models):
    """Make the service answer with another model; after the test it is the first one again."""

    def replace(kind):
        service.path.write_bytes(models[kind].read_bytes())
        assert service.ask("v1/reload", {})["model"] == service.ask("v1/model")["hash"]

    yield replace
    replace("BMCD")


@pytest.fixture(scope="session")
def live(tmp_path_factory):
    """A live service of a small model of clicks with times."""
    folder = tmp_path_factory.mktemp("live")
    rng = np.random.default_rng(2)
    rows = []
    for user in range(300):
        first, item = rng.integers(0, 3 * 86_400), int(rng.integers(0, len(TITLES)))
        for click in range(int(rng.integers(2, 8))):
            rows.append((f"user {user}", ITEMS[item], 1_770_000_000 + int(first) + 60 * click))
            item = (item + int(rng.integers(1, 3))) % len(TITLES)
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    clicks = bmcd.Clicks.from_frame(frame, titles=dict(zip(ITEMS, TITLES, strict=True)))
    bmcd.Blend(refresh="1h").fit(clicks, seed=3, progress=False).save(folder / "model.bmcd")
    options = ("--live", str(folder / "live"), "--refresh", "1")
    with served(folder / "model.bmcd", None, *options) as running:
        running.end = int(frame["time"].max())
        yield running


@pytest.fixture
def live_tab(browser, live):
    """The same for the live service."""
    yield from _fresh(browser, live)


@pytest.fixture(scope="session")
def locked(models):
    """A service that wants a key."""
    with served(models["BMCD"], key="open sesame") as running:
        yield running


class Tab:
    """A page of the service in the browser."""

    def __init__(self, browser, address):
        self.browser, self.address = browser, address

    def open(self, path=""):
        """Load a page anew and wait until it is ready."""
        self.load(path)
        self.wait()
        return self

    def load(self, path=""):
        """Load a page anew."""
        self.browser.get("about:blank")
        self.browser.get(self.address + path)

    def wait(self, state="ready"):
        """Wait until the page says that it is in this state."""
        self.until(lambda: self.run("return document.documentElement.dataset.state") == state)

    def until(self, true):
        """Wait until this is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05).until(lambda _: true())

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def one(self, selector):
        return self.browser.find_element("css selector", selector)

    def all(self, selector):
        return self.browser.find_elements("css selector", selector)

    def texts(self, selector):
        """The texts of the elements that can be seen, as they stand in the document."""
        script = "return [...document.querySelectorAll(arguments[0])].filter(x => x.checkVisibility())"
        return self.run(script + ".map(x => x.textContent.replaceAll('\\u00a0', ' '))", selector)

    def press(self, *keys):
        """Press keys one after the other, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.browser, duration=0).send_keys(getattr(Keys, key, key)).perform()

    def resize(self, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def prefer(self, **features):
        """Tell the page what the reader prefers, such as prefers_color_scheme="dark"."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def complaints(self):
        return self.browser.get_log("browser")


@pytest.fixture
def tab(browser, service):
    """A tab of the browser, wide and light, whose page has not been loaded."""
    yield from _fresh(browser, service)


@pytest.fixture
def locked_tab(browser, locked):
    """The same for the service that wants a key."""
    yield from _fresh(browser, locked)


def _fresh(browser, service):
    tab = Tab(browser, service.address)
    tab.resize(1280)
    tab.prefer()
    tab.complaints()
    yield tab
    browser.get("about:blank")
