"""What every request passes first: limits of its connection, then host, key, size and speed; headers, log, metrics.

No ASGI server has settings for all limits of a connection: uvicorn's h11 protocol and hypercorn limit the bytes of
a head, granian also its fields and time, none of them unread answers, so that callers could hold memory and file
descriptors for any length of time (docs/decisions). `Connections` adds the limits to uvicorn's fast protocol, so no
proxy is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from enum import Enum
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bmcd.serve.messages import Problem
from bmcd.serve.metrics import Metrics
from bmcd.serve.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

access_log = logging.getLogger("bmcd.access")
log = logging.getLogger("bmcd.serve")

# Addresses that need no key: the pages, which ask for it, and those that tell a proxy whether to send requests.
HEALTH = frozenset(("/health/live", "/health/ready", "/ping"))
OPEN = HEALTH | {"/", "/docs"}
OPEN_FOLDER = "/page/"
# True in the scope of a request on a connection beyond the limit.
CROWDED = "bmcd.crowded"
# Parameters of an address: the time of the framework grows with the square of their number.
MOST_PARAMETERS = 1_000
# A body may have one list or object per this number of bytes of its limit: reading a hundred thousand of them
# blocks the event loop for about 0.04 s.
BYTES_PER_LIST = 10
# A body above this size takes one of a number of places while it arrives.
SMALL_BODY, LARGE_BODIES = 2**16, 32
BUG = "This is a bug of the service. Its log has more, under the x-request-id of this answer."
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
# Of connections.
SWEEP_SECONDS = 0.25
READ_BYTES = 2**16  # at a time, from one connection
MOST_PIPELINED = 16  # requests sent on one connection before the first is answered
LINGER_SECONDS, LINGER_BYTES = 2.0, 2**22  # what a refused caller may still send: a reset would lose the answer
UNTAKEN_BYTES = 2**26  # answers that callers have not read, all together
WORTH_OF_IDLE = 10  # an idle connection is closed before an unfinished request if idle this many times longer

Phase = Enum("Phase", ["HEAD", "BODY", "ANSWER", "IDLE", "LINGER"])  # what a connection waits for


class Gate:
    """An ASGI application around another."""

    def __init__(self, app: Starlette, routes: Sequence[BaseRoute], settings: Settings, metrics: Metrics) -> None:
        self.app, self.routes, self.settings, self.metrics = app, routes, settings, metrics
        self._hosts = settings.known_hosts
        self._large = asyncio.Semaphore(LARGE_BODIES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; other events go through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = _Visit(scope, send, self.routes)
        try:
            headers = Headers(scope=scope)
            visit.has_unread_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
            self._check(scope, headers, visit.has_unread_body)
            body = await self._read(headers, receive) if visit.has_unread_body else b""
            visit.has_unread_body = False
            await self.app(scope, _replay(body, receive), visit.send)
        except Problem as problem:
            await visit.answer(problem, receive)
        except asyncio.CancelledError:  # the grace time is over
            await visit.answer(Problem(503, "The service is shutting down. Try again when it is back."), receive)
            raise
        except Exception:
            log.exception("a bug of the service, in request %s", visit.id)
            await visit.answer(Problem(500, BUG), receive)
        finally:
            self._record(visit)

    def _check(self, scope: Scope, headers: Headers, has_body: bool) -> None:
        """Raise `Problem` for a request to another host or without the key."""
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            said = f"This service is not known as {host[:100]!r}. Its operator can allow the name: --allow-host."
            raise Problem(421, said)
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site") == "cross-site":
            raise Problem(403, "Pages of other sites may not use this service.")
        path = scope["path"]
        if scope.get(CROWDED) and path not in HEALTH:
            said = "There are too many connections. Try again."
            raise Problem(503, said, retry=1, headers={"Connection": "close"})
        if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
            raise Problem(422, f"The address has more than {MOST_PARAMETERS:,} parameters.")
        if path in OPEN or path.startswith(OPEN_FOLDER):
            if has_body:  # callers without the key could occupy all places of large bodies
                raise Problem(413, "This address takes no body. Send the request without one.")
            return
        if self.settings.key is None:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self.settings.key.encode())
        if kind.lower() != "bearer" or not right:
            said = "Authentication required: send the header Authorization: Bearer KEY."
            raise Problem(401, said, headers={"WWW-Authenticate": "Bearer"})

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """Return the body; raise `Problem` if it is not JSON, too large, too complex, or too slow."""
        limits = self.settings.limits
        is_json = headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"
        said = headers.get("content-length", "0")
        if said.isdigit() and int(said) > limits.body_bytes:
            raise _too_large(limits.body_bytes)
        most_lists = limits.body_bytes // BYTES_PER_LIST
        parts, size, lists, waits, is_large = [], 0, 0, False, False
        try:
            async with asyncio.timeout(limits.arrival_seconds):
                while True:
                    if size > SMALL_BODY and not is_large:
                        waits = True
                        is_large = await self._large.acquire()
                        waits = False
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(499, "The caller has disconnected.")
                    part = message.get("body", b"")
                    if part and not is_json:
                        raise Problem(415, "The body must be JSON: send the header Content-Type: application/json.")
                    parts.append(part)
                    size += len(part)
                    lists += part.count(b"[") + part.count(b"{")
                    if size > limits.body_bytes:
                        raise _too_large(limits.body_bytes)
                    if lists > most_lists:
                        said = f"The body has more than {most_lists:,} lists and objects. Send several requests."
                        raise Problem(422, said)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            if waits:
                said = f"More than {LARGE_BODIES} bodies above {SMALL_BODY:,} bytes are arriving. Try again."
                raise Problem(503, said, retry=1) from None
            raise Problem(408, f"The body did not arrive within {limits.arrival_seconds:g} s.") from None
        finally:
            if is_large:
                self._large.release()

    def _record(self, visit: _Visit) -> None:
        seconds = time.perf_counter() - visit.started
        status, route = str(visit.status or 499), visit.route
        self.metrics.requests.labels(route, status).observe(seconds)
        if access_log.isEnabledFor(logging.INFO):
            line = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z",
                "request": visit.id,
                "method": visit.method,
                "route": route,
                "status": int(status),
                "ms": round(1000 * seconds, 2),
                "bytes": visit.n_bytes,
            }
            access_log.info(json.dumps(line))


class _Visit:
    """A request's answer: its status, size, and the headers that every answer gets."""

    def __init__(self, scope: Scope, send: Send, routes: Sequence[BaseRoute]) -> None:
        self.scope, self._send, self._routes = scope, send, routes
        self.started = time.perf_counter()
        self.id = secrets.token_hex(8)
        self.status: int | None = None
        self.n_bytes = 0
        self.has_unread_body = False

    @property
    def method(self) -> str:
        """GET, POST, ...; any other is logged as "other"."""
        method = str(self.scope["method"])
        return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"

    @property
    def route(self) -> str:
        """The pattern of the path, never the path itself: that may hold a user's id."""
        route = self.scope.get("route")
        if route is None:  # refused before routing, or not found
            route = next((one for one in self._routes if one.matches(self.scope)[0] != Match.NONE), None)
        return str(getattr(route, "path", "none"))

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers["x-request-id"] = self.id
        elif message["type"] == "http.response.body":
            self.n_bytes += len(message.get("body", b""))
        await self._send(message)

    async def answer(self, problem: Problem, receive: Receive) -> None:
        """Send a problem, unless an answer has begun or the caller has disconnected."""
        if problem.status == 499:
            self.status = 499
        elif self.status is None:
            if self.has_unread_body:
                problem.headers["Connection"] = "close"
            await problem.response()(self.scope, receive, self.send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then the messages that follow."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def _too_large(limit: int) -> Problem:
    return Problem(413, f"The body is larger than {limit:,} bytes. Send fewer people at a time.")


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> _host_name("localhost:8000"), _host_name("[::1]:80")
    ('localhost', '::1')
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower()


# ---- connections ----


class Connections:
    """All connections of a service. If there are too many, the one that waited longest for its caller is closed."""

    def __init__(self, settings: Settings, metrics: Metrics, most: int) -> None:
        self.settings, self.metrics, self.most, self.ending = settings, metrics, most, False
        self.open: set[Connection] = set()
        self.unfinished: OrderedDict[Connection, float] = OrderedDict()  # since when, the longest first
        self.idle: OrderedDict[Connection, float] = OrderedDict()
        metrics.connections.set_function(lambda: len(self.open))

    def protocol(self, *arguments: Any, **options: Any) -> Connection:
        """Return the protocol of a new connection."""
        connection = Connection(*arguments, **options)
        connection.all, connection.limits = self, self.settings.limits
        return connection

    def admit(self, new: Connection, now: float) -> None:
        """Count a new connection; if there are too many, close another one, or keep this one for /health."""
        self.open.add(new)
        if len(self.open) <= self.most:
            return
        oldest = [(*next(iter(group.items())), group) for group in (self.unfinished, self.idle) if group]
        waits = {one: (now - since) / (WORTH_OF_IDLE if group is self.idle else 1) for one, since, group in oldest}
        waits = waits or {one: now - one.untaken for one in self.open if one.untaken is not None}
        if waits or len(self.open) > self.most + self.settings.health_connections:
            max(waits, key=lambda one: waits[one], default=new).end("too many connections")
        new.is_extra = len(self.open) > self.most

    def sweep(self) -> None:
        """End connections whose callers take too long; it calls itself again."""
        loop, patience, untaken = asyncio.get_running_loop(), self.settings.limits.arrival_seconds, 0
        if self.ending:
            patience = min(patience, self.settings.grace / 4)
        now = loop.time()
        for connection in sorted(self.open, key=lambda one: one.untaken or now, reverse=True):
            untaken += connection.transport.get_write_buffer_size()
            connection.check(now, patience, untaken > UNTAKEN_BYTES)
        loop.call_later(SWEEP_SECONDS, self.sweep)


class Connection(HttpToolsProtocol):
    """Uvicorn's protocol with bounds."""

    all: Connections
    limits: Any
    phase, since, is_extra = Phase.IDLE, 0.0, False
    untaken: float | None = None  # since when a part of an answer has not been read
    refusal: Problem | None = None
    answering: Any = None  # the request that the application has; those behind it are in the pipeline
    _head_bytes = _heads = _no_content = _lingered = 0

    def connection_made(self, transport: Any) -> None:
        """Wait for a head."""
        transport.max_size = READ_BYTES
        super().connection_made(_Lingering(transport, self._close))  # type: ignore[arg-type]
        self.all.admit(self, self.loop.time())
        if not self.transport.is_closing():
            self._enter(Phase.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._leave()
        self.all.open.discard(self)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; refuse a head that is too large, and too many bytes that are neither."""
        if self.phase is Phase.IDLE:
            self._enter(Phase.HEAD)
        while data and self.phase is not Phase.LINGER and not self.transport.is_closing():
            in_head, heads = self.phase is Phase.HEAD, self._heads
            end = self.limits.head_bytes - self._head_bytes if in_head else len(data)
            part, data = data[:end], data[end:]
            self._no_content += len(part)
            super().data_received(part)
            self._head_bytes = self._head_bytes + len(part) if in_head and heads == self._heads else 0
            if (self.phase is Phase.HEAD and self._head_bytes >= self.limits.head_bytes) or (
                self.phase is Phase.BODY and self._no_content > self.limits.head_bytes
            ):
                self._refuse(
                    Problem(431, f"The head of a request may have at most {self.limits.head_bytes:,} bytes.")
                )
        self._lingered += len(data)
        if self._lingered > LINGER_BYTES:
            self.end("refused and still sending")

    def on_message_begin(self) -> None:
        """Wait for the rest of the head."""
        super().on_message_begin()
        self.scope[CROWDED] = self.is_extra  # type: ignore[literal-required]
        if len(self.pipeline) >= MOST_PIPELINED:
            self.refusal = Problem(429, f"More than {MOST_PIPELINED} requests wait on this connection.")
            raise ValueError("too many requests wait")  # the parser stops, and uvicorn calls send_400_response
        if self.phase is not Phase.HEAD:
            self._enter(Phase.HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count fields, those after a body too."""
        if len(self.headers) >= self.limits.head_fields:
            self.refusal = Problem(431, f"A request may have at most {self.limits.head_fields} header fields.")
            raise ValueError("too many fields")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        self._heads += 1
        self._no_content = 0
        self._enter(Phase.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._no_content = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the application."""
        self._enter(Phase.ANSWER)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; close if the body of this one is still to come."""
        was_last = not self.pipeline
        super().on_response_complete()
        if self.phase is Phase.BODY and self.cycle.response_complete:
            self.transport.close()
        elif self.phase is Phase.ANSWER and was_last:
            self._enter(Phase.IDLE)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser cannot read."""
        self._refuse(self.refusal or Problem(400, "This is not an HTTP/1.1 request."))

    def end(self, reason: str) -> None:
        """Close at once, whatever has not been sent."""
        self.all.metrics.closed.labels(reason).inc()
        self._leave()
        self.all.open.discard(self)
        self.transport.abort()

    def check(self, now: float, patience: float, is_full: bool) -> None:
        """End it if its caller takes too long to send or to read, or if too much is unread (``is_full``)."""
        if not self.transport.get_write_buffer_size():
            self.untaken = None
        elif self.untaken is None:
            self.untaken = now
        if self.untaken is not None:
            if is_full or now - self.untaken > patience:
                self.end("answer not read")
        elif self.phase is Phase.HEAD and now - self.since > patience:
            self.end("head too slow")
        elif self.phase is Phase.LINGER and now - self.since > LINGER_SECONDS:
            self.end("refused and still sending")

    def _refuse(self, problem: Problem) -> None:
        self.pipeline.clear()
        if self.answering is not None and not self.answering.response_complete:
            if self.answering.response_started:
                self.transport.abort()
                return
            self.answering.disconnected = True  # the answer that was begun is not needed
            self.answering.message_event.set()
        self.all.metrics.closed.labels("refused by the parser").inc()
        answer = problem.response()
        lines = [name + b": " + value + b"\r\n" for name, value in [*answer.raw_headers, (b"connection", b"close")]]
        self.transport.write(STATUS_LINE[problem.status] + b"".join(lines) + b"\r\n" + bytes(answer.body))
        self.phase = Phase.BODY  # what follows is read and ignored
        self.transport.close()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self.answering = cycle
        super()._start_asgi_task(cycle, app)

    def _close(self, close: Callable[[], None]) -> None:
        """Close, but let a caller that is still sending read its answer first."""
        if self.phase is not Phase.BODY or self.all.ending:
            if self.phase is not Phase.LINGER:
                close()
            return
        self._enter(Phase.LINGER)
        with contextlib.suppress(OSError):  # the caller is gone
            self.transport.write_eof()
        self.flow.resume_reading()

    def _enter(self, phase: Phase) -> None:
        self._leave()
        self.phase, self.since = phase, self.loop.time()
        if phase is not Phase.ANSWER:
            waiting = self.all.unfinished if phase in (Phase.HEAD, Phase.BODY) else self.all.idle
            waiting[self] = self.since

    def _leave(self) -> None:
        self.all.unfinished.pop(self, None)
        self.all.idle.pop(self, None)


class _Lingering:
    """A transport whose `close` is that of the connection."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[Callable[[], None]], None]) -> None:
        self._transport, self._close = transport, close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """Close now, or when the caller has read its answer."""
        self._close(self._transport.close)
