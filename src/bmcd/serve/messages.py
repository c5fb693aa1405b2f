"""The bodies of requests, and what answers look like."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

Id = StrictStr | StrictInt
Ids = list[Id]
K = Annotated[StrictInt, Field(ge=1, description="How many items, and of how many next clicks the probability is.")]
MinProbability = Annotated[
    float | None, Field(ge=0, le=1, allow_inf_nan=False, description="Leave out what is less probable.")
]


class Body(BaseModel):
    """A body that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid")


class Person(Body):
    """Somebody to recommend to: known by what they have clicked."""

    clicked: Ids = Field(description="Items clicked so far, the latest last; may be empty.")
    id: Id | None = Field(None, description="Given back with the answer; it means nothing to the model.")


class Recommend(Body):
    """Who to recommend to, and what."""

    people: list[Person] = Field(min_length=1)
    k: K = 10
    min_probability: MinProbability = None
    items: Ids | None = Field(None, description="Recommend only from these.")
    exclude: Ids = Field(default=[], description="Do not recommend these.")


class Explain(Body):
    """A person, by clicks or as a user of the model, and an item they have not clicked."""

    item: Id
    clicked: Ids | None = Field(None, description="What the person has clicked.")
    user: Id | None = Field(None, description="A user of the model instead.")
    k: K = 10


class Invocation(Body):
    """The form of MLflow's scoring server: rows with the columns user and item, one for each click."""

    dataframe_split: dict[str, Any] | None = None
    dataframe_records: list[dict[str, Any]] | None = None
    instances: list[dict[str, Any]] | None = None
    inputs: list[dict[str, Any]] | dict[str, list[Any]] | None = None
    params: dict[str, Any] = Field(default={}, description="k, min_probability, items, exclude.")


class Recommendation(BaseModel):
    """One recommended item."""

    item: Id
    title: str | None = None
    rank: int
    probability: float = Field(description="That it is among the person's next k.")
    mcse: float = Field(description="The Monte Carlo standard error of the probability.")


class Recommended(BaseModel):
    """The answer for one person."""

    id: Id | None
    recommendations: list[Recommendation]
    unknown_items: Ids = Field(description="Clicked items that the model does not know, and went on without.")


class UserRecommended(Recommended):
    """The answer for a user of the model."""

    model: str = Field(description="The hash of the model file.")
    k: int
    clicked: Ids = Field(description="What the user has clicked, in the clicks the model was fitted to.")


class Recommendations(BaseModel):
    """The answer for all people of a request, in their order."""

    model: str = Field(description="The hash of the model file.")
    k: int
    people: list[Recommended]


class ProblemDetails(BaseModel):
    """What is wrong with a request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] | None = None
