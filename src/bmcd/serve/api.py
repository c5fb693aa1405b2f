"""The addresses that machines ask: recommendations, explanations, items, clusters, the model, reload, health."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from bmcd.errors import BmcdError
from bmcd.serve.current_model import CurrentModel
from bmcd.serve.invocations import answer_rows, people_of
from bmcd.serve.messages import (
    Body,
    Explain,
    Id,
    Invocation,
    MinProbability,
    ProblemDetails,
    Recommend,
    Recommendations,
    UserRecommended,
)
from bmcd.serve.metrics import CONTENT_TYPE, Metrics
from bmcd.serve.problems import JsonAnswer, Problem, from_error
from bmcd.serve.served_model import ServedModel
from bmcd.serve.settings import Limits
from bmcd.serve.slots import Slots
from bmcd.system.text import shown

PROBLEMS: dict[int | str, dict[str, Any]] = {
    422: {"model": ProblemDetails, "description": "The request cannot be answered; the problem says why."},
    429: {"model": ProblemDetails, "description": "Too many wait; Retry-After says when to try again."},
    503: {"model": ProblemDetails, "description": "The model is being made ready."},
}


class UserQuery(Body):
    """What can be asked for a user of the model."""

    k: int = 10
    min_probability: MinProbability = None


class ItemQuery(Body):
    """What can be asked of the items."""

    q: str = ""
    ids: list[str] = Field(default=[])
    limit: int = 20


class Api:
    """The routes, and what they share."""

    def __init__(self, current: CurrentModel, slots: Slots, metrics: Metrics, limits: Limits) -> None:
        self.current, self.slots, self.metrics, self.limits = current, slots, metrics, limits

    def router(self) -> APIRouter:
        """Return the routes."""
        routes = APIRouter()

        @routes.post("/v1/recommend", responses={200: {"model": Recommendations}, **PROBLEMS}, tags=["ask"])
        async def recommend(request: Request, body: Recommend) -> Response:
            """Recommend to people, from what they have clicked.

            The probability is that of being among the person's next k. Items that the model does not know are left
            out and listed.
            """
            return await self._recommend(request, body)

        @routes.get(
            "/v1/users/{user:path}/recommendations",
            responses={200: {"model": UserRecommended}, **PROBLEMS},
            tags=["ask"],
        )
        async def recommend_to_user(request: Request, user: str, query: Annotated[UserQuery, Query()]) -> Response:
            """Recommend to a user of the model, where the model holds the clicks it was fitted to."""
            model = self.current.get()
            self._check(query.k, user=[user])
            own = _own_user(model, user)
            return await self._ask(request, 1, lambda: model.recommend_to_user(own, query.k, query.min_probability))

        @routes.post("/v1/explain", responses=PROBLEMS, tags=["ask"])
        async def explain(request: Request, body: Explain) -> Response:
            """Say why an item has the probability it has: clusters, tastes or models, and what each adds."""
            model = self.current.get()
            self._check(body.k, item=[body.item], clicked=body.clicked or (), user=[body.user or ""])
            if (body.clicked is None) == (body.user is None):
                raise Problem(422, "Give either what the person has clicked, or a user of the model.")
            own = None if body.user is None else _own_user(model, body.user)
            return await self._ask(
                request, 0, lambda: model.explain(body.item, body.k, clicked=body.clicked, own_user=own)
            )

        @routes.post("/invocations", responses=PROBLEMS, tags=["ask"])
        async def invocations(request: Request, body: Invocation) -> Response:
            """Recommend in the form of MLflow's scoring server: clicks in, recommendations out, both as rows."""
            asked, named = people_of(body)
            return await self._recommend(request, asked, lambda answer: answer_rows(answer, named))

        @routes.get("/v1/items", responses=PROBLEMS, tags=["look up"])
        async def items(query: Annotated[ItemQuery, Query()]) -> Response:
            """Search for items by title or id, the most clicked first; or give ids to get their titles."""
            model = self.current.get()
            self._check_number("limit", query.limit, 1_000)
            self._check_ids(q=[query.q], ids=query.ids)
            if query.ids:
                return JsonAnswer({"model": model.hash, "items": model.items_of(query.ids)})
            return JsonAnswer(model.items(query.q, query.limit))

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
            return JsonAnswer(self.current.get().about | {"limits": vars(self.limits)})

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

    async def _recommend(
        self,
        request: Request,
        asked: Recommend,
        formed: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response:
        """Recommend to people, and bring the answer into its form."""
        model = self.current.get()
        people = [(person.id, person.clicked) for person in asked.people]
        self._check_people(people)
        self._check(asked.k, items=asked.items or (), exclude=asked.exclude)
        return await self._ask(
            request,
            len(people),
            lambda: formed(model.recommend(people, asked.k, asked.min_probability, asked.items, asked.exclude)),
        )

    async def _ask(self, request: Request, n_people: int, work: Callable[[], dict[str, Any]]) -> Response:
        """Answer a question in a slot; while it waits, see whether the caller is still there."""

        def answered() -> Response:
            return JsonAnswer(work())  # made into JSON in the slot too

        async def hung_up() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        try:
            answer = await self.slots.run(answered, self.limits.seconds, hung_up())
        except BmcdError as error:
            raise from_error(error) from error
        self.metrics.people.inc(n_people)
        return answer

    def _check_people(self, people: Sequence[tuple[Id | None, Sequence[Id]]]) -> None:
        if len(people) > self.limits.people:
            raise Problem(
                422,
                f"People: {len(people):,} are more than the {self.limits.people:,} of one request. Send several.",
            )
        for number, (name, clicked) in enumerate(people):
            self._check_ids(**{f"people.{number}.clicked": clicked, f"people.{number}.id": [name or ""]})

    def _check(self, k: int, **ids: Sequence[Id]) -> None:
        self._check_number("k", k, self.limits.k)
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
