"""The addresses of live use: clicks to record, users to forget, and how it goes."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from pydantic import ValidationError
from starlette.responses import Response

from bmcd.clicks.times import CLOCK_FROM, CLOCK_UNITS
from bmcd.serve.live import Live
from bmcd.serve.messages import Id, JsonAnswer, LiveClicks, Problem, ProblemDetails, from_validation
from bmcd.serve.served_model import CurrentModel
from bmcd.serve.settings import Limits
from bmcd.serve.slots import Slots
from bmcd.serve.store import Click
from bmcd.serve.updating import FUTURE
from bmcd.utils import shown

PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": ProblemDetails, "description": "A click cannot be recorded, so none was; the problem says why."},
    429: {
        "model": ProblemDetails,
        "description": "Too many clicks wait; none was recorded. Retry-After says when.",
    },
    507: {"model": ProblemDetails, "description": "The clicks could not be written; none was recorded."},
}
# Numbers of each unit of time in a second, by the size of the number: seconds, ms, us, ns.
PER_SECOND = (1, 10**3, 10**6, 10**9)
STEADY = 3_600_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Intake:
    """The routes, and what they share."""

    def __init__(self, live: Live, current: CurrentModel, slots: Slots, limits: Limits) -> None:
        self.live, self.current, self.slots, self.limits = live, current, slots, limits
        self._latest = 0

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter(tags=["live"])
        schema = {"$ref": f"#/components/schemas/{LiveClicks.__name__}"}
        takes = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}

        @routes.post("/v1/clicks", responses=PROBLEMS, openapi_extra=takes)
        async def clicks(request: Request) -> Response:
            """Record clicks, all of them or none; they are on the disk when the answer comes.

            A click that is there already, by its event or by user, item and time, is not recorded again.
            """
            raw = await request.body()
            found = await self.slots.run(lambda: self._clicks(raw), self.limits.seconds)
            return JsonAnswer(await self.live.record(found))

        @routes.delete("/v1/users/{user:path}", responses={507: PROBLEMS[507]})
        async def forget(user: str) -> Response:
            """Forget a user: recorded clicks at once, what was counted with the next count."""
            self._check("user", user)
            return JsonAnswer({"user": user, **await self.live.forget(user)})

        @routes.get("/v1/live")
        async def live() -> Response:
            """Say how it goes: clicks by minute, predicted and observed hits, what is trending."""
            return JsonAnswer(self.live.view(self.current.get()))

        return routes

    def _clicks(self, raw: bytes) -> list[Click]:
        try:
            given = LiveClicks.model_validate_json(raw, context=self.limits).clicks
        except ValidationError as error:
            raise from_validation(error) from error
        now = self._now()
        found = []
        for number, click in enumerate(given):
            where = f"clicks.{number}"
            user, item = (self._check(f"{where}.{name}", getattr(click, name)) for name in ("user", "item"))
            when = now + number if click.time is None else self._time(f"{where}.time", click.time, now)
            event, answer = (
                None if value is None else self._check(f"{where}.{name}", value)
                for name, value in (("event", click.event), ("answer", click.answer))
            )
            found.append(Click(user, item, when, event, answer))
        return found

    def _now(self) -> int:
        """Return the time; when the clock is set back by less than `STEADY`, time stands still for that long."""
        now = time.time_ns() // 1000
        if now < self._latest < now + STEADY:
            now = self._latest
        self._latest = now
        return now

    def _check(self, where: str, given: Id) -> str:
        """Return an id as text, without whitespace around it."""
        if isinstance(given, int) and abs(given) >= 2**63:
            raise _wrong(where, given, "is too large a number for an id")
        text = str(given).strip()
        if not text:
            raise _wrong(where, given, "is empty")
        if len(text) > self.limits.id_length:
            raise _wrong(where, given, f"has more than {self.limits.id_length:,} characters")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _wrong(where, given, "is not valid Unicode") from None
        return text

    def _time(self, where: str, given: float | str, now: int) -> int:
        """Return a time in microseconds since 1970."""
        found = microseconds(given)
        if found is None:
            raise _wrong(where, given, "is no time: send 2026-05-01T10:00:00Z, or a number since 1970")
        if found > now + FUTURE:
            ahead = (found - now) / 1e6
            raise _wrong(
                where, given, f"is {ahead:,.0f} s ahead of this service's clock; {FUTURE // 10**6} s are allowed"
            )
        return found


def microseconds(given: float | str) -> int | None:
    """Return a date or a number of seconds, ms, us or ns as microseconds since 1970; None if it is no time.

    >>> microseconds("2026-05-01T02:00:00+02:00") == microseconds(1777593600) == microseconds(1777593600e3)
    True
    >>> microseconds("soon"), microseconds(7), microseconds("nan")
    (None, None, None)
    """
    if isinstance(given, str):
        try:
            when = datetime.fromisoformat(given.strip())
            since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        except (ValueError, OverflowError):
            return None
    if not math.isfinite(given) or not CLOCK_FROM <= given < 2**63:
        return None
    per_second = next(n for (_, bound), n in zip(CLOCK_UNITS, PER_SECOND, strict=True) if given < bound)
    if isinstance(given, int):
        return given * 1_000_000 // per_second
    return round(given * (1_000_000 / per_second))


def _wrong(where: str, given: Any, what: str) -> Problem:
    error = {"field": where, "value": shown(given), "wrong": what}
    return Problem(422, f"{where}: {shown(given)} {what}. Nothing was recorded.", errors=[error])
