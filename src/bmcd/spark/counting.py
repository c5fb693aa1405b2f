"""What the members of a blend count, as SQL aggregations over a frame of clicks: the numbers of one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bmcd.baselines.counting import HOUR
from bmcd.baselines.session_knn import MOST_KEPT, SessionKNN
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
from bmcd.spark.frames import WHOLE_NUMBERS, clean_ids, quoted
from bmcd.utils import Floats, listed, shown

Ints = NDArray[np.int64]


def with_times(frame: Any, user: str, item: str, time_column: str) -> Any:
    """Return the columns user, item and t, microseconds since 1970; the same click at the same time once."""
    from pyspark.sql import functions as f

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
    from pyspark.sql import functions as f

    ends = frame.agg(f.min(column).alias("low"), f.max(column).alias("high")).collect()[0]
    if ends["low"] is None:
        return column.cast("bigint")
    try:
        found = to_clock(np.array([ends["low"], ends["high"]]))
    except BadTimeError as error:
        raise ClicksError(f"column {name}: {error.reason}") from None
    if found.dtype.kind != "M":
        raise ClicksError(
            f"column {name}: times such as {ends['low']} are no points in time. On Spark a blend needs seconds, "
            "ms, us or ns since 1970, or timestamps."
        )
    largest = abs(float(ends["high"]))
    if isinstance(ends["low"], float):
        factor = 1e6 if largest < 1e11 else 1e3 if largest < 1e14 else 1.0 if largest < 1e17 else 1e-3
        return f.rint(column * f.lit(factor)).cast("bigint")
    if largest >= 1e17:
        return f.floor(column.cast("bigint") / f.lit(1000)).cast("bigint")
    return column.cast("bigint") * f.lit(1_000_000 if largest < 1e11 else 1_000 if largest < 1e14 else 1)


class SparkLog:
    """The clicks of a frame in order, numbered as `Clicks` numbers them, and what is counted of them at cuts.

    Everything that grows with the clicks stays in the caller's session. The driver gets what grows with the items:
    counts, the largest entries of each row, the latest sessions of each item; and the clicks of some users.
    """

    def __init__(self, frame: Any, user: str, item: str, time_column: str) -> None:
        from pyspark.sql import functions as f

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
        """Let go of what the executors keep."""
        for frame in self._kept:
            frame.unpersist()
        self._kept = []

    def _number_items(self) -> NDArray[Any]:
        """Number the items by first click and id; return their ids."""
        from pyspark.sql import functions as f

        found = self.clicks.groupBy("item").agg(f.min("t").alias("first")).toArrow()
        values = found.column("item").to_pylist()
        ids = objects(values) if isinstance(values[0], str) else np.array(values, np.int64)
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
        from pyspark.sql import functions as f

        return f.broadcast(self.session.createDataFrame(pa.table(columns)))

    def _ordered(self) -> Any:
        """Return the clicks of each user: place, session, whether first on the item, newer clicks on the item."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        by_user = Window.partitionBy("user").orderBy("t", "item_rank")
        same = Window.partitionBy("user", "number").orderBy("t")
        known = self.clicks.join(self._numbers, "item").select("user", "number", "item_rank", "t", "first")
        begins = f.coalesce((f.col("t") - f.lag("t").over(by_user) > SESSION_GAP).cast("int"), f.lit(0))
        known = known.select(
            "*", begins.alias("begins"), f.row_number().over(by_user).alias("place"),
            f.min("t").over(Window.partitionBy("user")).alias("user_first"),
            (f.row_number().over(same) == 1).alias("is_first"),
        )  # fmt: skip
        known = known.withColumn("session", f.sum("begins").over(by_user))
        # Of clicks at the same time those of the user who came later are newer, as where sessions are numbered.
        down = [f.col(name).desc() for name in ("t", "user_first", "user", "place")]
        newest = Window.partitionBy("number").orderBy(*down)
        known = known.withColumn("newer", f.row_number().over(newest) - 1).drop("begins", "item_rank")
        return known.repartition("user")

    def time_at(self, share: float) -> int:
        """Return the time of the click that has this share of the clicks before it."""
        from pyspark.sql import functions as f

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
        from pyspark.sql import functions as f

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
        self._done: dict[str, Any] = {}
        self.latest: tuple[int, dict[str, NDArray[Any]]] = (-1, {})
        """The cut whose pairs the driver has, and these."""

    def at(self, cut: int) -> CutCounts:
        """Return the counts before one cut."""
        return CutCounts(self, cut)

    def once(self, what: str) -> Any:
        """Return counts of one kind, counted the first time."""
        if what not in self._done:
            self._done[what] = getattr(self, "_" + what)()
        return self._done[what]

    def _exploded(self, limit: float) -> Any:
        """Return the clicks of the last hours before each cut, with the number of the cut and the age at it."""
        from pyspark.sql import functions as f

        latest = self.log.end - 1
        cuts = f.array(
            *[
                f.struct(f.lit(c).alias("cut"), f.lit(end).alias("end"), f.lit(float(hours)).alias("hours"))
                for c, (end, hours) in enumerate(zip(self.ends, self.hours, strict=True))
            ]
        )
        old = (f.lit(latest) - f.col("t")) / f.lit(float(HOUR))

        def is_in(cut: Any) -> Any:
            return (f.col("t") < cut["end"]) & (old - cut["hours"] <= f.lit(limit))

        rows = self.log.events.withColumn("of", f.explode(f.filter(cuts, is_in)))
        return rows.withColumn("cut", f.col("of.cut")).withColumn("age", old - f.col("of.hours")).drop("of")

    def _popularity(self) -> list[dict[str, Any]]:
        """Return, for each cut: counts of each half-life, clicks and the oldest age, and the counts of EASE."""
        from pyspark.sql import functions as f

        own = self.settings
        sums = [f.sum(_decay(half)).alias(f"half{h}") for h, half in enumerate(own.half_lives)]
        fading = f.sum(f.when(f.col("age") <= own.window, _decay(own.fading)).otherwise(0.0)).alias("fading")
        rows = self._exploded(longest_memory(own)).groupBy("cut", "number")
        table = rows.agg(*sums, fading, f.count("*").alias("n"), f.max("age").alias("oldest")).toArrow()
        arrays = {name: table.column(name).to_numpy() for name in table.column_names}
        found = []
        for cut in range(len(self.ends)):
            here = arrays["cut"] == cut

            def full(name: str, here: Any = here) -> Floats:
                counts = np.zeros(self.log.n_items)
                counts[arrays["number"][here]] = arrays[name][here]
                return counts

            counts = [full(f"half{h}") for h in range(len(own.half_lives))]
            oldest = float(arrays["oldest"][here].max(initial=0.0))
            own_facts = {"counts": counts, "n": int(arrays["n"][here].sum()), "oldest": oldest}
            found.append({**own_facts, "fading": full("fading")})
        return found

    def _pairs(self) -> Any:
        """Return a frame with what follows what and what occurs together: cut, row, column and three counts."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        rows = self._exploded(self.settings.window).join(self._newer_than_cuts(), ["cut", "number"], "left")
        newer = f.col("newer") - f.coalesce(f.col("after"), f.lit(0))
        rows = rows.select(
            "cut", "user", "session", "place", "number", "t", _decay(self.settings.fading).alias("weight"),
            f.pow(f.lit(0.5 ** (1.0 / MEMORY)), newer).alias("memory"),
        )  # fmt: skip
        inside = Window.partitionBy("cut", "user", "session").orderBy("place")
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
        kinds = ("one", "several", "far", "together")
        counts = rows.agg(*[f.sum(kind).cast("float").alias(kind) for kind in kinds])
        by_row = Window.partitionBy("cut", "row")
        ranks = [
            f.row_number().over(by_row.orderBy(f.col(kind).desc(), "column")).alias(f"rank_{kind}")
            for kind in kinds
        ]
        totals = [f.sum(f.col(kind).cast("double")).over(by_row).alias(f"total_{kind}") for kind in kinds]
        kept, wanted = kept_of(self.log.n_items), f.lit(False)
        for kind in kinds:
            wanted |= (f.col(kind) > 0) & (f.col(f"rank_{kind}") <= kept)
        return self.log.keep(counts.select("*", *ranks, *totals).where(wanted))

    def _newer_than_cuts(self) -> Any:
        """Return how many clicks on each item came after each cut."""
        from pyspark.sql import functions as f

        after = [f.count(f.when(f.col("t") >= end, 1)).alias(str(c)) for c, end in enumerate(self.ends)]
        table = self.log.events.groupBy("number").agg(*after).toArrow()
        numbers = table.column("number").to_numpy()
        counts = np.stack([table.column(str(c)).to_numpy() for c in range(len(self.ends))])
        cut, at = np.nonzero(counts)
        return self.log.table(cut=cut.astype(np.int32), number=numbers[at], after=counts[cut, at])

    def _sessions(self) -> list[Any]:
        """Return the arrays of SessionKNN for each cut."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        key = ("cut", "user", "session")
        rows = self._exploded(self.settings.window).select(*key, "user_first", "number", "t", "place")
        last = f.max("t").over(Window.partitionBy(*key)).alias("last")
        rows = (
            rows.select("*", last).groupBy(*key, "user_first", "last", "number").agg(f.max("place").alias("place"))
        )
        here = Window.partitionBy(*key)
        rows = rows.withColumn("rank", f.row_number().over(here.orderBy(f.col("place").desc())))
        rows = rows.where(f.col("rank") <= MOST_KEPT).withColumn("length", f.max("rank").over(here))
        rows = rows.where(f.col("length") >= 2)
        order = [f.col(name).desc() for name in ("last", "user_first", "user", "session")]
        candidates = SessionKNN().candidates
        latest = f.row_number().over(Window.partitionBy("cut", "number").orderBy(*order)) <= candidates
        rows = rows.withColumn("found", latest).withColumn("used", f.max("found").over(here))
        table = rows.where("used").select(*key, "user_first", "last", "number", "rank").toArrow()
        found = []
        users = table.column("user")
        codes = users.combine_chunks().dictionary_encode()
        ids = codes.dictionary.to_pylist()
        ranks = id_ranks(objects(ids) if ids and isinstance(ids[0], str) else np.array(ids, np.int64))
        columns = {name: table.column(name).to_numpy() for name in table.column_names if name != "user"}
        columns["user"] = ranks[codes.indices.to_numpy()] if len(ids) else np.zeros(0, np.int64)
        for cut in range(len(self.ends)):
            own = {name: values[columns["cut"] == cut] for name, values in columns.items()}
            by = np.lexsort([own[name] for name in ("rank", "session", "user", "user_first", "last")])
            own = {name: values[by] for name, values in own.items()}
            begins = np.flatnonzero(own["rank"] == 1)
            starts = np.concatenate((begins, [len(by)])).astype(np.int64)
            found.append(_session_arrays(starts, own["number"].astype(np.int32), self.log.n_items))
        return found

    def _gram(self) -> list[tuple[Ints, Floats]]:
        """Return, for each cut, the most clicked items and the number of sessions that have each two of them."""
        from pyspark.sql import functions as f

        tops = [most_counted(one["fading"], self.settings.most_clicked) for one in self.once("popularity")]
        cuts = np.repeat(np.arange(len(tops), dtype=np.int32), [len(top) for top in tops])
        places = np.concatenate([np.arange(len(top), dtype=np.int32) for top in tops])
        top = self.log.table(cut=cuts, number=np.concatenate(tops), column=places)
        key = ["cut", "user", "session"]
        rows = self._exploded(self.settings.window).join(top, ["cut", "number"]).select(*key, "column").distinct()
        lists = rows.groupBy(*key).agg(f.sort_array(f.collect_list("column")).alias("columns"))
        pairs = lists.select("cut", "columns", f.explode("columns").alias("i"))
        pairs = pairs.select("cut", "i", f.explode("columns").alias("j")).where("i <= j")
        table = pairs.groupBy("cut", "i", "j").count().toArrow()
        cut, i, j, n = (table.column(name).to_numpy() for name in ("cut", "i", "j", "count"))
        found = []
        for c, own in enumerate(tops):
            gram, here = np.zeros((len(own), len(own))), cut == c
            gram[i[here], j[here]] = gram[j[here], i[here]] = n[here]
            found.append((own, gram))
        return found

    def shares_outside(self, refresh_hours: float) -> list[float]:
        """Return, for each cut, what `moments.share_outside` does."""
        from pyspark.sql import functions as f

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
        return float(self.counts.once("popularity")[self.cut]["n"])

    def popularity(self, settings: Settings) -> tuple[list[Floats], list[float]]:
        """Return the counts of each popularity, and how many clicks are typical of each."""
        found = self.counts.once("popularity")[self.cut]
        return found["counts"], typical_volumes(settings, found["n"], found["oldest"])

    def following(self, settings: Settings, gaps: int, *, fading: bool = True) -> tuple[Any, Floats]:
        """Return what follows what at up to so many clicks: the largest counts of a row, and the sums of all."""
        kinds = {(1, True): "one", (NEAR, True): "several", (FAR, False): "far"}
        return self._largest(kinds[gaps, fading])

    def together(self, settings: Settings) -> tuple[Any, Floats]:
        """Return what lately occurred together, in the same form."""
        return self._largest("together")

    def sessions(self, settings: Settings) -> Any:
        """Return the arrays of SessionKNN."""
        return self.counts.once("sessions")[self.cut]

    def gram(self, settings: Settings) -> tuple[Ints, Floats]:
        """Return the most clicked items, and the number of sessions that have each two of them."""
        found: tuple[Ints, Floats] = self.counts.once("gram")[self.cut]
        return found

    def _largest(self, kind: str) -> tuple[Any, Floats]:
        if self.counts.latest[0] != self.cut:
            self.counts.latest = (self.cut, self._collected())
        columns, n = self.counts.latest[1], self.n_items
        own = (columns[kind] > 0) & (columns[f"rank_{kind}"] <= kept_of(n))
        row, column, value = (columns[name][own] for name in ("row", "column", kind))
        found: Any = sparse.coo_array((value, (row, column)), shape=(n, n)).tocsr()
        found.sort_indices()
        totals = np.zeros(n)
        totals[row] = columns[f"total_{kind}"][own]
        return found, totals

    def _collected(self) -> dict[str, NDArray[Any]]:
        """Return the pairs of this cut that are among the largest of their row, as columns."""
        from pyspark.sql import functions as f

        table = self.counts.once("pairs").where(f.col("cut") == self.cut).drop("cut").toArrow()
        return {name: table.column(name).to_numpy() for name in table.column_names}


def _decay(half_life: float) -> Any:
    from pyspark.sql import functions as f

    if math.isinf(half_life):
        return f.lit(1.0)
    return f.pow(f.lit(2.0), f.col("age") * f.lit(-1.0 / half_life))


def _session_arrays(starts: Ints, items: NDArray[np.int32], n_items: int) -> Any:
    """Return the arrays of a SessionKNN with these sessions, the oldest first."""
    from bmcd.baselines.session_knn import latest_sessions

    model = SessionKNN(half_life=None)
    columns, latest = latest_sessions(starts, items, n_items, model.candidates)
    weights = 1.0 / np.sqrt(np.diff(starts))
    return columns, latest, starts, items, weights, model.neighbours, model.candidates, float(model.decay)
