"""How fast the service answers: python benchmarks/serve.py [--model FILE] [--requests 2000] [--many 100000]

It starts `bmcd serve` on one core, as a user would, and asks for one person at a time from 1, 8 and 64 callers that
keep their connections; then it asks many more times, and looks at the memory; then it asks from more callers than
the queue has places. The callers run in this process, on whatever is left of the machine.

Without --model it fits Tastes with 40 tastes and 16 chains to the shop's clicks: an answer costs what it costs
there, but the chains are short, so the probabilities mean little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import bmcd


def make_model(path: Path) -> None:
    clicks = bmcd.load_dataset("eshop").most_clicked(200).at_least(13)
    bmcd.Tastes(40).fit(clicks, draws=2, warmup=10, thin=1, seed=0).save(path)


def start(model: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    """Return a service on one core, and its port."""
    command = [sys.executable, "-m", "bmcd", "serve", str(model), "--port", "0", "--quiet", *options]
    one_core = {min(os.sched_getaffinity(0))}
    service = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, one_core),
    )
    assert service.stdout is not None
    port = int(service.stdout.readline().split("/")[2].rpartition(":")[2])
    while b" 200 " not in asyncio.run(ask_once(port, b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n")):
        time.sleep(0.2)
    return service, port


async def ask_once(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line


def requests_of(model: Path) -> list[bytes]:
    """One request for each of some people: half of what they clicked."""
    clicks = bmcd.load(model).clicks_
    out = []
    for user in range(min(500, clicks.n_users)):
        own = clicks.items[clicks.matrix.indices[clicks.matrix.indptr[user] : clicks.matrix.indptr[user + 1]]]
        body = json.dumps({"people": [{"clicked": own[: max(1, own.size // 2)].tolist()}], "k": 10}).encode()
        head = "POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        out.append(head.encode() + body)
    return out


async def caller(
    port: int, requests: list[bytes], numbers: Any, seconds: list[float], statuses: Counter[int]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        began = time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seconds.append(time.perf_counter() - began)
        statuses[int(head.split(b" ", 2)[1])] += 1
    writer.close()


def cpu_and_memory(pid: int) -> tuple[float, float]:
    """Return the CPU seconds and the resident megabytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def load(port: int, pid: int, requests: list[bytes], callers: int, n: int) -> None:
    async def all_callers() -> None:
        numbers = [iter(range(first, n, callers)) for first in range(callers)]
        await asyncio.gather(*(caller(port, requests, mine, seconds, statuses) for mine in numbers))

    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    cpu, before = cpu_and_memory(pid)
    began = time.perf_counter()
    asyncio.run(all_callers())
    taken = time.perf_counter() - began
    cpu_after, after = cpu_and_memory(pid)
    median, high = np.percentile(seconds, [50, 99]) * 1000
    print(
        f"{callers:4d} callers: {n / taken:6.0f} people/s, median {median:6.1f} ms, 99 % {high:6.1f} ms, "
        f"{1000 * (cpu_after - cpu) / n:.2f} CPU ms each, memory {before:.0f} -> {after:.0f} MB, "
        f"statuses {dict(sorted(statuses.items()))}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--many", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or Path(folder) / "tastes.bmcd"
        if options.model is None:
            make_model(model)
        print(bmcd.load(model))
        requests = requests_of(model)
        service, port = start(model)
        try:
            for callers in (1, 8, 64):
                load(port, service.pid, requests, callers, options.requests)
            if options.many:
                load(port, service.pid, requests, 8, options.many)
        finally:
            service.terminate()
            service.wait()
        service, port = start(model, "--queue", "8")
        try:
            print("queue of 8:")
            load(port, service.pid, requests, 64, options.requests)
        finally:
            service.terminate()
            print("ended with", service.wait())


if __name__ == "__main__":
    main()
