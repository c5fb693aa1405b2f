"""recommend: clicks in a Spark frame in, recommendations in a Spark frame out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from bmcd.errors import InputError, InputTypeError
from bmcd.inference.draws import MaxDraws
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, load_model, sampled_models
from bmcd.models.top_k import check_k
from bmcd.spark.counting import with_times
from bmcd.spark.frames import check_frame, one_history_a_user, one_row_a_user, without_pandas_warning
from bmcd.spark.shipping import check_workers, on_worker, ship_model
from bmcd.utils import shown


def recommend(
    frame: Any,
    model: str | Path,
    k: int = 10,
    *,
    user: str = "user",
    item: str = "item",
    time_column: str | None = None,
    items: Iterable[Any] | None = None,
    min_probability: float | None = None,
    unknown: Literal["error", "ignore"] = "error",
    max_draws: MaxDraws = "auto",
    partitions: int | None = None,
) -> Any:
    """Return a lazy Spark frame of recommendations for everybody who has clicks in a Spark frame.

    Its columns are user, item, title (if the model has titles), rank, probability and mcse, as `recommend_for` of
    the model gives them for the same clicks, to the last digit, whatever the partitions. Nothing runs before the
    frame is used, but for a question to the workers, once in a session, whether they have the packages.
    It runs in the session of ``frame``, whose workers need bmcd.

    Parameters
    ----------
    frame
        One row per click; further columns are ignored. Repeated clicks count where the model uses order, once
        where it does not.
    model
        A model file, of any model that serves people it has not seen. It is sent to the executors once, without the
        users it was fitted to, and opened once in each of their Python processes.
    user, item
        The columns of ``frame``: text or whole numbers; items of the type that the model has.
    time_column
        The column of the times, for a model that uses the order of the clicks; by default "time", if there is one.
        Each user's clicks are put in order and cut into sessions, of which the last one is running.
    items, min_probability, unknown, max_draws
        As in `recommend_for`. With unknown="error" clicks on items that the model does not know stop the job.
    partitions
        Into how many tasks the users are divided; by default as many as spark.sql.shuffle.partitions says. A few
        for each core are best.

    Examples
    --------
    ::

        clicks = spark.read.parquet("clicks.parquet")
        bmcd.spark.recommend(clicks, "model.bmcd", k=10).write.parquet("recommendations.parquet")
    """
    check_frame(frame, user, item, "bmcd.spark.recommend")
    opened, k = load_model(model), check_k(k)
    wanted = None if items is None else list(items)
    if unknown not in ("error", "ignore"):
        raise InputError(f"unknown must be 'error' or 'ignore', but it is {unknown!r}.")
    if min_probability is not None and not 0 <= min_probability <= 1:
        raise InputError(f"min_probability must lie between 0 and 1, but it is {min_probability!r}.")
    if wanted is not None:
        opened.clicks_.columns_of(wanted, "The model can recommend only items it was fitted to.")
    _check_strangers(opened, model)
    kind = _item_type(opened, dict(frame.dtypes)[item], item)
    options = {"items": wanted, "min_probability": min_probability, "unknown": unknown}
    options |= {} if max_draws == "auto" else {"max_draws": max_draws}
    if opened.clicks_.order is None:
        rows = one_row_a_user(frame, user, item, partitions)
    else:
        if time_column is None and "time" not in frame.columns:
            raise InputError(
                "the model uses the order of the clicks: name the column of their times, time_column=, or call "
                "recommend_for on one machine with histories in click order."
            )
        rows = one_history_a_user(with_times(frame, user, item, time_column or "time"), partitions)
    title = "title string, " if opened.clicks_.titles is not None else ""
    schema = f"user {dict(rows.dtypes)['user']}, item {kind}, {title}rank bigint, probability double, mcse double"
    check_workers(frame.sparkSession)
    name = ship_model(frame.sparkSession, opened)
    with without_pandas_warning():
        return rows.mapInArrow(on_worker("scoring", "score", name=name, k=k, options=options), schema)


def _check_strangers(model: Model, path: str | Path) -> None:
    for part in sampled_models(model).values():
        if isinstance(part, BMCD) and part.distance != "footrule":
            raise InputError(
                f"{path} has the distance {part.distance!r}; only models with the footrule can serve people from "
                "their clicks alone."
            )


def _item_type(model: Model, given: str, column: str) -> str:
    """Return the type that Spark has for the items of a model, or an error if the clicks have another."""
    ids = model.clicks_.items
    kind = "bigint" if ids.dtype != object else "string"
    if kind == "string" and not all(isinstance(own, str) for own in ids.tolist()):
        strange = next(own for own in ids.tolist() if not isinstance(own, str))
        raise InputTypeError(
            f"on Spark items are text or whole numbers, but this model has the item {shown(strange)}."
        )
    if (given == "string") != (kind == "string"):
        raise InputTypeError(
            f"the items of the model are {'text' if kind == 'string' else 'whole numbers'}, such as "
            f"{shown(ids[0])}, but the column {column!r} is of type {given}: cast it, such as with "
            f"frame.withColumn({column!r}, F.col({column!r}).cast({kind!r}))."
        )
    return kind
