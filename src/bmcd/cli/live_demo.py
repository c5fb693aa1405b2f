"""`bmcd demo --live`: a live service of the shop's data, and its last hours replayed to it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bmcd.cli.output import print_json, say
from bmcd.cli.replay import between, told, total
from bmcd.cli.serve import KEY
from bmcd.errors import BmcdError, OutputError
from bmcd.utils import import_optional

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

MODEL, LIVE = "live-model.bmcd", "live"
# The data have an order but no times: a visit begins every minute, with a click every half minute.
VISIT, CLICK = "60s", "30s"
BEGIN = "2026-05-01"
# Hours that are replayed, days that are learnt from, how fast, and how often the service counts; and with --quick.
HOURS, DAYS, SPEED, REFRESH = 6, 12, 600.0, 2
QUICK_HOURS, QUICK_DAYS, QUICK_SPEED = 1, 2, 360.0
PATIENCE = 120.0


def live_demo(folder: Path, seed: int, quick: bool, as_json: bool) -> None:
    """Fit a model to the shop's visits but for the last hours, serve it live, and replay these."""
    import_optional("uvicorn", needed_by="bmcd demo --live", extra="serve")
    import numpy as np

    import bmcd
    from bmcd.serve.replaying import Replay

    hours, days, speed = (QUICK_HOURS, QUICK_DAYS, QUICK_SPEED) if quick else (HOURS, DAYS, SPEED)
    tell = (lambda *_, **__: None) if as_json else say
    clicks = timed(bmcd.load_dataset("eshop"))
    assert clicks.times is not None
    end = clicks.times.max()
    cut, first = (str(end - np.timedelta64(n, "h")) for n in (hours, hours + 24 * days))
    earlier, later = between(clicks, first, cut), between(clicks, cut, None)
    tell(
        f"A shop's clicks, with made-up times: a visit begins every minute. {earlier.n_clicks:,} clicks to learn "
        f"from, and {len(later.sequence):,} of the {hours} hours after them to replay.\nFitting Blend ...",
        style="bold",
    )
    model = bmcd.Blend(refresh="30min").fit(earlier, seed=seed, progress=False)
    model.save(folder / MODEL)
    shutil.rmtree(folder / LIVE, ignore_errors=True)  # of a demo before
    tell(f"It uses {', '.join(model.members_)}. {model.verdict_.text}\nStarting the service ...")
    with service(folder / MODEL, folder / LIVE) as address:
        tell(f"{address} shows it live: open it in a browser.\nReplaying at {speed:g} times the pace ...")
        run = Replay(later, address, speed=speed, seed=seed)
        found = told(run, as_json)
        with urllib.request.urlopen(f"{address}v1/live", timeout=PATIENCE) as answer:
            view = json.load(answer)
    if as_json:
        print_json({"hours": [hour._asdict() for hour in found], **total(run, found), "live": view["hour"]})
        return
    say(f"\nThe service itself says: {view['hour']['text']}.", style="bold")
    say("\nTry next:", style="bold")
    say(f"  bmcd serve {folder / MODEL} --live {folder / LIVE}")
    say("  bmcd fit your_clicks.csv -o your.bmcd --refresh 1h && bmcd serve your.bmcd --live your_live")


def timed(clicks: Clicks) -> Clicks:
    """Return a log without times as one in which users come one after the other."""
    import pandas as pd

    from bmcd.clicks.log import Clicks

    frame = clicks.to_frame("pandas")
    visit = frame["user"].ne(frame["user"].shift()).cumsum() - 1
    place = frame.groupby("user").cumcount()
    times = pd.Timestamp(BEGIN) + visit * pd.Timedelta(VISIT) + place * pd.Timedelta(CLICK)
    return Clicks.from_frame(frame.assign(time=times), title_column="title")


@contextmanager
def service(model: Path, live: Path) -> Iterator[str]:
    """Run a live service on a free port until the block ends; give its address when it is ready."""
    command = [sys.executable, "-m", "bmcd", "serve", str(model), "--live", str(live), "--refresh", str(REFRESH)]
    environment = {name: value for name, value in os.environ.items() if name != KEY}
    process = subprocess.Popen(
        [*command, "--port", "0", "--quiet"], stdout=subprocess.PIPE, env=environment, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("http"):
            raise OutputError("the service did not start; what it wrote stands above.")
        address = line.split()[0]
        _until_ready(address)
        yield address
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _until_ready(address: str) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with urllib.request.urlopen(f"{address}health/ready", timeout=PATIENCE):
                return
        except OSError as error:
            if time.monotonic() > end:
                raise BmcdError(f"the service was not ready within {PATIENCE:g} s: {error}.") from None
            time.sleep(0.1)
