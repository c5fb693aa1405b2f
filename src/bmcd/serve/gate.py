"""The gate that every request passes: host, key, size and speed of the body; then headers, log and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.routing import BaseRoute, Match

from bmcd.serve.messages import Problem
from bmcd.serve.metrics import Metrics
from bmcd.serve.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

access_log = logging.getLogger("bmcd.access")
log = logging.getLogger("bmcd.serve")

# What can be had without the key: the pages, which ask for it, and what tells a proxy whether to send requests.
HEALTH = frozenset(("/health/live", "/health/ready", "/ping"))
OPEN = HEALTH | {"/", "/docs"}
OPEN_FOLDER = "/page/"
# True in the scope of a request on a connection beyond the limit.
CROWDED = "bmcd.crowded"
# In the query of an address: the framework takes time for the square of their number.
MOST_PARAMETERS = 1_000
# Of a body, which may have as many lists and objects as this goes into the limit of its size: reading them keeps
# the event loop waiting, a hundred thousand of them for some 0.04 s.
BYTES_PER_LIST = 10
# A body above this size takes one of so many places while it arrives.
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
            await visit.answer(Problem(503, "The service ends. Try again when it is back."), receive)
            raise
        except Exception:
            log.exception("a bug of the service, in request %s", visit.id)
            await visit.answer(Problem(500, BUG), receive)
        finally:
            self._record(visit)

    def _check(self, scope: Scope, headers: Headers, has_body: bool) -> None:
        """Raise `Problem` for a request that is not meant for this service, or has no key."""
        host = _host_name(headers.get("host", ""))
        if self._hosts is not None and host not in self._hosts:
            raise Problem(
                421,
                f"This service is not known as {host[:100]!r}. Whoever runs it can allow the name: --allow-host.",
            )
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site") == "cross-site":
            raise Problem(403, "Pages of other sites may not use this service.")
        path = scope["path"]
        if scope.get(CROWDED) and path not in HEALTH:
            raise Problem(
                503,
                "There are too many connections. Try again.",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        if scope["query_string"].count(b"&") >= MOST_PARAMETERS:
            raise Problem(422, f"The address has more than {MOST_PARAMETERS:,} parameters.")
        if path in OPEN or path.startswith(OPEN_FOLDER):
            if has_body:  # callers without the key could keep all places of large bodies taken
                raise Problem(413, "Nothing can be sent to this address: ask without a body.")
            return
        if self.settings.key is None:
            return
        kind, _, given = headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(given.strip().encode(), self.settings.key.encode())
        if kind.lower() != "bearer" or not right:
            raise Problem(
                401,
                "This service wants a key: send the header Authorization: Bearer KEY.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        """Return the body; raise `Problem` if it is no JSON, too large, too complex, or arrives too slowly."""
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
                        raise Problem(499, "The caller has hung up.")
                    part = message.get("body", b"")
                    if part and not is_json:
                        raise Problem(415, "The body must be JSON: send the header Content-Type: application/json.")
                    parts.append(part)
                    size += len(part)
                    lists += part.count(b"[") + part.count(b"{")
                    if size > limits.body_bytes:
                        raise _too_large(limits.body_bytes)
                    if lists > most_lists:
                        raise Problem(
                            422,
                            f"The body has more than {most_lists:,} lists and objects. Send several requests.",
                        )
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            if waits:
                raise Problem(
                    503,
                    f"More than {LARGE_BODIES} bodies above {SMALL_BODY:,} bytes arrive at a time. Try again.",
                    headers={"Retry-After": "1"},
                ) from None
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
    """One request on its way out: its status, size, and the headers that every answer gets."""

    def __init__(self, scope: Scope, send: Send, routes: Sequence[BaseRoute]) -> None:
        self.scope, self._send, self._routes = scope, send, routes
        self.started = time.perf_counter()
        self.id = secrets.token_hex(8)
        self.status: int | None = None
        self.n_bytes = 0
        self.has_unread_body = False

    @property
    def method(self) -> str:
        """GET, POST, ...; anything else is not written down as it came."""
        method = str(self.scope["method"])
        return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"

    @property
    def route(self) -> str:
        """The pattern of the path, never the path itself: that may hold a user's id."""
        route = self.scope.get("route")
        if route is None:  # refused before it was looked for, or not there
            route = next((one for one in self._routes if one.matches(self.scope)[0] != Match.NONE), None)
        return str(getattr(route, "path", "none"))

    async def send(self, message: Message) -> None:
        """Send a part of the answer on."""
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
        """Send a problem, unless an answer has begun or there is nobody to hear it."""
        if problem.status == 499:
            self.status = 499
        elif self.status is None:
            if self.has_unread_body:
                problem.headers["Connection"] = "close"
            await problem.response()(self.scope, receive, self.send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the body first, and then whatever comes: that the caller has hung up."""
    given = False

    async def next_message() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return next_message


def _too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"The body is larger than {limit:,} bytes. Send fewer people at a time.",
    )


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port.

    >>> _host_name("localhost:8000"), _host_name("[::1]:80")
    ('localhost', '::1')
    """
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower()
