# ruff: noqa: D102
"""What attacks from outside cost the service: python benchmarks/serve_attacks.py [--model FILE] [--seconds 10]

Each attack runs for some seconds from a process of its own against a fresh `bmcd serve` with a key and 1,024 file
descriptors, on the loopback address. Meanwhile an honest caller who keeps its connection asks for one person every
20 ms, another one opens a connection for each question, and a third opens one for `/health/live` every 100 ms. One
line for each attack: the memory before it and at most, the slowest answer of `/health/live`, how many honest
questions were answered and how many were not, and the seconds until the service had ended after SIGTERM.

Attacks in which the caller has the key are marked in `WITH_KEY`. The first, `nothing`, shows what the machine costs
by itself; the last is all of them together. --most-memory ends an attack that takes more.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from serve import ask_once, cpu_and_memory, make_model

KEY = "the key of the benchmark"
HEAD = b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
AUTHORIZED = HEAD + f"authorization: Bearer {KEY}\r\n".encode()
HEALTH = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
LISTS = {"people": [{"clicked": []}] * 100, "k": 150}


def post(body: bytes, head: bytes = AUTHORIZED) -> bytes:
    return head + f"content-length: {len(body)}\r\n\r\n".encode() + body


class Attack:
    """What the attackers of one process share."""

    def __init__(self, port: int, seconds: float) -> None:
        self.port, self.until = port, time.monotonic() + seconds

    @property
    def lasts(self) -> bool:
        return time.monotonic() < self.until

    async def many(self, n: int, one: Callable[[], Awaitable[None]]) -> None:
        """Do one thing from n connections, the first of them within n ms; who is disconnected comes back."""

        async def again(number: int) -> None:
            await asyncio.sleep(number / 1000)
            while self.lasts:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await asyncio.wait_for(one(), max(0.01, self.until - time.monotonic()))
                await asyncio.sleep(0.05)

        results = await asyncio.gather(*(again(number) for number in range(n)), return_exceptions=True)
        strange = {repr(one) for one in results if isinstance(one, Exception) and not isinstance(one, TimeoutError)}
        if strange:
            print("attackers failed:", strange, file=sys.stderr)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def send(self, *parts: bytes, every: float = 0.0, then: float = 0.0, forever: bytes = b"") -> None:
        """Send parts, read nothing, go on sending; end when the service hangs up."""
        _, writer = await self.connect()
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            while forever and self.lasts:
                writer.write(forever)
                await writer.drain()
                await asyncio.sleep(every)
            await asyncio.sleep(then)
        finally:
            writer.transport.abort()

    async def nothing(self) -> None:
        await asyncio.sleep(0)

    async def many_fields(self) -> None:
        fields = b"".join(b"x-%07d: y\r\n" % number for number in range(4_000))
        await self.many(4, lambda: self.send(HEAD, forever=fields))

    async def long_field(self) -> None:
        await self.many(1, lambda: self.send(HEAD + b"x: ", *[b"y" * 2**20] * 97, then=60))

    async def byte_by_byte_after_401(self) -> None:
        start = HEAD + b"content-length: 1000000\r\n\r\n"
        await self.many(1_060, lambda: self.send(start, forever=b"a", every=8))

    async def silent(self) -> None:
        await self.many(1_060, lambda: self.send(then=60))

    async def idle_after_health(self) -> None:
        await self.many(1_060, lambda: self.send(HEALTH, then=60))

    async def bodies_at_health(self) -> None:
        start = HEALTH[:-2] + b"content-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
        await self.many(500, lambda: self.send(start, b" " * 999_999, then=60))

    async def upgrades(self) -> None:
        start = HEALTH[:-2] + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
        await self.many(50, lambda: self.send(start, forever=b"y" * 2**16))

    async def half_bodies(self) -> None:
        start = AUTHORIZED + b"content-length: 1000000\r\n\r\n"
        await self.many(500, lambda: self.send(start, b" " * 999_999, then=60))

    async def tiny_chunks(self) -> None:
        start = AUTHORIZED + b"transfer-encoding: chunked\r\n\r\n"
        await self.many(4, lambda: self.send(start, forever=b"1\r\n \r\n" * 10_000))

    async def invalid_bodies(self) -> None:
        people = post(b'{"people":[' + b",".join([b"1"] * 500_000) + b"]}")
        await self._ask_again(people)

    async def nested_bodies(self) -> None:
        lists = post(b'{"people":[' + b",".join([b"[" * 190 + b"]" * 190] * 2_500) + b"]}")
        await self._ask_again(lists)

    async def _ask_again(self, request: bytes) -> None:
        async def one() -> None:
            reader, writer = await self.connect()
            writer.write(request)
            await reader.readline()
            writer.transport.abort()

        await self.many(4, one)

    async def never_read(self) -> None:
        await self.many(20, lambda: self.send(post(json.dumps(LISTS).encode()) * 4, then=60))

    async def pipelined(self) -> None:
        await self.many(50, lambda: self.send(HEALTH * 20_000, then=60))

    async def trailers(self) -> None:
        start = AUTHORIZED + b"transfer-encoding: chunked\r\n\r\n0\r\nx: "
        await self.many(4, lambda: self.send(start, forever=b"y" * 2**16))

    async def reloads(self) -> None:
        head = f"POST /v1/reload HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {KEY}\r\n".encode()
        for _ in range(300):
            with contextlib.suppress(OSError):
                await self.send(head + b"content-length: 0\r\n\r\n")

    async def together(self) -> None:
        await asyncio.gather(*(attack(self) for name, attack in ATTACKS.items() if name != "together"))


ATTACKS = {name: getattr(Attack, name) for name in vars(Attack) if name not in ("many", "connect", "send", "lasts")}
ATTACKS = {name: attack for name, attack in ATTACKS.items() if not name.startswith("_")}
WITH_KEY = (
    *("half_bodies", "tiny_chunks", "invalid_bodies", "nested_bodies", "never_read", "trailers", "reloads"),
    "together",
)


async def answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    return int(head.split(b" ", 2)[1])


async def watch(port: int, pid: int, seconds: float, most: float, attacker: subprocess.Popen[bytes]) -> str:
    """Ask honestly, look at memory, and return what happened."""
    health: list[float] = []
    asked: dict[str, Counter[str]] = {"kept": Counter(), "new": Counter(), "health": Counter()}
    question = post(json.dumps({"people": [{"clicked": ["A13"]}], "k": 10}).encode())
    until, memory = time.monotonic() + seconds, [cpu_and_memory(pid)[1]]

    async def fresh(request: bytes) -> str:
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(request)
                status = await answer(reader)
                writer.close()
                return str(status)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            return type(error).__name__

    async def keeps() -> None:
        connection = None
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(5):
                    connection = connection or await asyncio.open_connection("127.0.0.1", port)
                    connection[1].write(question)
                    said = str(await answer(connection[0]))
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                said, connection = type(error).__name__, None
            asked["kept"][said] += 1
            await asyncio.sleep(0.02)

    async def comes_anew() -> None:
        while time.monotonic() < until:
            asked["new"][await fresh(question)] += 1
            await asyncio.sleep(0.02)

    async def is_alive() -> None:
        while time.monotonic() < until:
            began = time.perf_counter()
            asked["health"][await fresh(HEALTH)] += 1
            health.append(time.perf_counter() - began)
            await asyncio.sleep(0.1)

    async def look() -> None:
        while time.monotonic() < until:
            memory.append(cpu_and_memory(pid)[1])
            if memory[-1] > most and attacker.poll() is None:
                attacker.kill()
            await asyncio.sleep(0.02)

    await asyncio.gather(keeps(), comes_anew(), is_alive(), look())
    return (
        f"memory {memory[0]:.0f} -> {max(memory):.0f} MB, health at most {max(health):.2f} s, answered "
        + ", ".join(f"{name} {dict(counts)}" for name, counts in asked.items())
    )


def run(name: str, model: Path, seconds: float, most: float) -> None:
    command = [sys.executable, "-m", "bmcd", "serve", str(model), "--port", "0", "--quiet"]
    service = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"BMCD_SERVE_KEY": KEY},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)),
    )
    assert service.stdout is not None
    port = int(service.stdout.readline().split("/")[2].rpartition(":")[2])
    while b" 200 " not in asyncio.run(ask_once(port, HEALTH.replace(b"live", b"ready"))):
        time.sleep(0.1)
    time.sleep(1)
    attack = [sys.executable, __file__, "--attack", name, "--port", str(port)]
    attacker = subprocess.Popen([*attack, "--seconds", str(seconds)])
    try:
        said = asyncio.run(watch(port, service.pid, seconds, most, attacker))
        began = time.monotonic()
        service.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            service.wait(60)
        print(f"{name}: {said}, ended after {time.monotonic() - began:.1f} s with {service.poll()}", flush=True)
    finally:
        for process in (attacker, service):
            if process.poll() is None:
                process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--most-memory", type=float, default=1_500.0, metavar="MB")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--attack", choices=ATTACKS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    if options.attack:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        asyncio.run(ATTACKS[options.attack](Attack(options.port, options.seconds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or Path(folder) / "tastes.bmcd"
        if options.model is None:
            make_model(model)
        for name in options.only:
            run(name, model, options.seconds, options.most_memory)


if __name__ == "__main__":
    main()
