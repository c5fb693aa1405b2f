"""Bodies of requests, forms of answers, and problems (RFC 9457) that name field, value and remedy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bmcd.errors import BmcdError
from bmcd.serve.settings import Limits
from bmcd.utils import shown

# Validation makes an error for every unknown field, so their number is limited.
MOST_FIELDS = 32
# MLflow's forms of a request.
FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")
MORE = ("k", "horizon", "min_probability", "items", "exclude", "only", "never", "rules")
TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request too slow",
    409: "Reload failed; the previous model is still in use",
    411: "Length required",
    413: "Request too large",
    415: "JSON required",
    421: "Unknown host",
    422: "Cannot be answered",
    429: "Too many requests",
    431: "Head too large",
    500: "Internal error",
    503: "Not ready",
    504: "Timed out",
    507: "Not recorded",
}
MOST_SHOWN = 20


def _at_most(limit: str) -> BeforeValidator:
    """Refuse a list with more elements than this limit of the service, before any of them is validated."""

    def check(given: Any, info: ValidationInfo) -> Any:
        if info.context is not None and isinstance(given, list) and len(given) > getattr(info.context, limit):
            most = getattr(info.context, limit)
            raise PydanticCustomError(
                "too_many", f"{len(given):,} are more than {most:,}, the limit of one request"
            )
        return given

    return BeforeValidator(check)


def _few_fields(given: Any) -> Any:
    """Refuse an object with many fields, before any of them is validated."""
    if isinstance(given, dict) and len(given) > MOST_FIELDS:
        raise PydanticCustomError("too_many", f"{len(given):,} fields are more than {MOST_FIELDS}, the limit")
    return given


Id = StrictStr | StrictInt
# Validation of a list stops at the first element that is wrong: a megabyte can hold half a million of them.
Ids = Annotated[list[Id], Field(fail_fast=True), _at_most("clicks")]
Rows = Annotated[list[dict[str, Any]], Field(fail_fast=True)]
K = Annotated[StrictInt, Field(ge=1, description="The number of items per list.")]
Horizon = Annotated[
    StrictInt | None, Field(ge=1, description="The number of next clicks that a probability refers to. Default: k.")
]
MinProbability = Annotated[
    float | None, Field(ge=0, le=1, allow_inf_nan=False, description="Leave out less probable items.")
]
# Groups by column of the item table; for a column of numbers the least and the largest.
Groups = Annotated[
    dict[str, Annotated[list[StrictStr | float | None], _at_most("clicks")]], Field(max_length=MOST_FIELDS)
]


class Body(BaseModel):
    """A body that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        return _few_fields(given)


class Person(Body):
    """A person to recommend to, known by their clicks."""

    clicked: Ids = Field(description="Items clicked so far, in click order, the latest last; may be empty.")
    id: Id | None = Field(None, description="Returned with the answer; the model does not use it.")


class Rules(Body):
    """Rules for every list, about the groups of one column of the item table; see `bmcd.ListRules`."""

    group: StrictStr | None = Field(None, description="The column. Default: the first one.")
    at_most: StrictInt | Annotated[dict[str, StrictInt], Field(max_length=1_000)] | None = Field(
        None, description="Maximum number of items of each group, or of some groups by name."
    )
    at_least_groups: StrictInt | None = Field(None, description="Minimum number of groups in a list.")
    shares: Annotated[dict[str, float], Field(max_length=1_000)] | None = Field(
        None, description="Minimum share of groups, by name."
    )
    worth: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="Expected hits that one more group in a list is worth."
    )


class Wanted(Body):
    """What a list is to have in it."""

    k: K = 10
    horizon: Horizon = None
    min_probability: MinProbability = None
    only: Groups = Field(default={}, description="Recommend only items of these groups, by column.")
    never: Groups = Field(default={}, description="Recommend no items of these groups, by column.")
    groups: bool = Field(False, description="Also return the groups of each item.")


class Recommend(Wanted):
    """People to recommend to, and what lists they want."""

    people: Annotated[list[Person], Field(fail_fast=True), _at_most("people")] = Field(min_length=1)
    items: Ids | None = Field(None, description="Recommend only these.")
    exclude: Ids = Field(default=[], description="Do not recommend these.")
    rules: Rules | None = Field(None, description="Rules for every list.")


class Explain(Body):
    """A person, given by clicks or as a user of the model, and an item they have not clicked."""

    item: Id
    clicked: Ids | None = Field(None, description="The items the person has clicked.")
    user: Id | None = Field(None, description="A user of the model instead.")
    k: K = 10
    horizon: Horizon = None


class Invocation(Body):
    """The form of MLflow's scoring server: columns user and item, one row per click."""

    dataframe_split: dict[str, Any] | None = None
    dataframe_records: Rows | None = None
    instances: Rows | None = None
    inputs: Rows | Annotated[dict[str, list[Any]], BeforeValidator(_few_fields)] | None = None
    params: dict[str, Any] = Field(
        default={}, description="k, horizon, min_probability, items, exclude, only, never, rules."
    )


class LiveClick(Body):
    """A click to record."""

    user: Id
    item: Id
    time: StrictInt | StrictFloat | StrictStr | None = Field(
        None, description="A date as in 2026-05-01T10:00:00Z, or seconds, ms, us or ns since 1970. Default: now."
    )
    event: Id | None = Field(None, description="An id of the click; a click that is sent twice is recorded once.")
    answer: Id | None = Field(None, description="The id of the answer that showed the item, if any.")


class LiveClicks(Body):
    """Clicks to record, all of them or none."""

    clicks: Annotated[list[LiveClick], Field(fail_fast=True), _at_most("clicks")] = Field(min_length=1)


class Recommendation(BaseModel):
    """One recommended item."""

    item: Id
    title: str | None = None
    rank: int
    probability: float = Field(
        description="The probability that it is among the person's next clicks, as many as the horizon."
    )
    mcse: float = Field(description="The Monte Carlo standard error of the probability.")
    groups: dict[str, list[str]] | None = Field(None, description="Its groups by column, if requested.")


class Recommended(BaseModel):
    """The answer for one person."""

    id: Id | None
    recommendations: list[Recommendation]
    unknown_items: Ids = Field(description="Clicked items that the model does not know; they are ignored.")
    answer: str | None = Field(None, description="In live use: the id of this answer, for the clicks that follow.")


class UserRecommended(Recommended):
    """The answer for a user of the model."""

    model: str = Field(description="The hash of the model file.")
    k: int
    horizon: int
    clicked: Ids = Field(
        description="The user's clicks that the model was fitted to, in click order, if they have one; latest last."
    )


class Recommendations(BaseModel):
    """The answer for all people of a request, in their order."""

    model: str = Field(description="The hash of the model file.")
    k: int
    horizon: int
    people: list[Recommended]
    rules: dict[str, Any] | None = Field(None, description="What the rules cost, over all people of the request.")


class ProblemDetails(BaseModel):
    """A problem with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None


def body_schemas() -> dict[str, Any]:
    """Return the schemas of all bodies, as the components of an OpenAPI description have them."""
    kinds: list[tuple[type[BaseModel], Any]] = [
        (kind, "validation") for kind in (Recommend, Explain, Invocation, LiveClicks)
    ]
    schemas: dict[str, Any] = models_json_schema(kinds, ref_template="#/components/schemas/{model}")[1]["$defs"]
    return schemas


class Problem(Exception):
    """An error that is sent to the caller as problem+json; ``retry``: after how many seconds to try again."""

    def __init__(
        self, status: int, detail: str, *, retry: int | None = None, headers: Mapping[str, str] | None = None,
        errors: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        super().__init__(detail)
        self.status, self.detail, self.headers, self.errors = status, detail, dict(headers or {}), tuple(errors)
        if retry is not None:
            self.headers["Retry-After"] = str(retry)

    def response(self) -> Response:
        """Return it as problem+json."""
        title = TITLES.get(self.status, "Error")
        content = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        content |= {"errors": list(self.errors)} if self.errors else {}
        return JsonAnswer(content, self.status, self.headers, "application/problem+json")


class JsonAnswer(Response):
    """A value as JSON in ASCII, so that every id can be written; numbers keep their last digit."""

    def __init__(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:  # fmt: skip
        body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        super().__init__(body, status, headers, media_type)


def from_error(error: BmcdError) -> Problem:
    """Return an error of the package as a problem."""
    text = str(error)
    return Problem(422, text[:1].upper() + text[1:])


def from_http(error: HTTPException) -> Problem:
    """Return an error of the framework as a problem."""
    details = {
        404: "There is nothing at this address. See /docs for the addresses.",
        405: "This address does not accept this method. See /docs for its methods.",
        400: "The body cannot be read as JSON: it must be UTF-8, complete, and not nested too deeply.",
    }
    return Problem(error.status_code, details.get(error.status_code, str(error.detail)), headers=error.headers)


def from_validation(error: RequestValidationError | ValidationError) -> Problem:
    """Return invalid fields of a request as a problem: the place and value of each, and what is expected."""
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        return Problem(400, f"The body is not JSON: {errors[0]['ctx']['error']}.")
    if isinstance(error, ValidationError):  # of a body
        errors = [{**one, "loc": ("body", *one["loc"])} for one in errors]
    found = [_field(one) for one in _distinct(errors)]
    more = f" Fields with further errors: {len(found) - 1}." if len(found) > 1 else ""
    return Problem(422, f"{found[0]['field']}: {found[0]['wrong']}.{more}", errors=found[:MOST_SHOWN])


def _distinct(errors: Iterable[Any]) -> list[Any]:
    """Keep one error for each place: those of a union (text or whole number) come as several."""
    kept: dict[tuple[Any, ...], Any] = {}
    for error in errors:
        place = tuple(part for part in error["loc"] if part not in ("str", "int"))
        kept.setdefault(place, {**error, "loc": place, "union": False})["union"] |= place != tuple(error["loc"])
    return list(kept.values())


def _field(error: Mapping[str, Any]) -> dict[str, Any]:
    where, *path = error["loc"] or ("body",)
    name = (".".join(map(str, path)).replace(".[", "[") if path else str(where))[:200]
    kind, wrong = error["type"], str(error["msg"]).removeprefix("Value error, ")
    if kind == "missing":
        return {"field": name, "wrong": "is missing"}
    if kind == "too_many" and not error["union"]:  # the value itself is too long to show
        return {"field": name, "wrong": wrong}
    if kind == "extra_forbidden":
        wrong = "there is no such field; see /docs for the fields"
    elif error["union"] and "type" in kind:
        wrong = "an id must be text or a whole number"
    return {"field": name, "value": shown(error.get("input")), "wrong": wrong[:1].lower() + wrong[1:]}


def people_of(body: Invocation, limits: Limits) -> tuple[Recommend, bool]:
    """Return the people in rows with the columns user and item, and whether the rows have a user.

    Rows without a user are the clicks of one person. A row without an item is a person without clicks.
    """
    given = [name for name in FORMS if getattr(body, name) is not None]
    if len(given) != 1:
        raise Problem(422, f"Give the clicks in one of {', '.join(FORMS)}; {len(given)} were given.")
    if strange := [name for name in body.params if name not in MORE]:
        raise Problem(422, f"params: there is no {shown(strange[0])}; there are {', '.join(MORE)}.")
    users, items = _columns(given[0], getattr(body, given[0]))
    clicked: dict[Any, list[Any]] = {}
    for row, (user, item) in enumerate(zip(users or [None] * len(items), items, strict=True)):
        for name, value in (("user", user), ("item", item)):
            if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
                raise Problem(
                    422, f"{given[0]}, row {row}: the {name} must be text or a whole number: {shown(value)}."
                )
        clicked.setdefault(user, []).extend([] if item is None else [item])
    people = [{"id": user, "clicked": own} for user, own in clicked.items()]
    return Recommend.model_validate({"people": people, **body.params}, context=limits), users is not None


def answer_rows(answer: dict[str, Any], named: bool) -> dict[str, Any]:
    """Return recommendations as MLflow's scoring server would: a list of rows."""
    rows = [
        ({"user": person["id"]} if named else {}) | recommendation
        for person in answer["people"]
        for recommendation in person["recommendations"]
    ]
    return {"predictions": rows, "model": answer["model"]}


def _columns(form: str, rows: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return the columns user, if it is there, and item."""
    if form == "dataframe_split":
        columns, data = rows.get("columns"), rows.get("data")
        if not isinstance(columns, list) or not isinstance(data, list) or set(rows) - {"columns", "data", "index"}:
            raise Problem(422, 'dataframe_split must be {"columns": [...], "data": [[...], ...]}.')
        if bad := [row for row in data if not isinstance(row, list) or len(row) != len(columns)]:
            raise Problem(422, f"dataframe_split: a row does not have {len(columns)} values: {shown(bad[0])}.")
        rows = {name: [row[place] for row in data] for place, name in enumerate(columns) if isinstance(name, str)}
    if isinstance(rows, Mapping):
        columns = rows
    else:
        columns = {name: [row.get(name) for row in rows] for name in set(chain.from_iterable(rows))}
    if "item" not in columns or set(columns) - {"user", "item"}:
        names = shown(sorted(columns))
        raise Problem(422, f"{form}: the columns must be item and, for several people, user: {names}.")
    users, items = columns.get("user"), columns["item"]
    if users is not None and len(users) != len(items):
        raise Problem(422, f"{form}: there are {len(users)} users but {len(items)} items. Give one per click.")
    return users, items
