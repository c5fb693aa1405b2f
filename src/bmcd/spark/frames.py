"""Clicks in Spark frames: ids as in any other log, and one row a user."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bmcd.errors import InputError, InputTypeError
from bmcd.utils import import_optional, listed, shown

WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
# What Python's str.strip takes away, as Java writes it.
BLANKS = r"(?U)^[\s\x1c-\x1f]+|[\s\x1c-\x1f]+$"


def check_frame(frame: Any, user: str, item: str, needed_by: str) -> None:
    """Refuse what is no frame of Spark, and columns that are not there or of another type."""
    sql = import_optional("pyspark.sql", needed_by=needed_by, extra="spark")
    if not isinstance(frame, sql.DataFrame):
        raise InputTypeError(f"{needed_by} takes a frame of Spark, not a {type(frame).__name__}.")
    types = dict(frame.dtypes)
    if user == item:
        raise InputError(f"user and item are both {user!r}; they must be two different columns.")
    for what, name in (("user", user), ("item", item)):
        if name not in types:
            there = listed([shown(column) for column in types])
            raise InputError(f"there is no column {shown(name)} for the {what}: the frame has {there}.")
        if types[name] != "string" and types[name] not in WHOLE_NUMBERS:
            raise InputTypeError(
                f"column {shown(name)} is of type {types[name]}, but ids of a {what} are text or whole "
                f"numbers: cast it, such as with frame.withColumn({name!r}, F.col({name!r}).cast('bigint'))."
            )


def clean_ids(frame: Any, user: str, item: str, *others: Any) -> Any:
    """Return user, item and other columns; ids are freed of blanks, and a row without one is an error when read."""
    return frame.select(_clean(frame, user, "user"), _clean(frame, item, "item"), *others)


def quoted(name: str) -> str:
    """Return the name of a column as SQL takes it, whatever its characters."""
    return "`" + name.replace("`", "``") + "`"


def one_row_a_user(frame: Any, user: str, item: str, partitions: int | None) -> Any:
    """Return user and items, the set of what each user clicked.

    Rows of a user may be anywhere, and Arrow batches cut them anywhere, so they are brought together first. The
    number of partitions is given to Spark by hand: by itself it would put a few megabytes of clicks, hours of work,
    into one.
    """
    from pyspark.sql import functions

    number = partitions or int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    rows = clean_ids(frame, user, item).repartition(number, "user")
    return rows.groupBy("user").agg(functions.collect_set("item").alias("items"))


def one_history_a_user(clicks: Any, partitions: int | None) -> Any:
    """Return user, items and times, in order of time and then of the items, of a frame with user, item and t."""
    from pyspark.sql import functions

    number = partitions or int(clicks.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    pairs = functions.sort_array(functions.collect_list(functions.struct("t", "item")))
    rows = clicks.repartition(number, "user").groupBy("user").agg(pairs.alias("pairs"))
    return rows.select("user", functions.col("pairs.item").alias("items"), functions.col("pairs.t").alias("times"))


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Keep to ourselves that Spark does not know the newest pandas: no frame of pandas goes through it here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _clean(frame: Any, name: str, what: str) -> Any:
    from pyspark.sql import functions

    column, kind = functions.col(quoted(name)), dict(frame.dtypes)[name]
    missing = column.isNull()
    if kind == "string":
        column = functions.regexp_replace(column, BLANKS, "")
        missing |= column == ""
    said = f"a row of the clicks has no {what} (column {name}): leave out such rows, or give them an id."
    refused = functions.raise_error(functions.lit(said)).cast(kind)
    return functions.when(missing, refused).otherwise(column).alias(what)
