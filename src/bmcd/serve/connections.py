"""Bounds of a connection: size and time of a head, time to take an answer, and how many connections there are.

No ASGI server bounds all of these by its settings: uvicorn's h11 protocol and hypercorn bound the bytes of a head,
granian also its fields and time, none of them unread answers, so callers could hold memory and file descriptors for
as long as they liked (docs/decisions). This adds the bounds to uvicorn's fast protocol, so no proxy is needed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bmcd.serve.gate import CROWDED
from bmcd.serve.messages import Problem
from bmcd.serve.metrics import Metrics
from bmcd.serve.settings import Settings

SWEEP_SECONDS = 0.25
READ_BYTES = 2**16  # at a time, from one connection
MOST_PIPELINED = 16  # requests sent on one connection before the first is answered
LINGER_SECONDS, LINGER_BYTES = 2.0, 2**22  # what a refused caller may still send: a reset would lose the answer
UNTAKEN_BYTES = 2**26  # answers that callers have not read, all together
WORTH_OF_IDLE = 10  # an idle connection is closed before an unfinished request if idle this many times longer

Phase = Enum("Phase", ["HEAD", "BODY", "ANSWER", "IDLE", "LINGER"])  # what a connection waits for


class Connections:
    """All connections of a service. When there are too many, the one that waited longest for its caller goes."""

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
        """Count a new connection; if there are too many, close another, or else keep this one for /health."""
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
        """Feed the parser; refuse a head that is too large, and too much that is neither head nor content."""
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
                self._refuse(Problem(431, f"The head of a request may have {self.limits.head_bytes:,} bytes."))
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
            self.refusal = Problem(431, f"A request may have {self.limits.head_fields} header fields, no more.")
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
        self._refuse(self.refusal or Problem(400, "This is not a request of HTTP/1.1."))

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
            self.answering.disconnected = True  # nobody waits for what was begun
            self.answering.message_event.set()
        self.all.metrics.closed.labels("refused by the parser").inc()
        answer = problem.response()
        lines = [name + b": " + value + b"\r\n" for name, value in [*answer.raw_headers, (b"connection", b"close")]]
        self.transport.write(STATUS_LINE[problem.status] + b"".join(lines) + b"\r\n" + bytes(answer.body))
        self.phase = Phase.BODY  # what follows is read, and thrown away
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
