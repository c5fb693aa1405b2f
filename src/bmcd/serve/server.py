"""`serve`: the service as a process. It listens at once, is ready when warm, reloads on SIGHUP, ends on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bmcd.errors import OutputError
from bmcd.serve.app import Service
from bmcd.serve.problems import Problem
from bmcd.serve.served_model import ServedModel
from bmcd.serve.settings import Settings

log = logging.getLogger("bmcd.serve")

# Threads that work must not keep the one that talks to callers waiting for Python's lock.
SWITCH_SECONDS = 0.001
# Connections that may wait to be taken.
BACKLOG = 2048


def serve(settings: Settings, started: Callable[[str, ServedModel], None]) -> None:
    """Serve the model until SIGTERM or Ctrl-C; raise if it cannot be loaded, made ready, or the port is taken.

    ``started`` is told the address and the model as soon as it listens.
    """
    loaded = ServedModel.from_file(settings.path)
    listening = _listen(settings.host, settings.port)
    server: _Server | None = None
    failed: list[Exception] = []

    def stop(error: Exception) -> None:
        failed.append(error)
        if server is not None:
            server.should_exit = True

    service = Service(loaded, settings, stop)
    server = _Server(service)
    with listening:
        host, port = listening.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        started(f"http://{name}:{port}/", loaded)
        interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            asyncio.run(server.serve(sockets=[listening]))
        finally:
            sys.setswitchinterval(interval)
    if failed:
        raise failed[0]


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens, or raise `OutputError` that says why it cannot."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends small answers at once instead of waiting 40 ms for more (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)  # whoever reads the address can connect at once
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot listen on {host}, port {port}: {reason}. Choose another with --port.") from error
    return listening


class _Server(uvicorn.Server):
    """A uvicorn server with our signals: SIGTERM and SIGINT end it, SIGHUP reloads the model."""

    def __init__(self, service: Service) -> None:
        self.service = service
        limits = service.settings.limits

        class Protocol(_PatientProtocol):
            seconds = limits.arrival_seconds

        super().__init__(
            uvicorn.Config(
                service.app,
                http=Protocol,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=service.settings.grace,
                timeout_keep_alive=30,
            )
        )
        self._reload: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while it serves."""
        loop = asyncio.get_running_loop()
        handlers: dict[str, Callable[[], Any]] = {
            "SIGTERM": self._stop,
            "SIGINT": self._stop,
            "SIGHUP": self._reload_soon,
        }
        known = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
        for number, handler in known.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in known:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # asked twice
        self.should_exit = True

    def _reload_soon(self) -> None:
        async def reload() -> None:
            with contextlib.suppress(Problem):  # the log has it
                await self.service.current.reload()

        self._reload = asyncio.get_running_loop().create_task(reload())


class _PatientProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, which hangs up on callers whose head of a request does not arrive in time."""

    seconds: float
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """Start to wait for the rest of the head."""
        super().on_message_begin()
        if self._late is None:
            self._wait()

    def on_headers_complete(self) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.seconds, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
