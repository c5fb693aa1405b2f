"""Callers who send too much, too slowly or for ever, and callers who never read: over real sockets."""

import asyncio
import contextlib
import json
import socket

import pytest
import uvicorn
from uvicorn.server import ServerState

from bmcd.serve import gate as module
from bmcd.serve.gate import Connections, Phase
from bmcd.serve.settings import Limits

PATIENCE = 60
KEY = "a key nobody guesses"
HEAD = b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n"
ONE = json.dumps({"people": [{"clicked": ["i1"]}], "k": 2}).encode()


def post(body, head=HEAD):
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


class Listening:
    """A service in this process on a port of the loopback address."""

    def __init__(self, inside, most, options):
        self.service = inside("tastes", **options).service
        self.all = Connections(self.service.settings, self.service.metrics, most)
        self.writers = []

    async def __aenter__(self):
        await self.service.current.start(self.service._loaded)
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(
            self.service.app, http=self.all.protocol, ws="none", lifespan="off", log_config=None, access_log=False
        )
        config.load()
        self.state = ServerState()

        def protocol():
            return config.http_protocol_class(config=config, server_state=self.state, app_state={}, _loop=loop)

        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so that little is hidden in the system
        self.port = listening.getsockname()[1]
        self.server = await loop.create_server(protocol, sock=listening)
        self.all.sweep()
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for transport in [*(one.transport for one in self.all.open), *(one.transport for one in self.writers)]:
            transport.abort()
        await asyncio.sleep(0.05)

    async def connect(self):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def ask(self, request, writer=None, reader=None):
        """Send a request, on a connection of its own unless one is given; return status and head."""
        own = writer is None
        if own:
            reader, writer = await self.connect()
        writer.write(request)
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        if own:
            writer.close()
        return int(head.split()[1]), head.lower(), body

    async def until_closed(self, *parts, forever=b""):
        """Send parts and go on for ever; return the bytes sent and what the service said before it hung up."""
        reader, writer = await self.connect()
        sent = 0

        async def send():
            nonlocal sent
            with contextlib.suppress(OSError):
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    sent += len(part)
                while forever:
                    writer.write(forever)
                    await writer.drain()
                    sent += len(forever)
                    await asyncio.sleep(0)

        sending = asyncio.ensure_future(send())
        said = b""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(OSError):
                while part := await reader.read(2**16):
                    said += part
        sending.cancel()
        writer.transport.abort()
        return sent, said


@pytest.fixture
def listening(inside):
    """Run a coroutine with a service that listens."""

    def run(ask, most=1000, **options):
        async def inner():
            async with Listening(inside, most, options) as service:
                return await ask(service)

        return asyncio.run(inner())

    return run


FIELDS = b"".join(b"x-%04d: y\r\n" % number for number in range(200))


@pytest.mark.parametrize(
    ("parts", "forever", "status"),
    [
        ((HEAD,), FIELDS, 431),
        ((HEAD, b"x: "), b"y" * 2**16, 431),
        ((b"GET /", b"y"), b"y" * 2**15, 431),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ",), b"y" * 2**16, 431),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n0\r\n",), FIELDS, 431),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n1;",), b"y" * 2**16, 431),
        ((b"nonsense\r\n\r\n",), b"", 400),
        ((HEAD + b"content-length: 10000000\r\n\r\n",), b" " * 2**16, 413),
        ((HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"10000\r\n" + b" " * 2**16,), b"", 408),
    ],
    ids=["fields", "field", "path", "trailer", "trailers", "chunk extension", "no http", "large", "half a body"],
)
def test_what_is_too_much_is_refused_and_disconnected(listening, parts, forever, status):
    async def ask(service):
        sent, said = await service.until_closed(*parts, forever=forever)
        return sent, said, (await service.ask(LIVE))[0]

    sent, said, live = listening(ask, limits=Limits(arrival_seconds=1.0))
    assert said.startswith(b"HTTP/1.1 %d " % status)
    assert b"application/problem+json" in said
    assert b"connection: close" in said.lower()
    assert sent < 2 * module.LINGER_BYTES + 2**23  # what the system holds, too
    assert live == 200


def test_as_much_as_is_allowed_is_answered(listening):
    fields = b"".join(b"x-%02d: y\r\n" % number for number in range(95))

    async def ask(service):
        many = await service.ask(post(ONE, HEAD + fields))
        long = await service.ask(post(ONE, HEAD + b"x: " + b"y" * 60_000 + b"\r\n"))
        reader, writer = await service.connect()
        byte_by_byte = post(ONE, HEAD)
        for at in range(0, len(byte_by_byte), 7):
            writer.write(byte_by_byte[at : at + 7])
            await asyncio.sleep(0)
        kept = [await service.ask(b"", writer, reader)]
        kept += [await service.ask(post(ONE), writer, reader) for _ in range(3)]
        writer.write(LIVE * 5)
        kept += [await service.ask(b"", writer, reader) for _ in range(5)]
        writer.close()
        return [status for status, *_ in (many, long, *kept)]

    assert set(listening(ask)) == {200}


def test_the_connection_of_a_refused_caller_is_closed_although_it_sends_on(listening):
    """With 401 the body is not read: the caller must not keep its connection by sending a byte now and then."""

    async def ask(service):
        reader, writer = await service.connect()
        first = await service.ask(HEAD + b"content-length: 1000000\r\n\r\n", writer, reader)
        with contextlib.suppress(OSError):
            async with asyncio.timeout(PATIENCE):
                while service.all.open:
                    writer.write(b"a")
                    await asyncio.sleep(0.05)
        whole = await service.ask(b"GET /v1/model HTTP/1.1\r\nhost: localhost\r\n\r\n")  # nothing is unread
        return first[0], b"connection: close" in first[1], whole[0], b"connection: close" in whole[1]

    assert listening(ask, key=KEY) == (401, True, 401, False)


def test_a_refused_caller_reads_why_before_it_is_cut_off(listening):
    """A reset would throw the answer away: what is still on its way is read for a while."""

    async def ask(service):
        reader, writer = await service.connect()
        writer.write(post(b" " * 3_000_000))
        await writer.drain()
        return await service.ask(b"", writer, reader)

    status, _, body = listening(ask)
    assert status == 413
    assert b"1,048,576 bytes" in body


@pytest.mark.parametrize("first", [b"", b"GET", LIVE + b"\r\n", LIVE + b"GET"])
def test_nothing_and_blank_lines_do_not_keep_a_connection(listening, first):
    async def ask(service):
        reader, writer = await service.connect()
        writer.write(first)
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        if not await reader.read(2**16):
                            return True
                if first.endswith(b"\n"):
                    writer.write(b"\r\n")

    assert listening(ask, limits=Limits(arrival_seconds=0.3))


@pytest.mark.parametrize("request_", [LIVE, post(ONE)], ids=["health", "question"])
def test_pipelined_requests_are_few(listening, caplog, request_):
    async def ask(service):
        _, said = await service.until_closed(request_ * 20_000)
        async with asyncio.timeout(PATIENCE):
            while service.service.slots.busy + service.service.slots.waiting:
                await asyncio.sleep(0.01)
        return said, len(service.state.tasks)

    said, tasks = listening(ask)
    assert said.count(b"HTTP/1.1 200") <= module.MOST_PIPELINED + 1
    assert said.count(b"HTTP/1.1 429 ") == 1
    assert tasks <= 1
    assert not [one for one in caplog.records if one.levelname == "ERROR"], caplog.text


def test_attackers_cannot_take_all_connections(listening):
    """New callers are answered while others hold more connections than there may be, and honest ones stay."""

    async def ask(service):
        kept = await service.connect()
        statuses = [(await service.ask(post(ONE), kept[1], kept[0]))[0]]
        held = []
        for start in (b"", HEAD, HEAD + b"content-length: 1000\r\n\r\n", b"") * 15:
            held.append(await service.connect())
            held[-1][1].write(start)
            if len(held) % 5 == 0:
                statuses.append((await service.ask(LIVE))[0])
                statuses.append((await service.ask(post(ONE)))[0])
                statuses.append((await service.ask(post(ONE), kept[1], kept[0]))[0])
        most = len(service.all.open)
        for _, writer in held:
            writer.transport.abort()
        return statuses, most

    statuses, most = listening(ask, most=12)
    assert set(statuses) == {200}
    assert most <= 12


def test_beyond_the_limit_health_is_answered_and_nothing_else(listening):
    async def ask(service):
        busy = asyncio.Event()

        async def reload():
            await busy.wait()
            return {}

        service.service.current.reload = reload
        reloading = [
            asyncio.ensure_future(service.ask(post(b"", b"POST /v1/reload HTTP/1.1\r\nhost: localhost\r\n")))
        ]
        reloading += [
            asyncio.ensure_future(service.ask(post(b"", b"POST /v1/reload HTTP/1.1\r\nhost: localhost\r\n")))
            for _ in range(3)
        ]
        while sum(one.phase is Phase.ANSWER for one in service.all.open) < 4:
            await asyncio.sleep(0.01)
        live, other = await service.ask(LIVE), await service.ask(post(ONE))
        extra = [await service.connect() for _ in range(40)]
        await asyncio.sleep(0.05)
        most = len(service.all.open)
        for _, writer in extra:
            writer.transport.abort()
        busy.set()
        return live[0], other[0], most <= 7, {one[0] for one in await asyncio.gather(*reloading)}

    assert listening(ask, most=4, health_connections=3) == (200, 503, True, {200})


@pytest.mark.parametrize("is_full", [False, True])
def test_answers_that_are_not_read_are_given_up(listening, is_full, monkeypatch):
    if is_full:
        monkeypatch.setattr(module, "UNTAKEN_BYTES", 10_000)
    many = {"people": [{"clicked": ["i1"]}] * 500, "k": 20}

    async def ask(service):
        caller = socket.create_connection(("127.0.0.1", service.port))
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        caller.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(caller, post(json.dumps(many).encode()) + LIVE)
        held = 0
        async with asyncio.timeout(PATIENCE):
            while not held or service.all.open:
                held = max([held, *(one.transport.get_write_buffer_size() for one in service.all.open)])
                await asyncio.sleep(0.02)
        caller.close()
        return held, service.service.metrics.closed.labels("answer not read")._value.get()

    held, closed = listening(ask, limits=Limits(arrival_seconds=PATIENCE if is_full else 0.3))
    assert held > 10_000
    assert closed == 1


def test_few_large_bodies_arrive_at_a_time(listening, monkeypatch):
    """Half a megabyte each from a thousand connections would be half a gigabyte."""
    monkeypatch.setattr("bmcd.serve.gate.LARGE_BODIES", 2)
    large = post(b" " * 1_000_000)

    async def ask(service):
        held = [await service.connect() for _ in range(20)]
        for _, writer in held:
            writer.write(large[:-1])
        await asyncio.sleep(0.2)
        read = sum(len(one.cycle.body) for one in service.all.open if one.cycle)
        small = (await service.ask(post(ONE)))[0]
        for _, writer in held[:18]:
            writer.write(b" ")
        reader, writer = held[0]
        first = (await service.ask(b"", writer, reader))[0]
        for _, writer in held:
            writer.transport.abort()
        return read, small, first

    read, small, first = listening(ask)
    assert read <= 20 * 2 * 2**17
    assert (small, first) == (200, 400)
