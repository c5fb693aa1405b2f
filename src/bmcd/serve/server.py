"""`serve`: the service as a process. It listens at once, is ready when warm, reloads on SIGHUP, ends on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import uvicorn

from bmcd.errors import InputError, OutputError
from bmcd.serve.app import Service
from bmcd.serve.connections import Connections
from bmcd.serve.live import Live
from bmcd.serve.problems import Problem
from bmcd.serve.served_model import ServedModel
from bmcd.serve.settings import Settings

log = logging.getLogger("bmcd.serve")

# Threads that work must not keep the one that talks to callers waiting for Python's lock.
SWITCH_SECONDS = 0.001
# Connections that may wait to be taken, and how many are taken before any of them is read.
BACKLOG, TAKEN_AT_ONCE = 4096, 64
# Until the work that was cut off at the end has stopped.
STOP_SECONDS = 2.0
# What the process opens besides connections.
OTHER_FILES = 96


def serve(
    settings: Settings,
    started: Callable[[str, ServedModel], None],
    reload_wanted: Callable[[], bool] = lambda: False,
) -> None:
    """Serve the model until SIGTERM or Ctrl-C; raise if it cannot be loaded, made ready, or the port is taken.

    ``started`` is told the address and the model as soon as it listens. ``reload_wanted`` says whether SIGHUP came
    before this function handled it; the model is then loaded again as soon as it is ready.
    """
    most = _most_connections(settings)
    if settings.live is None:
        _serve(settings, started, reload_wanted, most, None)
        return
    live = Live(settings.live, settings.path)
    try:
        _serve(replace(settings, path=live.path), started, reload_wanted, most, live)
    finally:
        live.close()


def _serve(
    settings: Settings,
    started: Callable[[str, ServedModel], None],
    reload_wanted: Callable[[], bool],
    most: int,
    live: Live | None,
) -> None:
    loaded = ServedModel.from_file(settings.path)
    listening = _listen(settings.host, settings.port)
    server: _Server | None = None
    failed: list[Exception] = []

    def stop(error: Exception) -> None:
        failed.append(error)
        if server is not None:
            server.should_exit = True

    service = Service(loaded, settings, stop, live)
    server = _Server(service, most, reload_wanted)
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
            service.slots.close(STOP_SECONDS)
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


def _most_connections(settings: Settings) -> int:
    """Return how many connections may be open, after making room for them among the files of the process."""
    others = settings.health_connections + TAKEN_AT_ONCE + OTHER_FILES
    try:
        import resource
    except ImportError:  # Windows
        return settings.connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections + others
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = settings.connections if soft == resource.RLIM_INFINITY else min(settings.connections, soft - others)
    if most < 1:
        raise InputError(
            f"this process may open {soft} files, and the service needs {others + 1}: raise ulimit -n."
        )
    if most < settings.connections:
        log.warning("at most %d connections: the process may open no more than %d files (ulimit -n)", most, soft)
    return most


class _Server(uvicorn.Server):
    """A uvicorn server with our signals: SIGTERM and SIGINT end it, SIGHUP reloads the model."""

    def __init__(self, service: Service, most: int, reload_wanted: Callable[[], bool]) -> None:
        self.service, self.reload_wanted = service, reload_wanted
        self.all_connections = Connections(service.settings, service.metrics, most)
        super().__init__(
            uvicorn.Config(
                service.app,
                http=self.all_connections.protocol,  # type: ignore[arg-type]
                backlog=TAKEN_AT_ONCE,
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
        if self.reload_wanted():
            self._reload_soon()
        try:
            yield
        finally:
            for number in known:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and let more connections wait in the system than are taken at once."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
        self.all_connections.sweep()
        _tell_systemd("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, and wait less long for callers."""
        self.all_connections.ending = True
        await super().shutdown(sockets)

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # asked twice
        self.should_exit = True

    def _reload_soon(self) -> None:
        async def reload() -> None:
            await self.service.current.ready.wait()
            with contextlib.suppress(Problem):  # the log has it
                await self.service.current.reload()

        self._reload = asyncio.get_running_loop().create_task(reload())


def _tell_systemd(state: str) -> None:
    """Tell the service manager that started this process, if it wants to know (Type=notify)."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.suppress(OSError):
            manager.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)
