"""Clicks in Spark frames: ids and times as in any other log; and what a blend counts, as SQL aggregations."""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.baselines.counting import HOUR
from bmcd.baselines.session_knn import MOST_KEPT, SessionKNN, latest_sessions
from bmcd.blend.features import (
    FAR,
    MEMORY,
    NEAR,
    Settings,
    kept_of,
    longest_memory,
    most_counted,
    typical_volumes,
)
from bmcd.blend.moments import SPREAD_OVER
from bmcd.clicks.ids import id_ranks, objects
from bmcd.clicks.times import SESSION_GAP, BadTimeError, to_clock
from bmcd.errors import ClicksError, InputError, InputTypeError
from bmcd.utils import Floats, import_optional, listed, shown

Ints = NDArray[np.int64]
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
# What Python's str.strip takes away, as Java writes it.
BLANKS = r"(?U)^[\s\x1c-\x1f]+|[\s\x1c-\x1f]+$"


# What pairs of items are counted by: gaps of one click, of several, of many, and memory of what occurred together.
KINDS = ("one", "several", "far", "together")


class _Lazy:
    """A module that is imported when it is first used: bmcd works without Spark."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


sql: Any = _Lazy("pyspark.sql")
f: Any = _Lazy("pyspark.sql.functions")


def check_frame(frame: Any, user: str, item: str, needed_by: str) -> None:
    """Raise an error unless it is a Spark frame with these columns, and they hold text or whole numbers."""
    import_optional("pyspark.sql", needed_by=needed_by, extra="spark")
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
    """Return user, item and other columns; whitespace around ids is stripped; a row without an id is an error."""
    return frame.select(_clean(frame, user, "user"), _clean(frame, item, "item"), *others)


def quoted(name: str) -> str:
    """Return the name of a column as SQL takes it, whatever its characters."""
    return "`" + name.replace("`", "``") + "`"


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Ignore Spark's warning about the newest pandas: it is given no frames of pandas here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        yield


def _clean(frame: Any, name: str, what: str) -> Any:
    column, kind = f.col(quoted(name)), dict(frame.dtypes)[name]
    missing = column.isNull()
    if kind == "string":
        column = f.regexp_replace(column, BLANKS, "")
        missing |= column == ""
    said = f"a row of the clicks has no {what} (column {name}): leave out such rows, or give them an id."
    refused = f.raise_error(f.lit(said)).cast(kind)
    return f.when(missing, refused).otherwise(column).alias(what)


def with_times(frame: Any, user: str, item: str, time_column: str) -> Any:
    """Return the columns user, item and t, microseconds since 1970; the same click at the same time once."""
    types = dict(frame.dtypes)
    if time_column not in types:
        there = listed([shown(column) for column in types])
        raise InputError(f"there is no column {shown(time_column)} for the times: the frame has {there}.")
    kind, column = types[time_column], f.col(quoted(time_column))
    if kind == "timestamp":
        micro = f.unix_micros(column)
    elif kind == "timestamp_ntz":
        micro = f.expr(f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {quoted(time_column)})")
    elif kind in (*WHOLE_NUMBERS, "double", "float"):
        micro = _micro_of_numbers(frame, time_column, column)
    else:
        raise InputTypeError(
            f"column {shown(time_column)} is of type {kind}, but times are timestamps, or numbers since 1970: cast "
            f"it, such as with frame.withColumn({time_column!r}, F.to_timestamp({time_column!r}))."
        )
    said = f"a row of the clicks has no time (column {time_column}): leave out such rows, or give them a time."
    t = f.when(column.isNull(), f.raise_error(f.lit(said)).cast("bigint")).otherwise(micro).alias("t")
    return clean_ids(frame, user, item, t).distinct()


def _micro_of_numbers(frame: Any, name: str, column: Any) -> Any:
    """Return numbers as microseconds: seconds, ms, us or ns since 1970 by their size, all of one unit."""
    ends = frame.agg(f.min(column).alias("low"), f.max(column).alias("high")).collect()[0]
    if ends["low"] is None:
        return column.cast("bigint")
    try:
        found = to_clock(np.array([ends["low"], ends["high"]]))
    except BadTimeError as error:
        raise ClicksError(f"column {name}: {error.reason}") from None
    if found.dtype.kind != "M":
        raise ClicksError(
            f"column {name}: times such as {ends['low']} are not points in time. On Spark a blend needs seconds, "
            "ms, us or ns since 1970, or timestamps."
        )
    largest = abs(float(ends["high"]))
    if isinstance(ends["low"], float):
        factor = 1e6 if largest < 1e11 else 1e3 if largest < 1e14 else 1.0 if largest < 1e17 else 1e-3
        return f.rint(column * f.lit(factor)).cast("bigint")
    if largest >= 1e17:
        return f.floor(column.cast("bigint") / f.lit(1000)).cast("bigint")
    return column.cast("bigint") * f.lit(1_000_000 if largest < 1e11 else 1_000 if largest < 1e14 else 1)


def numbered(column: Any) -> tuple[NDArray[Any], Ints]:
    """Return the distinct ids of an Arrow column in order of appearance, and the number of each row's id."""
    codes = column.combine_chunks().dictionary_encode()
    ids = codes.dictionary.to_pylist()
    return objects(ids) if ids and isinstance(ids[0], str) else np.array(ids, np.int64), codes.indices.to_numpy()


def arrays_of(frame: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a Spark frame of numbers."""
    table = frame.toArrow()
    return {name: table.column(name).to_numpy() for name in table.column_names}


class SparkLog:
    """The clicks of a frame in order, numbered as `Clicks` numbers them, and what is counted of them at cuts.

    Everything that grows with the clicks stays in the caller's session. The driver gets what grows with the items:
    counts, the largest entries of each row, the latest sessions of each item; and the clicks of some users.
    """

    def __init__(self, frame: Any, user: str, item: str, time_column: str) -> None:
        self.session = frame.sparkSession
        self._kept: list[Any] = []
        try:
            self.clicks = self.keep(with_times(frame, user, item, time_column))
            found = self.clicks.agg(f.count("*").alias("n"), f.min("t").alias("low"), f.max("t").alias("high"))
            self.n, low, high = found.collect()[0]
            if not self.n:
                raise ClicksError("there are no rows, so there are no clicks to fit.")
            self.begin, self.end = int(low), int(high) + 1
            self.items = self._number_items()
            self.events = self.keep(self._ordered())
        except BaseException:
            self.close()
            raise

    def keep(self, frame: Any) -> Any:
        """Let the executors keep a frame until `close`."""
        self._kept.append(frame.persist())
        return frame

    def close(self) -> None:
        """Release what the executors keep."""
        for frame in self._kept:
            frame.unpersist()
        self._kept = []

    def _number_items(self) -> NDArray[Any]:
        """Number the items by first click and id; return their ids."""
        found = self.clicks.groupBy("item").agg(f.min("t").alias("first")).toArrow()
        ids, _ = numbered(found.column("item"))
        first = found.column("first").to_numpy()
        ranks = id_ranks(ids)
        order = np.lexsort((ranks, first))
        self.first_click = first[order].astype(np.int64)
        self.n_items = len(order)
        self._numbers = self.table(
            item=found.column("item").take(order), item_rank=ranks[order], number=np.arange(len(order)),
            first=self.first_click,
        )  # fmt: skip
        return ids[order]

    def table(self, **columns: Any) -> Any:
        """Return a frame of columns of the driver, to be sent to all executors in joins."""
        import pyarrow as pa

        return f.broadcast(self.session.createDataFrame(pa.table(columns)))

    def _ordered(self) -> Any:
        """Return the clicks of each user: place, session, whether first on the item, newer clicks on the item."""
        by_user = sql.Window.partitionBy("user").orderBy("t", "item_rank")
        same = sql.Window.partitionBy("user", "number").orderBy("t")
        known = self.clicks.join(self._numbers, "item").select("user", "number", "item_rank", "t", "first")
        begins = f.coalesce((f.col("t") - f.lag("t").over(by_user) > SESSION_GAP).cast("int"), f.lit(0))
        known = known.select(
            "*", begins.alias("begins"), f.row_number().over(by_user).alias("place"),
            f.min("t").over(sql.Window.partitionBy("user")).alias("user_first"),
            (f.row_number().over(same) == 1).alias("is_first"),
        )  # fmt: skip
        known = known.withColumn("session", f.sum("begins").over(by_user))
        # Of clicks at the same time those of the user who came later are newer, as where sessions are numbered.
        down = [f.col(name).desc() for name in ("t", "user_first", "user", "place")]
        newest = sql.Window.partitionBy("number").orderBy(*down)
        known = known.withColumn("newer", f.row_number().over(newest) - 1).drop("begins", "item_rank")
        return known.repartition("user")

    def time_at(self, share: float) -> int:
        """Return the time of the click that has this share of the clicks before it."""
        place = min(int(share * self.n), self.n - 1)
        hour = f.floor(f.col("t") / f.lit(HOUR)).cast("bigint").alias("hour")
        counts = sorted((r["hour"], r["count"]) for r in self.clicks.groupBy(hour).count().collect())
        for number, n in counts:
            if place < n:
                inside = self.clicks.where(f.col("t").between(number * HOUR, (number + 1) * HOUR - 1))
                times = sorted((r["t"], r["count"]) for r in inside.groupBy("t").count().collect())
                for t, m in times:
                    if place < m:
                        return int(t)
                    place -= m
            place -= n
        raise AssertionError("the counts of all hours are those of the log")

    def n_between(self, ends: Sequence[tuple[int, int]]) -> list[int]:
        """Return the number of clicks from each begin to before each end."""
        t = f.col("t")
        found = self.clicks.agg(*[f.count(f.when((t >= a) & (t < b), 1)) for a, b in ends]).collect()[0]
        return [int(n) for n in found]

    def of_users(self, chosen: Any) -> Any:
        """Return the clicks of some users as an Arrow table, the users in the order of their first click."""
        columns = ("user", "user_first", "number", "t", "place")
        return self.events.join(chosen, "user", "left_semi").select(*columns).toArrow()


class CountsAtCuts:
    """Counts of everything before some cuts; all cuts are counted in one job, when the first is asked for."""

    def __init__(self, log: SparkLog, settings: Settings, ends: Sequence[int], hours: Sequence[float]) -> None:
        self.log, self.settings, self.ends, self.hours = log, settings, list(ends), list(hours)

    def at(self, cut: int) -> CutCounts:
        """Return the counts before one cut."""
        return CutCounts(self, cut)

    def _exploded(self, limit: float, only: int | None = None) -> Any:
        """Return the clicks of the last hours before each cut (or one), with the number of the cut and the age."""
        latest = self.log.end - 1
        cuts = f.array(
            *[
                f.struct(f.lit(c).alias("cut"), f.lit(end).alias("end"), f.lit(float(hours)).alias("hours"))
                for c, (end, hours) in enumerate(zip(self.ends, self.hours, strict=True))
                if only is None or c == only
            ]
        )
        old = (f.lit(latest) - f.col("t")) / f.lit(float(HOUR))

        def is_in(cut: Any) -> Any:
            return (f.col("t") < cut["end"]) & (old - cut["hours"] <= f.lit(limit))

        rows = self.log.events.withColumn("of", f.explode(f.filter(cuts, is_in)))
        return rows.withColumn("cut", f.col("of.cut")).withColumn("age", old - f.col("of.hours")).drop("of")

    @cached_property
    def popularity(self) -> list[dict[str, Any]]:
        """Return, for each cut: counts of each half-life, clicks and the oldest age, and the counts of EASE."""
        own = self.settings
        sums = [f.sum(_decay(half)).alias(f"half{h}") for h, half in enumerate(own.half_lives)]
        fading = f.sum(f.when(f.col("age") <= own.window, _decay(own.fading)).otherwise(0.0)).alias("fading")
        rows = self._exploded(longest_memory(own)).groupBy("cut", "number")
        arrays = arrays_of(rows.agg(*sums, fading, f.count("*").alias("n"), f.max("age").alias("oldest")))
        found = []
        for cut in range(len(self.ends)):
            here = arrays["cut"] == cut

            def full(name: str, here: Any = here) -> Floats:
                counts = np.zeros(self.log.n_items)
                counts[arrays["number"][here]] = arrays[name][here]
                return counts

            counts = [full(f"half{h}") for h in range(len(own.half_lives))]
            n, oldest = int(arrays["n"][here].sum()), float(arrays["oldest"][here].max(initial=0.0))
            found.append({"counts": counts, "n": n, "oldest": oldest, "fading": full("fading")})
        return found

    @cached_property
    def pairs(self) -> Any:
        """Return a frame with what follows what and what occurs together: cut, row, column and the counts."""
        rows = self._exploded(self.settings.window).join(self._newer_than_cuts(), ["cut", "number"], "left")
        newer = f.col("newer") - f.coalesce(f.col("after"), f.lit(0))
        rows = rows.select(
            "cut", "user", "session", "place", "number", "t", _decay(self.settings.fading).alias("weight"),
            f.pow(f.lit(0.5 ** (1.0 / MEMORY)), newer).alias("memory"),
        )  # fmt: skip
        inside = sql.Window.partitionBy("cut", "user", "session").orderBy("place")
        before = inside.rowsBetween(-FAR, -1)
        seen = f.collect_list(f.struct("place", "number", "t", "memory")).over(before)
        rows = rows.withColumn("seen", seen).withColumn("earlier", f.explode("seen")).drop("seen")
        rows = rows.where((f.col("earlier.number") != f.col("number")) & (f.col("earlier.t") != f.col("t")))
        gap, none = f.col("place") - f.col("earlier.place"), f.lit(0.0)
        near = gap <= NEAR
        there = f.struct(
            f.col("earlier.number").alias("row"), f.col("number").alias("column"),
            f.when(gap == 1, f.col("weight")).otherwise(none).alias("one"),
            f.when(near, f.col("weight") / gap).otherwise(none).alias("several"), f.col("weight").alias("far"),
            f.when(near, f.col("earlier.memory")).otherwise(none).alias("together"),
        )  # fmt: skip
        back = f.struct(
            f.col("number").alias("row"), f.col("earlier.number").alias("column"), none.alias("one"),
            none.alias("several"), none.alias("far"), f.col("memory").alias("together"),
        )  # fmt: skip
        both = f.when(near, f.array(there, back)).otherwise(f.array(there))
        rows = rows.select("cut", f.inline(both)).groupBy("cut", "row", "column")
        counts = rows.agg(*[f.sum(kind).cast("float").alias(kind) for kind in KINDS])
        return self.log.keep(counts.repartition("cut", "row"))

    @cached_property
    def totals(self) -> dict[str, NDArray[Any]]:
        """Return the sums of the counts of each cut and row."""
        sums = [f.sum(f.col(kind).cast("double")).alias(kind) for kind in KINDS]
        return arrays_of(self.pairs.groupBy("cut", "row").agg(*sums))

    def largest(self, cut: int, kind: str) -> dict[str, NDArray[Any]]:
        """Return the largest counts of each row before one cut: row, column and count."""
        inside = self.pairs.where((f.col("cut") == cut) & (f.col(kind) > 0))
        order = sql.Window.partitionBy("cut", "row").orderBy(f.col(kind).desc(), "column")
        ranked = inside.select("row", "column", kind, f.row_number().over(order).alias("rank"))
        return arrays_of(ranked.where(f.col("rank") <= kept_of(self.log.n_items)).drop("rank"))

    def _newer_than_cuts(self) -> Any:
        """Return how many clicks on each item came after each cut."""
        after = [f.count(f.when(f.col("t") >= end, 1)).alias(str(c)) for c, end in enumerate(self.ends)]
        numbers, *columns = arrays_of(self.log.events.groupBy("number").agg(*after)).values()
        counts = np.stack(columns)
        cut, at = np.nonzero(counts)
        return self.log.table(cut=cut.astype(np.int32), number=numbers[at], after=counts[cut, at])

    def sessions(self, cut: int) -> Any:
        """Return the arrays of SessionKNN before one cut."""
        key = ("user", "session")
        rows = self._exploded(self.settings.window, cut).select(*key, "user_first", "number", "t", "place")
        last = f.max("t").over(sql.Window.partitionBy(*key)).alias("last")
        rows = (
            rows.select("*", last).groupBy(*key, "user_first", "last", "number").agg(f.max("place").alias("place"))
        )
        here = sql.Window.partitionBy(*key)
        rows = rows.withColumn("rank", f.row_number().over(here.orderBy(f.col("place").desc())))
        rows = rows.where(f.col("rank") <= MOST_KEPT).withColumn("length", f.max("rank").over(here))
        rows = rows.where(f.col("length") >= 2)
        order = [f.col(name).desc() for name in ("last", "user_first", "user", "session")]
        candidates = SessionKNN().candidates
        latest = f.row_number().over(sql.Window.partitionBy("number").orderBy(*order)) <= candidates
        rows = rows.withColumn("found", latest).withColumn("used", f.max("found").over(here))
        table = rows.where("used").select(*key, "user_first", "last", "number", "rank").toArrow()
        ids, codes = numbered(table.column("user"))
        own = {name: table.column(name).to_numpy() for name in table.column_names if name != "user"}
        own["user"] = id_ranks(ids)[codes]
        by = np.lexsort([own[name] for name in ("rank", "session", "user", "user_first", "last")])
        begins = np.flatnonzero(own["rank"][by] == 1)
        starts = np.concatenate((begins, [len(by)])).astype(np.int64)
        return _session_arrays(starts, own["number"][by].astype(np.int32), self.log.n_items)

    @cached_property
    def gram(self) -> list[tuple[Ints, Floats]]:
        """Return, for each cut, the most clicked items and the number of sessions that have each two of them."""
        tops = [most_counted(one["fading"], self.settings.most_clicked) for one in self.popularity]
        cuts = np.repeat(np.arange(len(tops), dtype=np.int32), [len(top) for top in tops])
        places = np.concatenate([np.arange(len(top), dtype=np.int32) for top in tops])
        top = self.log.table(cut=cuts, number=np.concatenate(tops), column=places)
        key = ["cut", "user", "session"]
        rows = self._exploded(self.settings.window).join(top, ["cut", "number"]).select(*key, "column").distinct()
        lists = rows.groupBy(*key).agg(f.sort_array(f.collect_list("column")).alias("columns"))
        pairs = lists.select("cut", "columns", f.explode("columns").alias("i"))
        pairs = pairs.select("cut", "i", f.explode("columns").alias("j")).where("i <= j")
        cut, i, j, n = arrays_of(pairs.groupBy("cut", "i", "j").count()).values()
        found = []
        for c, own in enumerate(tops):
            gram, here = np.zeros((len(own), len(own))), cut == c
            gram[i[here], j[here]] = gram[j[here], i[here]] = n[here]
            found.append((own, gram))
        return found

    def shares_outside(self, refresh_hours: float) -> list[float]:
        """Return, for each cut, what `moments.share_outside` does."""
        length = max(int(refresh_hours * HOUR), 1)
        window, t = max(SPREAD_OVER, length), f.col("t")
        sums = []
        for hours in self.hours:
            end = self.log.end - 1 - int(hours * HOUR)
            inside = (t < end) & (t >= end - window)
            begins = f.lit(end) - f.ceil((f.lit(end) - t) / f.lit(float(length))).cast("bigint") * length
            sums += [f.count(f.when(inside, 1)), f.count(f.when(inside & (f.col("first") >= begins), 1))]
        found = [int(n) for n in self.log.events.agg(*sums).collect()[0]]
        return [new / n if n else 1e-4 for n, new in zip(found[::2], found[1::2], strict=True)]


class CutCounts:
    """What members count of the clicks before one cut, as `bmcd.blend.features.EventCounts` gives it."""

    def __init__(self, counts: CountsAtCuts, cut: int) -> None:
        self.counts, self.cut, self.n_items = counts, cut, counts.log.n_items

    def seen(self) -> NDArray[np.bool_]:
        """Return which items were clicked."""
        return np.asarray(self.counts.log.first_click < self.counts.ends[self.cut])

    def volume(self, settings: Settings) -> float:
        """Return the number of clicks that popularity is counted in."""
        return float(self.counts.popularity[self.cut]["n"])

    def popularity(self, settings: Settings) -> tuple[list[Floats], list[float]]:
        """Return the counts of each popularity, and how many clicks are typical of each."""
        found = self.counts.popularity[self.cut]
        return found["counts"], typical_volumes(settings, found["n"], found["oldest"])

    def following(self, settings: Settings, gaps: int, *, fading: bool = True) -> tuple[Any, Floats]:
        """Return what follows what within ``gaps`` clicks: the largest counts of a row, and the sums of all."""
        kinds = {(1, True): "one", (NEAR, True): "several", (FAR, False): "far"}
        return self._largest(kinds[gaps, fading])

    def together(self, settings: Settings) -> tuple[Any, Floats]:
        """Return what lately occurred together, in the same form."""
        return self._largest("together")

    def sessions(self, settings: Settings) -> Any:
        """Return the arrays of SessionKNN."""
        return self.counts.sessions(self.cut)

    def gram(self, settings: Settings) -> tuple[Ints, Floats]:
        """Return the most clicked items, and the number of sessions that have each two of them."""
        return self.counts.gram[self.cut]

    def _largest(self, kind: str) -> tuple[Any, Floats]:
        n, sums = self.n_items, self.counts.totals
        row, column, value = self.counts.largest(self.cut, kind).values()
        found: Any = sparse.coo_array((value, (row, column)), shape=(n, n)).tocsr()
        found.sort_indices()
        totals, here = np.zeros(n), sums["cut"] == self.cut
        totals[sums["row"][here]] = sums[kind][here]
        return found, totals


def _decay(half_life: float) -> Any:
    if math.isinf(half_life):
        return f.lit(1.0)
    return f.pow(f.lit(2.0), f.col("age") * f.lit(-1.0 / half_life))


def _session_arrays(starts: Ints, items: NDArray[np.int32], n_items: int) -> Any:
    """Return the arrays of a SessionKNN with these sessions, the oldest first."""
    model = SessionKNN(half_life=None)
    columns, latest = latest_sessions(starts, items, n_items, model.candidates)
    weights = 1.0 / np.sqrt(np.diff(starts))
    return columns, latest, starts, items, weights, model.neighbours, model.candidates, float(model.decay)
