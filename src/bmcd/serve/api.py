"""All addresses of the service: recommendations, look-ups, live clicks, reload, health; the files of its page."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import Field, ValidationError
from starlette.responses import Response

from bmcd.clicks.times import CLOCK_FROM, CLOCK_UNITS
from bmcd.errors import BmcdError
from bmcd.serve.live import Live
from bmcd.serve.messages import (
    Body,
    Explain,
    Id,
    Invocation,
    JsonAnswer,
    LiveClicks,
    MinProbability,
    Problem,
    ProblemDetails,
    Recommend,
    Recommendations,
    UserRecommended,
    Wanted,
    answer_rows,
    from_error,
    from_validation,
    people_of,
)
from bmcd.serve.metrics import CONTENT_TYPE, Metrics
from bmcd.serve.served_model import CurrentModel, ServedModel
from bmcd.serve.settings import Limits
from bmcd.serve.slots import Slots
from bmcd.serve.store import Click
from bmcd.serve.updating import FUTURE
from bmcd.utils import shown

B = TypeVar("B", bound=Body)
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# The files of the page; no others are served.
FILES = (
    *("page.css", "icon.svg", "page.js", "docs.js", "elements.js", "service.js", "person.js", "picker.js"),
    *("rows.js", "why.js", "about.js", "link.js", "csv.js", "groups.js", "live.js"),
)
PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": ProblemDetails, "description": "The request cannot be answered; the problem gives the reason."},
    429: {"model": ProblemDetails, "description": "Too many requests wait; Retry-After: when to try again."},
    503: {"model": ProblemDetails, "description": "The model is not ready yet."},
}
CLICK_PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": ProblemDetails, "description": "A click cannot be recorded, so none was; the problem says why."},
    429: {"model": ProblemDetails, "description": "Too many clicks wait; none was recorded. See Retry-After."},
    507: {"model": ProblemDetails, "description": "The clicks could not be written; none was recorded."},
}
# Numbers of each unit of time in a second, by the size of the number: seconds, ms, us, ns.
PER_SECOND = (1, 10**3, 10**6, 10**9)
# A clock that is set back by less than this, in microseconds, stands still instead.
STEADY = 3_600_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SimilarQuery(Body):
    """Parameters of the items similar to one."""

    k: int = 10
    only: list[str] = Field(default=[], description="Groups, as in only=section:sports.")
    never: list[str] = Field(default=[], description="Groups, as in never=section:sports.")


class UserQuery(SimilarQuery):
    """Parameters of the recommendations for a user of the model."""

    horizon: int | None = None
    min_probability: MinProbability = None
    groups: bool = False


class ItemQuery(Body):
    """Parameters of a search for items."""

    q: str = ""
    ids: list[str] = Field(default=[])
    limit: int = 20


class Api:
    """The routes, and what they share."""

    def __init__(
        self, current: CurrentModel, slots: Slots, metrics: Metrics, limits: Limits, live: Live | None = None
    ) -> None:
        self.current, self.slots, self.metrics, self.limits, self.live = current, slots, metrics, limits, live
        self._latest = 0

    def router(self) -> APIRouter:
        """Return the routes of every service."""
        routes = APIRouter()
        asked: dict[str, Any] = {"responses": PROBLEMS, "tags": ["ask"]}
        found: dict[str, Any] = {"responses": PROBLEMS, "tags": ["look up"]}
        ready: dict[str, Any] = {"responses": {503: {"model": ProblemDetails}}, "tags": ["run"]}

        @routes.post(
            "/v1/recommend",
            **asked | {"responses": {200: {"model": Recommendations}, **PROBLEMS}},
            openapi_extra=_takes(Recommend),
        )
        async def recommend(request: Request) -> Response:
            """Recommend to people, from what they have clicked.

            The probability is that of being among the person's next clicks, as many as the horizon. Items that the
            model does not know are ignored and listed.
            """
            raw = await request.body()
            return await self._ask(request, lambda model: self._recommend(model, self._parsed(Recommend, raw)))

        @routes.get(
            "/v1/users/{user:path}/recommendations",
            **asked | {"responses": {200: {"model": UserRecommended}, **PROBLEMS}},
        )
        async def recommend_to_user(request: Request, user: str, query: Annotated[UserQuery, Query()]) -> Response:
            """Recommend to a user of the model, if the model holds the clicks it was fitted to."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check(query.k, query.horizon, user=[user])
                only, never = self._filter("only", query.only), self._filter("never", query.never)
                wanted = Wanted.model_construct(**vars(query) | {"only": only, "never": never})
                if self.live is not None:
                    answer = self.live.recommend_to(model, user, wanted)
                else:
                    answer = model.recommend_to_user(_own_user(model, user), wanted)
                self.metrics.people.inc()
                return answer

            return await self._ask(request, work)

        @routes.post("/v1/explain", **asked, openapi_extra=_takes(Explain))
        async def explain(request: Request) -> Response:
            """Explain the probability of an item: clusters, tastes or members, and the contribution of each."""
            raw = await request.body()

            def work(model: ServedModel) -> dict[str, Any]:
                body = self._parsed(Explain, raw)
                ids = {"item": [body.item], "clicked": body.clicked or (), "user": [body.user or ""]}
                self._check(body.k, body.horizon, **ids)
                if (body.clicked is None) == (body.user is None):
                    raise Problem(422, "Give either what the person has clicked, or a user of the model.")
                if body.user is not None and self.live is not None and self.live.is_hidden(body.user):
                    raise Problem(404, "This user is being forgotten.")
                own = None if body.user is None else _own_user(model, body.user)
                return model.explain(body.item, body.k, clicked=body.clicked, own_user=own, horizon=body.horizon)

            return await self._ask(request, work)

        @routes.post("/invocations", **asked, openapi_extra=_takes(Invocation))
        async def invocations(request: Request) -> Response:
            """Recommend in the form of MLflow's scoring server: clicks in, recommendations out, both as rows."""
            raw = await request.body()

            def work(model: ServedModel) -> dict[str, Any]:
                body, named = people_of(self._parsed(Invocation, raw), self.limits)
                return answer_rows(self._recommend(model, body), named)

            return await self._ask(request, work)

        @routes.get("/v1/items", **found)
        async def items(request: Request, query: Annotated[ItemQuery, Query()]) -> Response:
            """Search for items by title or id, the most clicked first; or give ids to get their titles."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check_number("limit", query.limit, 1_000)
                self._check_ids(q=[query.q], ids=query.ids)
                if query.ids:
                    return {"model": model.hash, "items": model.items_of(query.ids)}
                return model.items(query.q, query.limit)

            return await self._ask(request, work)

        @routes.get("/v1/items/{item:path}/similar", **found)
        async def similar(request: Request, item: str, query: Annotated[SimilarQuery, Query()]) -> Response:
            """Return the items whose probability a click on this one raises most, with the lift."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check(query.k, None, item=[item])
                only, never = self._filter("only", query.only), self._filter("never", query.never)
                return model.similar(item, query.k, only, never)

            return await self._ask(request, work)

        @routes.get("/v1/card", tags=["look up"])
        async def card(request: Request) -> Response:
            """Return the model card: data, members, calibration, groups, limits, intended use."""
            model = self.current.get()
            if "text/html" in request.headers.get("accept", ""):
                return Response(model.card_page, media_type="text/html")
            return JsonAnswer(model.card)

        @routes.get("/v1/clusters", **found)
        async def clusters() -> Response:
            """Describe each group of users, or each taste."""
            described = self.current.get().clusters
            if described is None:
                raise Problem(404, "No model of this blend has clusters: BMCD and Tastes have.")
            return JsonAnswer(described)

        @routes.get("/v1/model", tags=["look up"])
        async def about() -> Response:
            """Describe the model in use: hash, data, verdict, calibration, limits; a blend's members, windows."""
            live = {} if self.live is None else {"live": self.live.about()}
            return JsonAnswer(self.current.get().about | {"limits": vars(self.limits)} | live)

        @routes.post("/v1/reload", tags=["run"], responses={409: {"model": ProblemDetails}})
        async def reload() -> Response:
            """Load the model file again; if that fails, the previous model stays in use and the answer says why."""
            return JsonAnswer(await self.current.reload())

        @routes.get("/health/live", tags=["run"])
        async def is_live() -> Response:
            """Report that the process runs."""
            return JsonAnswer({"live": True})

        @routes.get("/health/ready", **ready)
        async def is_ready() -> Response:
            """Report whether requests can be answered: the model is loaded and has answered one."""
            return JsonAnswer({"ready": True, "model": self.current.get().hash})

        @routes.get("/ping", **ready)
        async def ping() -> Response:
            """Do the same as /health/ready, where MLflow's clients look for it."""
            self.current.get()
            return Response(b"\n", media_type="text/plain")

        @routes.get("/metrics", tags=["run"])
        async def metrics() -> Response:
            """Return counts and times in the format of Prometheus."""
            return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE})

        return routes

    def live_router(self, live: Live) -> APIRouter:
        """Return the routes of live use: clicks to record, users to forget, and its state."""
        routes = APIRouter(tags=["live"])

        @routes.post("/v1/clicks", responses=CLICK_PROBLEMS, openapi_extra=_takes(LiveClicks))
        async def clicks(request: Request) -> Response:
            """Record clicks, all of them or none; they are on the disk when the answer comes.

            A click that is there already, by its event or by user, item and time, is not recorded again.
            """
            raw = await request.body()
            found = await self.slots.run(lambda: self._clicks(raw), self.limits.seconds)
            return JsonAnswer(await live.record(found))

        @routes.delete("/v1/users/{user:path}", responses={507: CLICK_PROBLEMS[507]})
        async def forget(user: str) -> Response:
            """Forget a user: recorded clicks at once, counts with the next count."""
            self._id_text("user", user)
            return JsonAnswer({"user": user, **await live.forget(user)})

        @routes.get("/v1/live")
        async def state() -> Response:
            """Report clicks by minute, predicted and observed hits, and trending items."""
            return JsonAnswer(live.view(self.current.get()))

        return routes

    # ---- answers ----

    def _parsed(self, kind: type[B], raw: bytes) -> B:
        """Return the body of a request; raise `ValidationError`."""
        return kind.model_validate_json(raw, context=self.limits)

    def _recommend(self, model: ServedModel, asked: Recommend) -> dict[str, Any]:
        """Return recommendations to people."""
        people = asked.people
        if len(people) * asked.k > self.limits.recommendations:
            raise Problem(
                422,
                f"{len(people):,} people x k = {asked.k:,} are {len(people) * asked.k:,} recommendations, more "
                f"than {self.limits.recommendations:,}, the limit of one answer. Send several requests.",
            )
        for number, person in enumerate(people):
            self._check_ids(
                **{f"people.{number}.clicked": person.clicked, f"people.{number}.id": [person.id or ""]}
            )
        self._check(asked.k, asked.horizon, items=asked.items or (), exclude=asked.exclude)
        outside: list[float] | None = None if self.live is None else []
        answer = model.recommend(asked, outside)
        if self.live is not None and outside is not None:
            for person, own, expected in zip(people, answer["people"], outside, strict=True):
                self.live.note(person.id, own, person.clicked, answer["horizon"], expected)
        self.metrics.people.inc(len(people))
        return answer

    async def _ask(self, request: Request, work: Callable[[ServedModel], dict[str, Any]]) -> Response:
        """Answer a request in a slot, and stop if the caller disconnects.

        Bodies are parsed and validated there too, so that they do not block the event loop.
        """
        model = self.current.get()

        async def disconnected() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        def answered() -> Response:
            try:
                return JsonAnswer(work(model))
            except ValidationError as error:
                raise from_validation(error) from error
            except BmcdError as error:
                raise from_error(error) from error

        return await self.slots.run(answered, self.limits.seconds, disconnected())

    # ---- checks ----

    def _filter(self, name: str, given: list[str]) -> dict[str, list[str]]:
        """Return groups by column, of query parameters such as section:sports."""
        self._check_ids(**{name: given})
        found: dict[str, list[str]] = {}
        for one in given:
            column, mark, group = one.partition(":")
            if not mark:
                raise Problem(422, f"{name} must be a column and a group, such as section:sports: {shown(one)}.")
            found.setdefault(column, []).append(group)
        return found

    def _check(self, k: int, horizon: int | None, **ids: Sequence[Id]) -> None:
        self._check_number("k", k, self.limits.k)
        self._check_number("horizon", k if horizon is None else horizon, self.limits.k)
        self._check_ids(**ids)

    def _check_number(self, name: str, value: int, most: int) -> None:
        if not 1 <= value <= most:
            error = {"field": name, "value": shown(value), "wrong": f"must be from 1 to {most:,}"}
            raise Problem(422, f"{name} must be from 1 to {most:,}, but it is {shown(value)}.", errors=[error])

    def _check_ids(self, **lists: Sequence[Id]) -> None:
        for name, ids in lists.items():
            if len(ids) > self.limits.clicks:
                raise Problem(422, f"{name}: {len(ids):,} ids are more than {self.limits.clicks:,}, the limit.")
            for one in ids:
                if isinstance(one, int) and abs(one) >= 2**63:
                    raise Problem(422, f"{name}: the number {shown(one, 20)} is too large for an id.")
                if isinstance(one, str) and len(one) > self.limits.id_length:
                    raise Problem(
                        422, f"{name}: {shown(one, 20)} has more than {self.limits.id_length:,} characters."
                    )

    # ---- clicks ----

    def _clicks(self, raw: bytes) -> list[Click]:
        """Return the clicks of a body."""
        try:
            given = self._parsed(LiveClicks, raw).clicks
        except ValidationError as error:
            raise from_validation(error) from error
        now = self._now()
        found = []
        for number, click in enumerate(given):
            where = f"clicks.{number}"
            user, item = (self._id_text(f"{where}.{name}", getattr(click, name)) for name in ("user", "item"))
            when = now + number if click.time is None else self._time(f"{where}.time", click.time, now)
            event, answer = (
                None if value is None else self._id_text(f"{where}.{name}", value)
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

    def _id_text(self, where: str, given: Id) -> str:
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
            raise _wrong(where, given, "is not a time: send 2026-05-01T10:00:00Z, or a number since 1970")
        if found > now + FUTURE:
            ahead = (found - now) / 1e6
            raise _wrong(
                where, given, f"is {ahead:,.0f} s ahead of this service's clock; {FUTURE // 10**6} s are allowed"
            )
        return found


def microseconds(given: float | str) -> int | None:
    """Return a date or a number of seconds, ms, us or ns as microseconds since 1970; None if it is not a time.

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


def _own_user(model: ServedModel, user: Id) -> Any:
    """Return the model's own id for a user, or raise `Problem`: there is no such user."""
    try:
        return model.own_user(user)
    except BmcdError as error:
        raise Problem(404, from_error(error).detail) from error


def _takes(kind: type[Body]) -> dict[str, Any]:
    """Return the part of the description of a route that names its body."""
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def page_router() -> APIRouter:
    """Return the routes of the pages and of the files they need."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def page() -> Response:
        return _file("page.html")

    @routes.get("/docs")
    async def docs() -> Response:
        return _file("docs.html")

    @routes.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in FILES:
            raise Problem(404, "There is no such file.")
        return _file(name)

    return routes


def _file(name: str) -> Response:
    kind = TYPES[name[name.rindex(".") :]]
    return Response(_content(name), media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _content(name: str) -> bytes:
    return (files("bmcd.serve") / "page" / name).read_bytes()


def with_examples(description: dict[str, Any], model: ServedModel) -> dict[str, Any]:
    """Return the OpenAPI description with an example for every route that takes something."""
    filled = copy.deepcopy(description)
    *clicked, other = model.example_items()
    user = model.example_user()
    rows = [["ann", item] for item in clicked]
    bodies = {
        "/v1/recommend": {"people": [{"id": "ann", "clicked": clicked}, {"clicked": []}], "k": 5},
        "/v1/explain": {"clicked": clicked, "item": other, "k": 5},
        "/invocations": {"dataframe_split": {"columns": ["user", "item"], "data": rows}, "params": {"k": 5}},
    }
    if "/v1/clicks" in filled["paths"]:
        bodies["/v1/clicks"] = {"clicks": [{"user": "ann", "item": other, "event": "an-example"}]}
    for path, body in bodies.items():
        filled["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = body
    values = {"/v1/items": {"q": str(other), "limit": 5}}
    if "/v1/items/{item}/similar" in filled["paths"]:
        values["/v1/items/{item}/similar"] = {"item": str(other), "k": 5}
    if user is not None:
        values["/v1/users/{user}/recommendations"] = {"user": user, "k": 5}
    for path, given in values.items():
        for parameter in filled["paths"][path]["get"]["parameters"]:
            if parameter["name"] in given:
                parameter["example"] = given[parameter["name"]]
    return filled
