"""Live use, measured: python benchmarks/live.py intake | restart | replay LOG --from 2017-10-09T17:00 [--hours 1]

intake   clicks in batches of 100 and one by one, while recommendations are asked for; the service has one core
restart  the processor seconds until a service with a million recorded clicks is ready, and their wall clock
replay   a log with times, 60 times as fast, beside a back-test that is fitted every 15 minutes, on the same moments

The callers run in this process. On a busy machine look at processor seconds, not at the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bmcd

# Hours of a replay that are compared with a back-test.
LONGEST = 3


def shop() -> bmcd.Clicks:
    """Return the shop's clicks with made-up times."""
    from bmcd.cli.demo import timed

    return timed(bmcd.load_dataset("eshop"))


def large(n_items: int = 20_000, n_users: int = 60_000, seed: int = 1) -> bmcd.Clicks:
    """Return some 500,000 clicks of three days on a large catalogue."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, 16, n_users)
    user = np.repeat(np.arange(n_users), lengths)
    start = np.repeat(rng.integers(0, 3 * 86_400, n_users), lengths)
    place = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = np.repeat((n_items * rng.random(n_users) ** 3).astype(int), lengths)
    item = (first + rng.integers(0, 8, len(user)) * place) % n_items
    time = 1_790_000_000 + start + 40 * place
    return bmcd.Clicks.from_frame(pd.DataFrame({"user": user, "item": item, "time": time}))


class Service:
    """A live service, on one core if wanted."""

    def __init__(self, model: Path, live: Path, *options: str, one_core: bool = True) -> None:
        command = [sys.executable, "-m", "bmcd", "serve", str(model), "--live", str(live), "--port", "0", *options]
        core = {min(os.sched_getaffinity(0))}
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            [*command, "--quiet"],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, core)) if one_core else None,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[0]
        self.port = int(self.address.split(":")[2].rstrip("/"))
        while b" 200 " not in asyncio.run(one(self.port, b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n")):
            time.sleep(0.05)
        self.seconds = time.perf_counter() - self.began

    def cpu(self) -> dict[int, float]:
        """Return the processor seconds of the service and of its children, by process."""
        found = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if self.process.pid in (int(folder.name), int(fields[1])):
                    found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def memory(self) -> dict[int, int]:
        """Return the resident megabytes of the service and of its children, by process."""
        found = {}
        for pid in self.cpu():
            try:
                found[pid] = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 // 2**20
            except OSError:
                continue
        return found

    def live(self) -> dict[str, Any]:
        """Return what the service says of itself."""
        with urllib.request.urlopen(f"{self.address}v1/live", timeout=60) as answer:
            return dict(json.load(answer))

    def close(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait()


def send(clicks: list[dict[str, Any]]) -> bytes:
    return request("POST", "/v1/clicks", {"clicks": clicks})


async def one(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line


def request(method: str, path: str, body: Any = None) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n" if content else ""
    return head.encode() + b"\r\n" + content


async def ask(reader: Any, writer: Any, what: bytes) -> tuple[int, bytes]:
    writer.write(what)
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    return int(head.split(b" ", 2)[1]), body


async def paced(port: int, requests: list[bytes], per_second: float, callers: int, seconds: list[float]) -> None:
    """Send requests at a pace over several connections; note how long each took from when it was due."""
    began = time.perf_counter()

    async def caller(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for at in range(number, len(requests), callers):
            due = began + at / per_second
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            status, body = await ask(reader, writer, requests[at])
            assert status == 200, body
            seconds.append(time.perf_counter() - sent)
        writer.close()

    await asyncio.gather(*(caller(number) for number in range(callers)))


def intake(seconds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bmcd"
        clicks = large()
        bmcd.Blend(refresh="1h").fit(clicks, progress=False).save(path)
        service = Service(path, Path(folder) / "live", "--refresh", "15")
        end, rng = int(clicks.times.max().astype(int)), np.random.default_rng(3)
        number = iter(range(10**9))

        def click() -> dict[str, Any]:
            n = next(number)
            return {
                "user": int(rng.integers(60_000)),
                "item": int(rng.integers(20_000)),
                "time": end + 1000 * n,
                "event": n,
            }

        users = [f"/v1/users/{rng.integers(60_000)}/recommendations?k=10&horizon=1" for _ in range(100 * seconds)]
        recommend = [request("GET", one) for one in users]
        for name, size, per_second in (("batches of 100", 100, 30), ("one by one", 1, 300)):
            batches = [
                request("POST", "/v1/clicks", {"clicks": [click() for _ in range(size)]})
                for _ in range(per_second * seconds)
            ]
            took: dict[str, list[float]] = {"clicks": [], "recommendations": []}

            async def both(batches: list[bytes] = batches, per_second: int = per_second, took: Any = took) -> None:
                await asyncio.gather(
                    paced(service.port, batches, per_second, 4, took["clicks"]),
                    paced(service.port, recommend, 100, 4, took["recommendations"]),
                )

            before, began = service.cpu(), time.perf_counter()
            asyncio.run(both())
            wall, after = time.perf_counter() - began, service.cpu()
            own = after[service.process.pid] - before[service.process.pid]
            other = sum(value - before.get(pid, 0) for pid, value in after.items()) - own
            print(
                f"{name}: {size * len(batches) / wall:,.0f} clicks/s acknowledged and {len(recommend) / wall:.0f} "
                f"recommendations/s in {wall:.1f} s; {own / wall:.2f} of a core for the service, "
                f"{other / wall:.2f} for counting"
            )
            for what, values in took.items():
                median, high = 1000 * np.percentile(values, [50, 99])
                print(f"  {what}: median {median:.1f} ms, 99 % {high:.1f} ms")
        for name, what, n in (("batches of 100", 100, 600), ("one by one", 1, 3000)):
            batches = [send([click() for _ in range(what)]) for _ in range(n)]
            before, began, took_all = service.cpu()[service.process.pid], time.perf_counter(), []
            asyncio.run(paced(service.port, batches, 1e9, 8, took_all))
            wall, cpu = time.perf_counter() - began, service.cpu()[service.process.pid] - before
            print(
                f"as fast as it goes, {name}: {n * what / wall:,.0f} clicks/s, {1e6 * cpu / n / what:.0f} "
                f"processor us a click ({n * what / cpu:,.0f} a second)"
            )
        before, began, took_all = service.cpu()[service.process.pid], time.perf_counter(), []
        asyncio.run(paced(service.port, recommend[:2000], 1e9, 4, took_all))
        cpu = service.cpu()[service.process.pid] - before
        print(f"recommendations alone: {1000 * cpu / len(recommend[:2000]):.2f} processor ms each")
        print(f"memory: {service.memory()} MB")
        service.close()


def restart(n: int) -> None:
    from bmcd.serve.store import Click, Store

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bmcd"
        clicks = large()
        bmcd.Blend(refresh="1h").fit(clicks, progress=False).save(path)
        end, rng = int(clicks.times.max().astype(int)), np.random.default_rng(3)
        store = Store(Path(folder) / "live", 10**7, lambda new: None)
        users, items = rng.integers(0, 120_000, n), (25_000 * rng.random(n) ** 3).astype(int)
        for first in range(0, n, 5000):
            store.record(
                [
                    Click(str(users[i]), str(items[i]), end + 50_000 * i, f"e{i}")
                    for i in range(first, min(first + 5000, n))
                ]
            ).result()
        store.close()
        size = (Path(folder) / "live" / "clicks.sqlite").stat().st_size / 2**20
        for turn in ("a new base", "again"):
            service = Service(path, Path(folder) / "live", "--refresh", "600", one_core=False)
            cpu = service.cpu()
            print(
                f"{n:,} clicks recorded ({size:.0f} MB), {turn}: ready after {service.seconds:.1f} s, "
                f"{sum(cpu.values()):.1f} processor seconds {sorted(cpu.values())}, memory {service.memory()} MB"
            )
            service.close()


def replay(
    log: str, first: str, hours: float, speed: float, refresh: int, ask_share: float, history: float
) -> None:
    from bmcd.serve.replaying import Replay

    clicks = bmcd.read_clicks(log, time_column="time")
    start, end = np.datetime64(first, "us"), np.datetime64(first, "us") + np.timedelta64(int(hours * 3600), "s")
    clicks = clicks.keep((clicks.times >= start - np.timedelta64(int(history * 3600), "s")) & (clicks.times < end))
    before, during = clicks.keep(clicks.times < start), clicks.keep(clicks.times >= start)
    before = before.of_users(np.diff(before.starts) > 0)
    before = before.of_items(before.per_item > 0)
    print(
        f"{len(before.sequence):,} clicks before, {len(during.sequence):,} to replay at {speed:g} times the pace",
        flush=True,
    )
    length = f"{round(refresh * speed / 60)}min"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bmcd"
        cpu = time.process_time()
        model = bmcd.Blend(refresh=length).fit(before, progress=False)
        print(f"fit {time.process_time() - cpu:.1f} processor s: {model.verdict_.text}", flush=True)
        model.save(path)
        service = Service(path, Path(folder) / "live", "--refresh", str(refresh), one_core=False)
        memory: list[dict[int, int]] = []
        ages: list[float] = []
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(5):
                memory.append(service.memory())
                live = service.live()
                between = (pd.Timestamp(live[name]) for name in ("latest_click", "counted_until"))
                latest, counted = between
                ages.append((latest - counted).total_seconds() / 60)

        watcher = threading.Thread(target=watch)
        watcher.start()
        run = Replay(during, service.address, speed=speed, ask=ask_share)
        used = service.cpu()
        began = time.perf_counter()
        run.run(print)
        stop.set()
        watcher.join()
        wall, now = time.perf_counter() - began, service.cpu()
        seconds = [round(now[pid] - used.get(pid, 0), 1) for pid in now]
        print(
            f"{wall:.0f} s; processor seconds {seconds} of service and children; late lists {run.n_late}; ", end=""
        )
        print(f"largest lag {run.largest_lag:.1f} s; {len(run.compared):,} lists compared")
        print(
            f"counts were {np.mean(ages):.0f} minutes old on average, at most {max(ages):.0f}: {live_text(service)}"
        )
        own = np.array([one.get(service.process.pid, 0) for one in memory])
        peaks = [int(part.max()) for part in np.array_split(own, 8) if len(part)]
        most = max(sum(one.values()) for one in memory)
        print(f"memory of the service by eighths of the replay: {peaks} MB; of all processes at most {most} MB")
        service.close()
    if hours <= LONGEST:
        backtest(model, clicks, during, run, length)


def live_text(service: Service) -> str:
    found = service.live()
    return f"{found['hour']['text']}; {found['day']['text']}"


def backtest(model: bmcd.Blend, clicks: bmcd.Clicks, during: bmcd.Clicks, run: Any, length: str) -> None:
    """Print what fits at every refresh give at the same moments: lists for the click that followed."""
    asked_at, compared = (np.array([one[i] for one in run.compared]) for i in (0, 1))
    predicted, hits = (np.array([one[i] for one in run.compared], float) for i in (2, 3))
    when = run.time[asked_at]
    step = pd.Timedelta(length).value // 1000
    start = int(during.times.min().astype(np.int64))
    number = (when - start) // step
    found = np.zeros(len(compared))
    sure = np.zeros(len(compared))
    cpu = time.process_time()
    for turn in range(int(number.max()) + 1):
        cut = np.datetime64(start + turn * step, "us")
        train = clicks.keep(clicks.times < cut)
        train = train.of_users(np.diff(train.starts) > 0)
        train = train.of_items(train.per_item > 0)
        if turn:
            model = bmcd.Blend(refresh=length).fit(train, start=model, progress=False)
        column = {str(item): c for c, item in enumerate(model.clicks_.items.tolist())}
        asked = np.flatnonzero(number == turn)
        people = history_until(clicks, run, compared[asked], model)
        lists, _ = model.lists_at(people, 10, horizon=1)
        targets = np.array([column.get(run.items[run.item[at]], -2) for at in compared[asked]])
        found[asked] = (lists.items == targets[:, None]).any(axis=1)
        sure[asked] = lists.values["probability"].sum(axis=1)
    seconds, error = time.process_time() - cpu, np.std(hits - found) / np.sqrt(len(found))
    print(
        f"back-test, fitted every {length} ({seconds:.0f} processor s): {len(compared):,} moments, HR@10 "
        f"{found.mean():.4f} (predicted {sure.mean():.4f}); live {hits.mean():.4f} (predicted "
        f"{predicted.mean():.4f}); difference {hits.mean() - found.mean():+.4f}, standard error {error:.4f}"
    )


def history_until(clicks: bmcd.Clicks, run: Any, at: Any, model: bmcd.Blend) -> bmcd.Clicks:
    """Return each user's clicks before the one that is to be predicted, on the items of the model."""
    from dataclasses import replace

    rows = clicks.rows_of([type(clicks.users[0].item())(run.users[run.user[one]]) for one in at])
    column = {item: c for c, item in enumerate(model.clicks_.items.tolist())}
    code = np.array([column.get(item, -1) for item in clicks.items.tolist()], np.int32)
    times = clicks.times.astype(np.int64)
    parts, lengths, stamps = [], [], []
    for row, one in zip(rows, at, strict=True):
        low, high = clicks.starts[row], clicks.starts[row + 1]
        high = low + np.searchsorted(times[low:high], run.time[one])
        parts.append(code[clicks.sequence[low:high]])
        stamps.append(clicks.times[low:high])
        lengths.append(high - low)
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return replace(
        model.clicks_, users=np.arange(len(at)), starts=starts, sequence=np.concatenate(parts),
        times=np.concatenate(stamps), session_ids=None, n_repeated=0, history=(),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="what", required=True)
    one = commands.add_parser("intake")
    one.add_argument("--seconds", type=int, default=20)
    one = commands.add_parser("restart")
    one.add_argument("--clicks", type=int, default=1_000_000)
    one = commands.add_parser("replay")
    one.add_argument("log")
    one.add_argument("--from", dest="first", required=True)
    one.add_argument("--hours", type=float, default=1.0)
    one.add_argument("--speed", type=float, default=60.0)
    one.add_argument("--refresh", type=int, default=15)
    one.add_argument("--ask", type=float, default=0.2)
    one.add_argument("--history", type=float, default=96.0, help="hours before that the model is fitted to")
    given = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[attr-defined]
    if given.what == "intake":
        intake(given.seconds)
    elif given.what == "restart":
        restart(given.clicks)
    else:
        replay(given.log, given.first, given.hours, given.speed, given.refresh, given.ask, given.history)
    print(f"memory of this process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
