"""The addresses that machines ask: recommendations, explanations, items, clusters, the model, reload, health."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import Field, ValidationError
from starlette.responses import Response

from bmcd.errors import BmcdError
from bmcd.models.list_rules import ListRules
from bmcd.serve.live import Live
from bmcd.serve.messages import (
    Body,
    Explain,
    Id,
    Invocation,
    JsonAnswer,
    MinProbability,
    Problem,
    ProblemDetails,
    Recommend,
    Recommendations,
    UserRecommended,
    answer_rows,
    from_error,
    from_validation,
    people_of,
)
from bmcd.serve.metrics import CONTENT_TYPE, Metrics
from bmcd.serve.served_model import CurrentModel, ServedModel
from bmcd.serve.settings import Limits
from bmcd.serve.slots import Slots
from bmcd.utils import shown

B = TypeVar("B", bound=Body)
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# A file that is listed here can be had; nothing else can.
FILES = (
    *("page.css", "icon.svg", "page.js", "docs.js", "elements.js", "service.js", "person.js", "picker.js"),
    *("rows.js", "why.js", "about.js", "link.js", "csv.js", "groups.js", "live.js"),
)
PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": ProblemDetails, "description": "The request cannot be answered; the problem says why."},
    429: {"model": ProblemDetails, "description": "Too many wait; Retry-After says when to try again."},
    503: {"model": ProblemDetails, "description": "The model is being made ready."},
}


class UserQuery(Body):
    """What can be asked for a user of the model."""

    k: int = 10
    horizon: int | None = None
    min_probability: MinProbability = None
    only: list[str] = Field(default=[], description="Groups, as in only=section:sports.")
    never: list[str] = Field(default=[], description="Groups, as in never=section:sports.")
    groups: bool = False


class SimilarQuery(Body):
    """What can be asked of the items similar to one."""

    k: int = 10
    only: list[str] = Field(default=[], description="Groups, as in only=section:sports.")
    never: list[str] = Field(default=[], description="Groups, as in never=section:sports.")


class ItemQuery(Body):
    """What can be asked of the items."""

    q: str = ""
    ids: list[str] = Field(default=[])
    limit: int = 20


class Api:
    """The routes, and what they share."""

    def __init__(
        self, current: CurrentModel, slots: Slots, metrics: Metrics, limits: Limits, live: Live | None = None
    ) -> None:
        self.current, self.slots, self.metrics, self.limits, self.live = current, slots, metrics, limits, live

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter()

        @routes.post(
            "/v1/recommend",
            responses={200: {"model": Recommendations}, **PROBLEMS},
            tags=["ask"],
            openapi_extra=_takes(Recommend),
        )
        async def recommend(request: Request) -> Response:
            """Recommend to people, from what they have clicked.

            The probability is that of being among the person's next clicks, as many as the horizon. Items that the
            model does not know are left out and listed.
            """
            raw = await request.body()
            return await self._ask(request, lambda model: self._recommend(model, self._parsed(Recommend, raw)))

        @routes.get(
            "/v1/users/{user:path}/recommendations",
            responses={200: {"model": UserRecommended}, **PROBLEMS},
            tags=["ask"],
        )
        async def recommend_to_user(request: Request, user: str, query: Annotated[UserQuery, Query()]) -> Response:
            """Recommend to a user of the model, where the model holds the clicks it was fitted to."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check(query.k, query.horizon, user=[user])
                only, never = self._filter("only", query.only), self._filter("never", query.never)
                more: dict[str, Any] = {"only": only, "never": never, "groups": query.groups}
                if self.live is not None:
                    answer = self.live.recommend_to(
                        model, user, query.k, query.min_probability, query.horizon, **more
                    )
                else:
                    own = _own_user(model, user)
                    answer = model.recommend_to_user(own, query.k, query.min_probability, query.horizon, **more)
                self.metrics.people.inc()
                return answer

            return await self._ask(request, work)

        @routes.post("/v1/explain", responses=PROBLEMS, tags=["ask"], openapi_extra=_takes(Explain))
        async def explain(request: Request) -> Response:
            """Say why an item has the probability it has: clusters, tastes or models, and what each adds."""
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

        @routes.post("/invocations", responses=PROBLEMS, tags=["ask"], openapi_extra=_takes(Invocation))
        async def invocations(request: Request) -> Response:
            """Recommend in the form of MLflow's scoring server: clicks in, recommendations out, both as rows."""
            raw = await request.body()

            def work(model: ServedModel) -> dict[str, Any]:
                asked, named = people_of(self._parsed(Invocation, raw), self.limits)
                return answer_rows(self._recommend(model, asked), named)

            return await self._ask(request, work)

        @routes.get("/v1/items", responses=PROBLEMS, tags=["look up"])
        async def items(request: Request, query: Annotated[ItemQuery, Query()]) -> Response:
            """Search for items by title or id, the most clicked first; or give ids to get their titles."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check_number("limit", query.limit, 1_000)
                self._check_ids(q=[query.q], ids=query.ids)
                if query.ids:
                    return {"model": model.hash, "items": model.items_of(query.ids)}
                return model.items(query.q, query.limit)

            return await self._ask(request, work)

        @routes.get("/v1/items/{item:path}/similar", responses=PROBLEMS, tags=["look up"])
        async def similar(request: Request, item: str, query: Annotated[SimilarQuery, Query()]) -> Response:
            """Give the items that a click on this one says most about, with the lift of their probability."""

            def work(model: ServedModel) -> dict[str, Any]:
                self._check(query.k, None, item=[item])
                only, never = self._filter("only", query.only), self._filter("never", query.never)
                return model.similar(item, query.k, only, never)

            return await self._ask(request, work)

        @routes.get("/v1/card", tags=["look up"])
        async def card(request: Request) -> Response:
            """Give the model card: data, members, calibration, groups, limits, intended use."""
            model = self.current.get()
            if "text/html" in request.headers.get("accept", ""):
                return Response(model.card_page, media_type="text/html")
            return JsonAnswer(model.card)

        @routes.get("/v1/clusters", responses=PROBLEMS, tags=["look up"])
        async def clusters() -> Response:
            """Say what each group of users, or each taste, is like."""
            found = self.current.get().clusters
            if found is None:
                raise Problem(404, "No model of this blend has clusters: BMCD and Tastes have.")
            return JsonAnswer(found)

        @routes.get("/v1/model", tags=["look up"])
        async def about() -> Response:
            """Say which model answers: hash, data, verdict, calibration, limits; of a blend members and windows."""
            live = {} if self.live is None else {"live": self.live.about()}
            return JsonAnswer(self.current.get().about | {"limits": vars(self.limits)} | live)

        @routes.post("/v1/reload", tags=["run"], responses={409: {"model": ProblemDetails}})
        async def reload() -> Response:
            """Load the model file again; if it cannot be used, the old model stays and the answer says why."""
            return JsonAnswer(await self.current.reload())

        @routes.get("/health/live", tags=["run"])
        async def live() -> Response:
            """Say that the process runs."""
            return JsonAnswer({"live": True})

        @routes.get("/health/ready", tags=["run"], responses={503: {"model": ProblemDetails}})
        async def ready() -> Response:
            """Say whether questions can be answered: the model is loaded and has answered one."""
            return JsonAnswer({"ready": True, "model": self.current.get().hash})

        @routes.get("/ping", tags=["run"], responses={503: {"model": ProblemDetails}})
        async def ping() -> Response:
            """Do the same as /health/ready, where MLflow's clients look for it."""
            self.current.get()
            return Response(b"\n", media_type="text/plain")

        @routes.get("/metrics", tags=["run"])
        async def metrics() -> Response:
            """Return counts and times in the form of Prometheus."""
            return Response(self.metrics.text(), headers={"content-type": CONTENT_TYPE})

        return routes

    def _parsed(self, kind: type[B], raw: bytes) -> B:
        """Return the body of a request; raise `ValidationError`."""
        return kind.model_validate_json(raw, context=self.limits)

    def _recommend(self, model: ServedModel, asked: Recommend) -> dict[str, Any]:
        """Return recommendations to people."""
        people = [(person.id, person.clicked) for person in asked.people]
        self._check_people(people, asked.k)
        self._check(asked.k, asked.horizon, items=asked.items or (), exclude=asked.exclude)
        rules = None if asked.rules is None else ListRules(**asked.rules.model_dump())
        outside: list[float] | None = None if self.live is None else []
        answer = model.recommend(
            people, asked.k, asked.min_probability, asked.items, asked.exclude, horizon=asked.horizon,
            only=asked.only, never=asked.never, rules=rules, groups=asked.groups, outside=outside,
        )  # fmt: skip
        if self.live is not None and outside is not None:
            for (name, clicked), own, expected in zip(people, answer["people"], outside, strict=True):
                self.live.note(name, own, clicked, answer["horizon"], expected)
        self.metrics.people.inc(len(people))
        return answer

    async def _ask(self, request: Request, work: Callable[[ServedModel], dict[str, Any]]) -> Response:
        """Answer a question in a slot; while it waits, see whether the caller is still there.

        Bodies are parsed, validated and answered there, so that none of it keeps the event loop from other callers.
        """
        model = self.current.get()

        async def hung_up() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        def answered() -> Response:
            try:
                return JsonAnswer(work(model))
            except ValidationError as error:
                raise from_validation(error) from error
            except BmcdError as error:
                raise from_error(error) from error

        return await self.slots.run(answered, self.limits.seconds, hung_up())

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

    def _check_people(self, people: Sequence[tuple[Id | None, Sequence[Id]]], k: int) -> None:
        if len(people) * k > self.limits.recommendations:
            raise Problem(
                422,
                f"{len(people):,} people x k = {k:,} are {len(people) * k:,} recommendations, more than "
                f"{self.limits.recommendations:,}, the limit of one answer. Send several requests.",
            )
        for number, (name, clicked) in enumerate(people):
            self._check_ids(**{f"people.{number}.clicked": clicked, f"people.{number}.id": [name or ""]})

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
