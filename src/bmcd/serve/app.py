"""The application: its parts put together, ready for any ASGI server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bmcd import __version__
from bmcd.serve.api import Api
from bmcd.serve.current_model import CurrentModel
from bmcd.serve.examples import with_examples
from bmcd.serve.gate import BUG, Gate
from bmcd.serve.intake import Intake
from bmcd.serve.live import Live
from bmcd.serve.messages import body_schemas
from bmcd.serve.metrics import Metrics
from bmcd.serve.pages import page_router
from bmcd.serve.problems import JsonAnswer, Problem, from_http, from_validation
from bmcd.serve.served_model import ServedModel
from bmcd.serve.settings import Settings
from bmcd.serve.slots import Slots


class Service:
    """The application and what it runs on."""

    def __init__(
        self,
        loaded: ServedModel,
        settings: Settings,
        when_failed: Callable[[Exception], None],
        live: Live | None = None,
    ) -> None:
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
        routers = [Api(self.current, self.slots, self.metrics, settings.limits, live).router(), page_router()]
        if live is not None:
            self.metrics.show_live(live)
            routers.append(Intake(live, self.current, self.slots, settings.limits).router())
        for router in routers:
            inner.include_router(router)
        inner.add_api_route("/openapi.json", self._openapi, include_in_schema=False)
        inner.exception_handler(Exception)(_bug)  # the gate, which gets the exception too, writes it to the log
        inner.exception_handler(Problem)(_problem)
        inner.exception_handler(HTTPException)(_http)
        inner.exception_handler(RequestValidationError)(_validation)
        self.inner = inner
        routes = [route for router in routers for route in router.routes]
        self.app = Gate(inner, routes, settings, self.metrics)

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        """Make the first model ready while the service already says that it is not."""
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


async def _bug(_: Request, __: Any) -> Response:
    return Problem(500, BUG).response()


async def _problem(_: Request, error: Any) -> Response:
    return error.response()  # type: ignore[no-any-return]


async def _http(_: Request, error: Any) -> Response:
    return from_http(error).response()


async def _validation(_: Request, error: Any) -> Response:
    return from_validation(error).response()
