"""The bodies of requests, and what answers look like."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import models_json_schema
from pydantic_core import PydanticCustomError

# An error is made for every field that should not be there, so there may not be many.
MOST_FIELDS = 32


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
K = Annotated[StrictInt, Field(ge=1, description="How many items.")]
Horizon = Annotated[
    StrictInt | None,
    Field(ge=1, description="Of how many next clicks the probability is; as many as k if left out."),
]
MinProbability = Annotated[
    float | None, Field(ge=0, le=1, allow_inf_nan=False, description="Leave out what is less probable.")
]


# Groups by column of the item table, or of a column of numbers the least and the largest.
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
    """Somebody to recommend to: known by what they have clicked."""

    clicked: Ids = Field(description="Items clicked so far, in click order, the latest last; may be empty.")
    id: Id | None = Field(None, description="Given back with the answer; it means nothing to the model.")


class Rules(Body):
    """Rules for every list, about the groups of one column of the item table; see `bmcd.ListRules`."""

    group: StrictStr | None = Field(None, description="The column; by default the first one.")
    at_most: StrictInt | Annotated[dict[str, StrictInt], Field(max_length=1_000)] | None = Field(
        None, description="The largest number of items of each group, or of some groups by name."
    )
    at_least_groups: StrictInt | None = Field(None, description="The least number of groups in a list.")
    shares: Annotated[dict[str, float], Field(max_length=1_000)] | None = Field(
        None, description="The least share of groups, by name."
    )
    worth: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(
        0.0, description="How many expected hits another group in a list is worth."
    )


class Recommend(Body):
    """Who to recommend to, and what."""

    people: Annotated[list[Person], Field(fail_fast=True), _at_most("people")] = Field(min_length=1)
    k: K = 10
    horizon: Horizon = None
    min_probability: MinProbability = None
    items: Ids | None = Field(None, description="Recommend only from these.")
    exclude: Ids = Field(default=[], description="Do not recommend these.")
    only: Groups = Field(default={}, description="Recommend only items of these groups, by column.")
    never: Groups = Field(default={}, description="Recommend no items of these groups, by column.")
    rules: Rules | None = Field(None, description="Rules for every list.")
    groups: bool = Field(False, description="Also give the groups of each item.")


class Explain(Body):
    """A person, by clicks or as a user of the model, and an item they have not clicked."""

    item: Id
    clicked: Ids | None = Field(None, description="What the person has clicked.")
    user: Id | None = Field(None, description="A user of the model instead.")
    k: K = 10
    horizon: Horizon = None


class Invocation(Body):
    """The form of MLflow's scoring server: rows with the columns user and item, one for each click."""

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
        None, description="A date as in 2026-05-01T10:00:00Z, or seconds, ms, us or ns since 1970. Now if left out."
    )
    event: Id | None = Field(None, description="An id of the click: sent again, it is recorded once.")
    answer: Id | None = Field(None, description="The id of the answer that showed the item, if there was one.")


class LiveClicks(Body):
    """Clicks to record, all of them or none."""

    clicks: Annotated[list[LiveClick], Field(fail_fast=True), _at_most("clicks")] = Field(min_length=1)


class Recommendation(BaseModel):
    """One recommended item."""

    item: Id
    title: str | None = None
    rank: int
    probability: float = Field(description="That it is among the person's next clicks, as many as the horizon.")
    mcse: float = Field(description="The Monte Carlo standard error of the probability.")
    groups: dict[str, list[str]] | None = Field(None, description="Its groups by column, if they were asked for.")


class Recommended(BaseModel):
    """The answer for one person."""

    id: Id | None
    recommendations: list[Recommendation]
    unknown_items: Ids = Field(description="Clicked items that the model does not know, and went on without.")
    answer: str | None = Field(None, description="In live use: the id of this answer, for the clicks that follow.")


class UserRecommended(Recommended):
    """The answer for a user of the model."""

    model: str = Field(description="The hash of the model file.")
    k: int
    horizon: int
    clicked: Ids = Field(
        description="What the user has clicked, in the clicks the model was fitted to; in click order, the latest "
        "last, if they have one."
    )


class Recommendations(BaseModel):
    """The answer for all people of a request, in their order."""

    model: str = Field(description="The hash of the model file.")
    k: int
    horizon: int
    people: list[Recommended]
    rules: dict[str, Any] | None = Field(None, description="What the rules cost, over all people of the request.")


class ProblemDetails(BaseModel):
    """What is wrong with a request (RFC 9457)."""

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
