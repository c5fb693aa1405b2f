"""The application and its process: listen at once, ready when warm, reload on SIGHUP, end on SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bmcd import __version__
from bmcd.errors import InputError, OutputError
from bmcd.serve.api import Api, page_router, with_examples
from bmcd.serve.gate import BUG, Connections, Gate
from bmcd.serve.live import Live
from bmcd.serve.messages import JsonAnswer, Problem, body_schemas, from_http, from_validation
from bmcd.serve.metrics import Metrics
from bmcd.serve.served_model import CurrentModel, ServedModel
from bmcd.serve.settings import Settings
from bmcd.serve.slots import Slots

log = logging.getLogger("bmcd.serve")

# Python's switch interval: short, so that threads that compute do not delay the event loop.
SWITCH_SECONDS = 0.001
# Connections that may wait in the system, and the number accepted before any of them is read.
BACKLOG, TAKEN_AT_ONCE = 4096, 64
# Time for work to stop at the end.
STOP_SECONDS = 2.0
# Files that the process opens besides connections.
OTHER_FILES = 96


class Service:
    """The application and what it runs on."""

    def __init__(
        self, loaded: ServedModel, settings: Settings, when_failed: Callable[[Exception], None],
        live: Live | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.live = settings, live
        self.slots = Slots(settings.slots, settings.queue)
        self.metrics = Metrics(self.slots)
        self.current = CurrentModel(settings, self.metrics)
        self._loaded, self._when_failed = loaded, when_failed
        inner = FastAPI(
            title="bmcd",
            version=__version__,
            description="Recommendations from clicks, each with the probability that it is among the next k.",
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
            lifespan=self._lifespan,
            redirect_slashes=False,
        )
        api = Api(self.current, self.slots, self.metrics, settings.limits, live)
        routers = [api.router(), page_router()]
        if live is not None:
            self.metrics.show_live(live)
            routers.append(api.live_router(live))
        for router in routers:
            inner.include_router(router)
        inner.add_api_route("/openapi.json", self._openapi, include_in_schema=False)
        for kind, as_problem in AS_PROBLEM.items():
            inner.exception_handler(kind)(_handler(as_problem))
        self.inner = inner
        routes = [route for router in routers for route in router.routes]
        self.app = Gate(inner, routes, settings, self.metrics)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Make the first model ready while the service already answers that it is not ready."""
        tasks = [asyncio.create_task(self._start())]
        if self.settings.watch:
            tasks.append(asyncio.create_task(self.current.watch()))
        yield
        for task in tasks:
            task.cancel()

    async def _start(self) -> None:
        try:
            await self.current.start(self._loaded)
            if self.live is not None:
                self.live.follow(self.current)
        except Exception as error:
            self._when_failed(error)

    async def _openapi(self) -> Response:
        """Return the description of all routes, with examples that work on the model in use."""
        description = self.inner.openapi()
        description["components"]["schemas"] |= body_schemas()
        return JsonAnswer(with_examples(description, self.current.get()))


AS_PROBLEM: dict[type[Exception], Callable[[Any], Problem]] = {
    Exception: lambda _: Problem(500, BUG),  # the gate, which gets the exception too, writes it to the log
    Problem: lambda problem: problem,
    HTTPException: from_http,
    RequestValidationError: from_validation,
}


def _handler(as_problem: Callable[[Any], Problem]) -> Callable[[Request, Any], Awaitable[Response]]:
    async def handle(_: Request, error: Any) -> Response:
        return as_problem(error).response()

    return handle


def serve(
    settings: Settings,
    started: Callable[[str, ServedModel], None],
    reload_wanted: Callable[[], bool] = lambda: False,
) -> None:
    """Serve the model until SIGTERM or Ctrl-C; raise an error if the model cannot be used or the port is taken.

    ``started`` is called with the address and the model as soon as the service listens. ``reload_wanted`` returns
    whether SIGHUP came before this function handled it; the model is then loaded again as soon as it is ready.
    """
    most = _most_connections(settings)
    failed: list[Exception] = []
    server: _Server | None = None

    def stop(error: Exception) -> None:
        failed.append(error)
        if server is not None:
            server.should_exit = True

    with contextlib.ExitStack() as stack:
        live = None
        if settings.live is not None:
            live = Live(settings.live, settings.path)
            stack.callback(live.close)
            settings = replace(settings, path=live.path)
        loaded = ServedModel.from_file(settings.path)
        listening = stack.enter_context(_listen(settings.host, settings.port))
        service = Service(loaded, settings, stop, live)
        server = _Server(service, most, reload_wanted)
        host, port = listening.getsockname()[:2]
        started(f"http://{f'[{host}]' if ':' in host else host}:{port}/", loaded)
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
    """Return a socket that listens; `OutputError` if the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol given, asyncio sends small answers at once instead of waiting 40 ms for more (TCP_NODELAY).
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)  # callers can connect as soon as the address is printed
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"cannot listen on {host}, port {port}: {reason}. Choose another with --port.") from error
    return listening


def _most_connections(settings: Settings) -> int:
    """Return the maximum number of connections, after raising the limit of open files if possible."""
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
        log.warning("at most %d connections: the process may open at most %d files (ulimit -n)", most, soft)
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
        handlers = {"SIGTERM": self._stop, "SIGINT": self._stop, "SIGHUP": self._reload_soon}
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
        """Start, and let more connections wait in the system than are accepted at once."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(BACKLOG)
        self.all_connections.sweep()
        _tell_systemd("READY=1")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, with less patience for slow callers."""
        self.all_connections.ending = True
        await super().shutdown(sockets)

    def _stop(self) -> None:
        if self.should_exit:
            self.force_exit = True  # the second signal
        self.should_exit = True

    def _reload_soon(self) -> None:
        async def reload() -> None:
            await self.service.current.ready.wait()
            with contextlib.suppress(Problem):  # the log has it
                await self.service.current.reload()

        self._reload = asyncio.get_running_loop().create_task(reload())


def _tell_systemd(state: str) -> None:
    """Notify the service manager that started this process, if it asks for it (Type=notify)."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, contextlib.suppress(OSError):
            manager.sendto(state.encode(), "\0" + path[1:] if path.startswith("@") else path)
