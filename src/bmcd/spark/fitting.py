"""fit: a blend of the clicks in a Spark frame, counted in its session; weights are learnt on the driver."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bmcd.blend.blend import Blend
from bmcd.blend.features import MEMBERS
from bmcd.blend.file import pack
from bmcd.blend.fitting import Work, fitted_by, make_settings
from bmcd.blend.learning import BUDGET, DECIDING, LADDER
from bmcd.blend.moments import (
    LAST_SHARE,
    MICROSECONDS_PER_HOUR,
    MOST_CUTS,
    Cut,
    cut_times,
    hours_back,
    label_of,
)
from bmcd.clicks.ids import id_ranks
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import duration_text, read_duration
from bmcd.errors import InputError, InputTypeError
from bmcd.models.persistence import without_users
from bmcd.spark.counting import CountsAtCuts, SparkLog, check_frame, f, numbered, without_pandas_warning
from bmcd.utils import shown


def fit(
    frame: Any,
    model: Blend,
    *,
    user: str = "user",
    item: str = "item",
    time_column: str | None = None,
    titles: Any = None,
    seed: int = 0,
    n_threads: int | None = None,
    progress: bool | None = None,
) -> Blend:
    """Fit a blend to the clicks of a Spark frame, and return it, in the memory of the driver.

    Everything that grows with the clicks is counted by SQL in the session of the frame; the driver gets what grows
    with the items, and the clicks of the few thousand users from which the weights are learnt. The model is that of
    `Blend.fit` on the same log, whatever the partitions: the same members and counts, and decayed sums and weights
    equal to the last digits. It holds items but no users: use it with `bmcd.spark.recommend` and `recommend_for`.

    Parameters
    ----------
    frame
        One row per click; further columns are ignored, and the same click at the same time counts once.
    model
        A `bmcd.Blend` that chooses its members; it is not changed.
    user, item
        The columns of ``frame``: text or whole numbers.
    time_column
        The column of the times: timestamps, or numbers since 1970. By default "time".
    titles
        Titles of the items, a dict or a frame; see `Clicks.with_titles`.
    seed, n_threads, progress
        As in `Blend.fit`; threads are those of the driver.

    Examples
    --------
    ::

        clicks = spark.read.parquet("clicks.parquet")
        bmcd.spark.fit(clicks, bmcd.Blend(refresh="1h")).save("model.bmcd")
    """
    check_frame(frame, user, item, "bmcd.spark.fit")
    if not isinstance(model, Blend):
        raise InputTypeError(
            f"bmcd.spark.fit fits bmcd.Blend, not {shown(model)}: fit others on one machine, to a sample."
        )
    if model.models is not None:
        raise InputError(
            "bmcd.spark.fit counts the members that Blend() chooses; a blend of given models is fitted on one "
            "machine, to a sample of the users."
        )
    if time_column is None and "time" not in frame.columns:
        raise InputError(
            "on Spark a blend needs the times of the clicks: name their column, time_column=. Without times fit a "
            "sample of the users on one machine."
        )
    refresh = None if model.refresh is None else read_duration(model.refresh, "refresh")
    with without_pandas_warning():
        log = SparkLog(frame, user, item, time_column or "time")
        try:
            work = SparkWork(log, refresh, bool(model.repeats), seed, n_threads, progress)
            fitted = fitted_by(work)
        finally:
            log.close()
    known = without_users(work.clicks)
    known = known if titles is None else known.with_titles(titles)
    settings = {"refresh": model.refresh, "repeats": bool(model.repeats)}
    return Blend.restored(*pack(known, fitted, settings, with_users=False))


class SparkWork(Work):
    """The fits of a blend to a log in Spark: counts come from there, moments from the clicks of some users."""

    def __init__(
        self, log: SparkLog, refresh: int | None, repeats: bool, seed: int, n_threads: int | None,
        progress: bool | None,
    ) -> None:  # fmt: skip
        self.log, self.refresh, self.seed = log, refresh, seed
        self.n_threads, self.progress, self.clock, self.models = n_threads, progress, True, None
        self.tables, self.dense = [], []
        length = max(log.end - log.time_at(1.0 - LAST_SHARE), 1) if refresh is None else refresh
        self.hours = length / MICROSECONDS_PER_HOUR
        begins = cut_times(log.begin, log.end, length, MOST_CUTS)
        inside = log.n_between([(begin, begin + length) for begin in begins])
        self.begins = [begin for begin, n in zip(begins, inside, strict=True) if n and begin > log.begin]
        self.eligible, chosen = self._eligible(length, repeats)
        self.clicks = clicks_of(log, chosen)
        times = self.clicks.times.view(np.int64)  # type: ignore[union-attr]
        self.cuts = [
            Cut(times < a, (times >= a) & (times < a + length), hours_back(a, log.end), label_of(a))
            for a in self.begins
        ]
        self.settings = make_settings(self.clicks, length, repeats, MEMBERS)
        ends, hours = [*self.begins, log.end], [*(cut.hours or 0.0 for cut in self.cuts), 0.0]
        self.counts = CountsAtCuts(log, self.settings, ends, hours)
        self.outside = self.counts.shares_outside(self.hours)

    @property
    def until(self) -> int:
        """The time of the last click in microseconds."""
        return self.log.end - 1

    def counts_before(self, cut: Cut | None) -> Any:
        """Return what members count of the clicks before a cut, or of all."""
        return self.counts.at(len(self.cuts) if cut is None else self._number(cut))

    def share_outside(self, cut: Cut) -> float:
        """Return the share of recent clicks on items that were new then."""
        return self.outside[self._number(cut)]

    def n_eligible(self, c: int, h: int) -> int:
        """Return the number of users with h new clicks or more in the window after a cut."""
        return self.eligible[c][h]

    def _number(self, cut: Cut) -> int:
        return next((c for c, own in enumerate(self.cuts) if own is cut), len(self.cuts))

    def _eligible(self, length: int, repeats: bool) -> tuple[list[dict[int, int]], Any]:
        """Return how many users have h new clicks or more in each window, and who may give moments.

        These are the users whose hash is smallest, a few more than are wanted in each window.
        """
        log = self.log
        windows = f.array(
            *[f.struct(f.lit(c).alias("cut"), f.lit(b).alias("begin")) for c, b in enumerate(self.begins)]
        )
        new = log.events if repeats else log.events.where("is_first")
        t = f.col("t")
        within = f.filter(windows, lambda w: (t >= w["begin"]) & (t < w["begin"] + f.lit(length)))
        rows = new.select("user", f.explode(within).alias("of"))
        rows = log.keep(rows.groupBy(f.col("of.cut").alias("cut"), "user").agg(f.count("*").alias("n_new")))
        counts = [f.count(f.when(f.col("n_new") >= h, 1)).alias(str(h)) for h in LADDER]
        eligible = [dict.fromkeys(LADDER, 0) for _ in self.begins]
        for row in rows.groupBy("cut").agg(*counts).collect():
            eligible[row["cut"]] = {h: int(row[str(h)]) for h in LADDER}
        wanted = f.lit(False)
        for c in range(len(self.begins)):
            for h in LADDER:
                n, total = eligible[c][h], max(sum(one[h] for one in eligible), 1)
                most = math.ceil(BUDGET[h] * n / total) + 1
                if h == 1:
                    most = max(most, DECIDING)
                own = (f.col("cut") == c) & (f.col("n_new") >= h)
                share = (most + 6 * most**0.5 + 6) / max(n, 1)
                if share < 1:
                    own &= _user_hash(rows, self.seed) < f.lit(-(2**63) + int(share * 2**64))
                wanted |= own
        return eligible, rows.where(wanted).select("user").distinct()


def _user_hash(rows: Any, seed: int) -> Any:
    """Return what `moments.user_hash` does, as a column."""
    user = f.col("user")
    if dict(rows.dtypes)["user"] == "string":
        user = f.conv(f.substring(f.md5(user.cast("binary")), 1, 15), 16, 10)
    return f.xxhash64(f.lit(seed).cast("bigint"), user.cast("bigint"))


def clicks_of(log: SparkLog, chosen: Any) -> Clicks:
    """Return the clicks of some users on all items of the log."""
    table = log.of_users(chosen)
    if not table.num_rows:
        raise InputError(
            "there are no next clicks to learn from: no user clicked a new item after the cut. Use a longer log, "
            f"or a longer refresh than {duration_text(log.end - log.begin)}."
        )
    ids, of = numbered(table.column("user"))
    first = np.zeros(len(ids), np.int64)
    first[of] = table.column("user_first").to_numpy()
    order = np.lexsort((id_ranks(ids), first))
    number = np.empty(len(ids), np.int64)
    number[order] = np.arange(len(ids))
    user, place = number[of], table.column("place").to_numpy()
    by = np.lexsort((place, user))
    starts = np.concatenate(([0], np.cumsum(np.bincount(user, minlength=len(ids))))).astype(np.int64)
    sequence = table.column("number").to_numpy()[by].astype(np.int32)
    times = table.column("t").to_numpy()[by].astype(np.int64).view("datetime64[us]")
    return Clicks(ids[order], log.items, starts, sequence, times, order="time")
