"""Clicks: an ordered log of who clicked what, and the steps that narrow and split it."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.clicks import adding, splitting
from bmcd.clicks.frames import Library, column_names, columns, library_of
from bmcd.clicks.ids import Coded, Missing, distinct, places_of, positions
from bmcd.clicks.item_table import ItemTable, make_item_table
from bmcd.clicks.rows import LogColumns, Rows, complete, rows_of_frame
from bmcd.clicks.sequences import (
    DistinctClicks,
    Sequences,
    distinct_clicks,
    grouped,
    in_rows,
    in_time,
    nonzero,
    owners,
    renumbered,
    select,
    session_numbers,
    take_users,
)
from bmcd.clicks.times import SESSION_GAP, Order, read_duration
from bmcd.clicks.titles import titles_for, titles_of_frame, titles_of_rows
from bmcd.errors import ClicksError

__all__ = ["Clicks", "ClicksError", "ClicksSummary", "Library"]


@dataclass(frozen=True, slots=True)
class ClicksSummary:
    """The size and shape of a `Clicks`; `str()` of it reads as a short report."""

    n_users: int
    n_items: int
    n_clicks: int
    density: float
    clicks_per_user: tuple[int, float, int]
    """Smallest, median and largest."""
    clicks_per_item: tuple[int, float, int]
    """Smallest, median and largest."""
    n_users_without_clicks: int
    n_items_without_clicks: int
    n_titles: int
    n_repeated: int
    history: tuple[str, ...]
    n_dropped: int = 0
    """Rows that lacked a user, an item or a time."""
    times: tuple[Any, Any] | None = None
    """The first and the last, if the clicks have any."""
    order: str | None = None
    """Where the order of the clicks comes from: "time", "rows", or None."""
    n_sessions: int = 0
    """The number of sessions; 0 if the log has no order."""

    def __str__(self) -> str:
        n_users, n_items, n_clicks = f"{self.n_users:,}", f"{self.n_items:,}", f"{self.n_clicks:,}"

        def spread(three: tuple[int, float, int], none: int) -> str:
            return f"{three[0]:,} to {three[2]:,}, median {three[1]:,.1f} ({none:,} with none)"

        return "\n".join(
            [
                f"{n_users} users x {n_items} items, {n_clicks} clicks ({self.density:.2%})",
                f"clicks per user: {spread(self.clicks_per_user, self.n_users_without_clicks)}",
                f"clicks per item: {spread(self.clicks_per_item, self.n_items_without_clicks)}",
                f"items with a title: {self.n_titles:,}",
                f"repeated clicks{'' if self.order else ' collapsed'}: {self.n_repeated:,}",
                f"rows dropped: {self.n_dropped:,}",
                *([] if self.order is None else [f"order: by {self.order}, {self.n_sessions:,} sessions"]),
                *([] if self.times is None else [f"times: {self.times[0]} to {self.times[1]}"]),
                *(f"- {step}" for step in self.history),
            ]
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Clicks:
    """A log of clicks; made by `from_frame`, `from_matrix` or `read_clicks`.

    `users` and `items` are the ids of the log. The clicks of user u are `sequence[starts[u]:starts[u + 1]]`: item
    numbers, the latest last, repeated clicks included; -1 is an item outside `items`, which only test clicks have.
    `order` says where the order comes from: "time" (`times` has the time of each click), "rows" (the order of the
    rows), or None: then nothing is known of the order, and repeated clicks are counted once. Clicks of a user at
    the same time are not ordered among each other.

    `matrix` has the distinct clicks, users x items. `n_clicks`, `per_user` and `per_item`, `at_least` and
    `most_clicked` refer to these.

    `titles` go with `items`; an item without a title (`titled` is False) has its id there. `history` lists what was
    done to the log, and `library` is that of the frames which methods return: pandas, polars or pyarrow. `split`
    says how test clicks were taken from the log. Two `Clicks` are equal if users, items, titles, clicks and their
    order are.

    >>> clicks = Clicks.from_matrix([[1, 1, 0], [0, 1, 1]], users=["ann", "bob"])
    >>> clicks
    Clicks(2 users x 3 items, 4 clicks)
    >>> clicks.at_least(2).most_clicked(1).history
    ('kept the 1 most clicked of 3 items',)
    """

    users: NDArray[Any]
    items: NDArray[Any]
    starts: NDArray[np.int64]
    sequence: NDArray[np.int32]
    times: NDArray[Any] | None = None
    session_ids: NDArray[np.int64] | None = None
    order: Order | None = None
    session_gap: int = SESSION_GAP
    """In microseconds."""
    titles: NDArray[np.object_] | None = None
    titled: NDArray[np.bool_] | None = None
    n_repeated: int = 0
    """Rows of the log that repeat a click of the same user on the same item."""
    history: tuple[str, ...] = ()
    library: Library = "pandas"
    n_dropped: int = 0
    """Rows of the log that lacked a user, an item or a time."""
    split: str = ""
    """How these test clicks were chosen; "" for clicks that are not test clicks."""
    n_new_users: int = 0
    """Users of these test clicks who are left out because they have no training clicks."""
    session_over: NDArray[np.bool_] | None = None
    """Of histories: the users whose next click begins another session; None if nothing is known of that."""
    items_table: ItemTable | None = None
    """Groups, numbers, links, pictures and dates of the items; see `with_items`."""
    _cache: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for name in ("times", "session_ids"):
            aligned = getattr(self, name)
            if aligned is not None and len(aligned) != len(self.sequence):
                raise ValueError(f"{len(aligned)} {name} for {len(self.sequence)} clicks")
        for one in fields(self):
            if isinstance(array := getattr(self, one.name), np.ndarray):
                array.setflags(write=False)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        user: str = "user",
        item: str = "item",
        titles: Any = None,
        *,
        title: str | None = None,
        title_item: str | None = None,
        title_column: str | None = None,
        time_column: str | None = None,
        order: Literal["time", "rows", "none"] | None = None,
        session_column: str | None = None,
        session_gap: str = "30min",
        missing: Missing = "error",
    ) -> Clicks:
        """Read a pandas, polars or Arrow table with one row per click; lazy frames are collected.

        Ids may be anything hashable; whitespace around text ids is stripped. A row without an id is an error, or
        left out and counted with `missing="drop"`. `titles` is a dict from item to title, or a frame; see
        `with_titles`. `title_column` names a column of the frame itself that has the titles. `time_column`,
        `order`, `session_column` and `session_gap` are those of `read_clicks`. The frame is not changed.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": ["ann", "bob", "ann"], "item": [7, 7, 9]})
        >>> Clicks.from_frame(frame, titles={7: "Seven"}).titles.tolist()
        ['Seven', '9']
        """
        gap = read_duration(session_gap, "session_gap")
        asked = LogColumns(user, item, title_column, time_column, session_column, order, missing)
        asked.check(titles)
        clicks = replace(cls.from_rows(rows_of_frame(frame, asked), gap), library=library_of(frame))
        return clicks if titles is None else clicks.with_titles(titles, item=title_item, title=title, usual=item)

    @classmethod
    def from_rows(cls, rows: Rows, session_gap: int = SESSION_GAP) -> Clicks:
        """Make clicks of the complete rows of a log, and keep what was done to them."""
        sessions = None if rows.sessions is None else rows.sessions.codes
        try:
            clicks = cls.from_codes(
                *(rows.users.codes, rows.items.codes, rows.users.ids, rows.items.ids),
                times=rows.times,
                sessions=sessions,
                order=rows.order,
            )
        except ClicksError as error:
            if error.row is None or rows.kept is None:
                raise
            raise ClicksError(error.reason, row=int(rows.kept[error.row])) from None
        if rows.titles is not None:
            titles, steps = titles_of_rows(rows.items, rows.titles)
            clicks = clicks.with_titles(titles).with_steps(*steps)
        history = (*rows.steps, *clicks.history)
        return replace(clicks, n_dropped=rows.n_dropped, history=history, session_gap=session_gap)

    @classmethod
    def from_codes(
        cls,
        user_codes: NDArray[Any],
        item_codes: NDArray[Any],
        users: NDArray[Any],
        items: NDArray[Any],
        *,
        times: NDArray[Any] | None = None,
        sessions: NDArray[Any] | None = None,
        order: Order | None = None,
    ) -> Clicks:
        """Join codes, one pair per click, with the ids they stand for.

        With times, users and items are numbered by their first click, otherwise as given.

        >>> clicks = Clicks.from_codes(np.array([0, 1, 0]), np.zeros(3, int), np.array([5, 6]), np.array([7]))
        >>> clicks.history
        ('1 repeated clicks collapsed',)
        """
        n = len(user_codes)
        if n == 0:
            raise ClicksError("there are no rows, so there are no clicks to read.")
        own_sessions = None if sessions is None else np.asarray(sessions, np.int64)
        if order is None:
            matrix = sparse.csr_array(
                (np.ones(n, np.bool_), (user_codes, item_codes)), shape=(len(users), len(items))
            )
            matrix.sum_duplicates()
            repeated = n - int(matrix.nnz)
            history = (f"{repeated:,} repeated clicks collapsed",) if repeated else ()
            starts, sequence = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
            return cls(users, items, starts, sequence, n_repeated=repeated, history=history)
        if order == "rows":
            found, history = in_rows(user_codes, item_codes, len(users), own_sessions), ()
        else:
            # Numbered by their first click, so that the order of the rows does not matter.
            user_codes, users = renumbered(user_codes, users, times)
            item_codes, items = renumbered(item_codes, items, times)
            found, twice = in_time(user_codes, item_codes, len(users), items, times, own_sessions)
            history = (f"{twice:,} rows that repeat a click at the same time counted once",) if twice else ()
        if found.sessions is not None:  # numbered as in the log, so that the order of the rows does not matter
            found = found._replace(sessions=session_numbers(found, SESSION_GAP))
        clicks = cls(users, items, *found, order=order, history=history)
        return replace(clicks, n_repeated=n - clicks.n_clicks)

    @classmethod
    def from_matrix(
        cls,
        matrix: Any,
        users: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        titles: Any = None,
    ) -> Clicks:
        """Read a users x items matrix, dense or scipy sparse, in which anything but zero is a click.

        Without ids, users and items are numbered from 0. Users who clicked nothing, or everything, stay.

        >>> Clicks.from_matrix(np.eye(3), items=["a", "b", "c"]).items.tolist()
        ['a', 'b', 'c']
        """
        user_codes, item_codes, shape, others = nonzero(matrix)
        own = [
            Coded(np.arange(length), np.arange(length)) if ids is None else distinct(list(ids), what, length)
            for ids, what, length in zip((users, items), ("user", "item"), shape, strict=True)
        ]
        rows = Rows(own[0]._replace(codes=user_codes), own[1]._replace(codes=item_codes))
        clicks = cls.from_rows(complete(rows))
        if others:
            clicks = clicks.with_steps(f"{others} entries other than 0 and 1 were taken as one click each")
        return clicks if titles is None else clicks.with_titles(titles)

    @property
    def sequences(self) -> Sequences:
        """The clicks of all users as one tuple of arrays."""
        return Sequences(self.starts, self.sequence, self.times, self.session_ids)

    @property
    def distinct(self) -> DistinctClicks:
        """The distinct clicks, and how the clicks of the log belong to them."""
        if "distinct" not in self._cache:
            if self.order is None and (self.sequence >= 0).all():
                index = np.int32 if len(self.sequence) < 2**31 else np.int64
                ones = np.ones(len(self.sequence), np.bool_)
                parts = (ones, self.sequence.astype(index), self.starts.astype(index))
                matrix: Any = sparse.csr_array(parts, shape=(self.n_users, self.n_items))
                self._cache["distinct"] = DistinctClicks(matrix, np.arange(len(ones)), ones)
            else:
                self._cache["distinct"] = distinct_clicks(self.sequences, self.n_items)
        found: DistinctClicks = self._cache["distinct"]
        return found

    @property
    def matrix(self) -> sparse.csr_array[Any]:
        """The distinct clicks, users x items: CSR, bool, sorted."""
        return self.distinct.matrix

    @property
    def item_places(self) -> dict[Any, int]:
        """Where each item stands among `items`; made once, because histories are looked up for every answer."""
        if "item places" not in self._cache:
            self._cache["item places"] = places_of(self.items)
        found: dict[Any, int] = self._cache["item places"]
        return found

    @property
    def has_clock(self) -> bool:
        """Whether the times are points in time, not only numbers that give the order."""
        return self.times is not None and self.times.dtype.kind == "M"

    @property
    def sessions(self) -> NDArray[np.int64]:
        """The number of the session of each click in `sequence`.

        They are those of the session column, if the log has one. Otherwise a new session begins after a gap of more
        than `session_gap`. Without a clock every user is one session.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": 1, "item": [7, 8, 9], "time": ["2026-05-01 10:00", "10:20", "11:00"]})
        >>> frame["time"] = ["2026-05-01 10:00", "2026-05-01 10:20", "2026-05-01 11:00"]
        >>> Clicks.from_frame(frame).sessions.tolist()
        [0, 0, 1]
        """
        if "sessions" not in self._cache:
            self._cache["sessions"] = session_numbers(self.sequences, self.session_gap)
        numbers: NDArray[np.int64] = self._cache["sessions"]
        return numbers

    def by_session(self) -> tuple[Sequences, NDArray[np.int64]]:
        """Return the clicks session by session instead of user by user, and the user of each session."""
        numbers = self.sessions
        n_sessions = int(numbers.max(initial=-1)) + 1
        starts, order = grouped(numbers, n_sessions)
        times = None if self.times is None else self.times[order]
        return Sequences(starts, self.sequence[order], times), owners(self.starts)[order][starts[:-1]]

    @property
    def n_users(self) -> int:
        """The number of users, those without clicks included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """The number of items, those nobody clicked included."""
        return len(self.items)

    @property
    def n_clicks(self) -> int:
        """The number of distinct (user, item) clicks."""
        return int(self.matrix.nnz)

    @property
    def n_outside(self) -> int:
        """The number of clicks on items that are not among `items`: test clicks on items unseen in training."""
        return int((self.sequence < 0).sum())

    @property
    def per_user(self) -> NDArray[np.int64]:
        """The number of distinct clicks of each user.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 0]]).per_user.tolist()
        [2, 1]
        """
        return np.diff(self.matrix.indptr).astype(np.int64)

    @property
    def per_item(self) -> NDArray[np.int64]:
        """The number of users who clicked each item.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 0]]).per_item.tolist()
        [1, 2, 0]
        """
        return np.bincount(self.matrix.indices, minlength=self.n_items).astype(np.int64)

    def rows_of(self, users: Iterable[Any], hint: str = "") -> NDArray[np.int64]:
        """Return the rows of users by their ids; `UnknownIdError` lists those that are not there, then the hint.

        >>> Clicks.from_matrix([[1, 1], [0, 1]], users=["ann", "bob"]).rows_of(["bob", "ann"])
        array([1, 0])
        """
        return positions(users, self.users, "user", hint)

    def columns_of(self, items: Iterable[Any], hint: str = "") -> NDArray[np.int64]:
        """Return the columns of items by their ids; see `rows_of`."""
        return positions(items, self.items, "item", hint)

    def title_of(self, column: int) -> str:
        """Return the title of an item, or its id if it has none, for a sentence.

        >>> clicks = Clicks.from_matrix([[1, 1]], titles={0: "Zero"})
        >>> clicks.title_of(0), clicks.title_of(1)
        ('Zero', 'item 1')
        """
        if self.titles is not None and self.titled is not None and self.titled[column]:
            return str(self.titles[column])
        return f"item {self.items[column]}"

    def keep(self, mask: NDArray[np.bool_], step: str = "") -> Clicks:
        """Return only the clicks of the log for which the mask is True; all users and items stay."""
        kept = self._with(select(self.sequences, mask))
        return kept.with_steps(step) if step else kept

    def of_users(self, rows: ArrayLike) -> Clicks:
        """Return the clicks of some users alone, given by their rows, in that order; all items stay.

        >>> Clicks.from_matrix([[1, 1], [0, 1]], users=["ann", "bob"]).of_users([1]).users.tolist()
        ['bob']
        """
        chosen = _chosen(rows, self.n_users)
        over = None if self.session_over is None else self.session_over[chosen]
        return self._with(take_users(self.sequences, chosen), users=self.users[chosen], session_over=over)

    def of_items(self, columns: ArrayLike, *, keep_outside: bool = False) -> Clicks:
        """Return the clicks on some items alone, given by their columns, in that order; all users stay.

        With ``keep_outside`` clicks on other items stay in the log, as -1.
        """
        chosen = _chosen(columns, self.n_items)
        code = np.full(self.n_items + 1, -1, np.int32)  # the last is for -1
        code[chosen] = np.arange(len(chosen))
        own = {name: None if (v := getattr(self, name)) is None else v[chosen] for name in ("titles", "titled")}
        coded = self._with(self.sequences._replace(items=code[self.sequence]), items=self.items[chosen], **own)
        if self.items_table is not None:
            coded = replace(coded, items_table=self.items_table.take(chosen))
        kept = coded if keep_outside else coded.keep(coded.sequence >= 0)
        if kept.order is None and (np.diff(chosen) < 0).any():  # unordered clicks stand in the order of the columns
            return replace(kept, sequence=kept.sequence[np.lexsort((kept.sequence, owners(kept.starts)))])
        return kept

    def fingerprint(self) -> str:
        """Return the sha256 of who clicked what and in which order, ids included, as hexadecimal digits.

        >>> clicks, others = Clicks.from_matrix([[1, 0], [1, 1]]), Clicks.from_matrix([[1, 0], [0, 1]])
        >>> clicks.fingerprint() == others.fingerprint()
        False
        """
        sha = hashlib.sha256()
        arrays = [self.starts, self.sequence.astype("<i8")]
        if self.order is not None:
            sha.update(self.order.encode())
            arrays += [a.view(np.int64) for a in (self.times, self.session_ids) if a is not None]
            arrays += [np.array([self.session_gap])]
        for array in arrays:
            sha.update(len(array).to_bytes(8, "little") + array.astype("<i8").tobytes())
        for ids in (self.users, self.items):
            for value in ids.tolist():
                text = f"{type(value).__name__} {value!r}".encode(errors="surrogatepass")
                sha.update(len(text).to_bytes(8, "little") + text)
        return sha.hexdigest()

    def with_titles(
        self, titles: Any, *, item: str | None = None, title: str | None = None, usual: str = "item"
    ) -> Clicks:
        """Give the items titles, from a dict or from a frame with the columns `item` and `title`.

        Of a frame with two columns these need not be named: what is not called "item" (or `usual`) or "title" is
        the other one, and items come first.

        >>> Clicks.from_matrix([[1, 1]]).with_titles({0: "Zero"}).titles.tolist()
        ['Zero', '1']
        """
        known = isinstance(titles, Mapping)
        given, steps = (titles, []) if known else titles_of_frame(titles, item, title, usual)
        texts, titled, more = titles_for(self.items, given)
        return replace(self, titles=texts, titled=titled).with_steps(*steps, *more)

    def with_items(self, table: Any, *, title: str | None = None, groups: Iterable[str] | None = None) -> Clicks:
        """Say what is known of the items: a frame or a dict of columns, with a row for each item.

        Items stand in the column "item", or in the first one, titles in "title" (or `title`), links in "link" or
        "url", pictures in "image" or "picture", dates in "date" or "published". A column of numbers, such as
        prices, is kept as numbers. Other columns are groups, such as sections or genres; an item may be in several:
        a list, "news|local", or a row for each. A column that is different for most items is left out; `groups`
        names the columns of groups. Files are read by `read_clicks(items=...)` and `bmcd.clicks.read_items`.

        >>> clicks = Clicks.from_matrix([[1, 1]], items=["a", "b"])
        >>> clicks = clicks.with_items({"item": ["a", "b"], "section": ["news", "news|sports"]})
        >>> clicks.items_table.groups["section"].of_item(1)
        ('news', 'sports')
        """
        if table is None or isinstance(table, ItemTable):
            if table is not None and table.n_items != self.n_items:
                raise ClicksError(f"the table is of {table.n_items} items, but the clicks are on {self.n_items}.")
            return replace(self, items_table=table)
        if isinstance(table, Mapping):
            found = {name: list(values) for name, values in table.items()}
            if len({len(values) for values in found.values()}) > 1:
                raise ClicksError("the columns of the item table have different lengths.")
        else:
            names = column_names(table)
            found = dict(zip(names, (values.tolist() for values in columns(table, *names)), strict=True))
        made, titles, steps = make_item_table(found, self.items, title=title, groups=groups)
        clicks = replace(self, items_table=made).with_steps(*steps)
        return clicks.with_titles(titles) if titles and self.titles is None else clicks

    def items_frame(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each item: item, title, clicks, and the columns of the item table.

        >>> Clicks.from_matrix([[1, 1]], items=["a", "b"]).items_frame().columns.tolist()
        ['item', 'clicks']
        """
        import narwhals as nw

        data: dict[str, Any] = {"item": self.items.tolist()}
        if self.titles is not None:
            data["title"] = self.titles.tolist()
        data["clicks"] = self.per_item
        if (table := self.items_table) is not None:
            for name, groups in table.groups.items():
                data[name] = ["|".join(groups.of_item(column)) for column in range(self.n_items)]
            data |= table.numbers
            named = {"link": table.links, "image": table.pictures, "date": table.dates}
            data |= {name: array.tolist() for name, array in named.items() if array is not None}
        return nw.from_dict(data, backend=library or self.library).to_native()

    def most_clicked(self, n: int) -> Clicks:
        """Keep the n most clicked items, in their present order; of equally clicked ones the earlier stays.

        All users stay, also those left without clicks.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 1]]).most_clicked(2).items.tolist()
        [0, 1]
        """
        n = operator.index(n)
        if not 1 <= n <= self.n_items:
            raise ClicksError(
                f"cannot keep the {n} most clicked of {self.n_items} items; n must be 1 to {self.n_items}."
            )
        keep = np.sort(np.argsort(-self.per_item, kind="stable")[:n])
        kept = self.of_items(keep)
        emptied = int(((kept.per_user == 0) & (self.per_user > 0)).sum())
        step = f"kept the {n} most clicked of {self.n_items} items"
        step += f", which left {emptied} users without clicks" if emptied else ""
        return kept.with_steps(step)

    def at_least(self, n: int) -> Clicks:
        """Keep the users with at least n clicks; all items stay.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 0]]).at_least(2).history
        ('dropped 1 of 2 users with fewer than 2 clicks',)
        """
        n = operator.index(n)
        keep = self.per_user >= n
        if not keep.any():
            raise ClicksError(
                f"no user has at least {n} clicks; the most any user has is {self.per_user.max(initial=0)}."
            )
        if keep.all():
            return self
        step = f"dropped {(~keep).sum()} of {self.n_users} users with fewer than {n} clicks"
        return self.of_users(keep).with_steps(step)

    def add(self, more: Clicks, keep: str | None = None) -> Clicks:
        """Return the log with the clicks of another one, new users and items included.

        It is the log that reading all clicks at once would give: late clicks are sorted in, and a click that both
        have (user, item and time) counts once. Clicks without times come after those of the same user that are
        there. Ids that read the same are the same. With ``keep``, such as "72h", only clicks of that time before
        the last one stay, with their users and items.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": ["ann", "bob"], "item": ["tea", "milk"], "time": [1.7e9, 1.8e9]})
        >>> log = Clicks.from_frame(frame[:1]).add(Clicks.from_frame(frame))
        >>> log == Clicks.from_frame(frame), log.add(log, keep="1d").users.tolist()
        (True, ['bob'])
        """
        return adding.add(self, more, keep)

    def hold_out(
        self,
        k: int,
        seed: int = 0,
        *,
        by: Literal["chance", "time"] = "chance",
        keep: int = 1,
        too_few: Literal["error", "drop"] = "error",
    ) -> tuple[Clicks, Clicks]:
        """Take k clicks from each user: what is left to train on, and what was taken to test on.

        They are random ones or, with `by="time"` on an ordered log, the last ones, so that recommendations are
        evaluated on the future; of clicks at the very same time, chance decides. Both parts have the same users
        and items in the same order and share no (user, item) pair. Each user must have at least `k + keep` clicks;
        users with fewer are an error, or left out with `too_few="drop"`.

        >>> train, test = Clicks.from_matrix(np.ones((4, 5))).hold_out(2, seed=1)
        >>> train.n_clicks, test.n_clicks
        (12, 8)
        """
        return splitting.hold_out(self, k, seed, by, keep, too_few)

    def split_at(self, time: Any, k: int = 10, *, repeats: bool = False) -> tuple[Clicks, Clicks]:
        """Split a timed log: the clicks before `time`, and each user's first k new clicks from then on.

        A new click is a user's first click on an item; with `repeats=True` every click counts. Both parts have the
        users and items of the clicks before. Test clicks on items that nobody had clicked before take their place
        among the k and are misses for every model: `test.n_outside` counts them. Users without earlier clicks are
        left out and counted in `test.n_new_users`. `time` is a date as in "2026-05-01" (UTC unless it says
        otherwise), a datetime, or a number as in the log.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": [1, 1, 1, 2], "item": list("abca"), "time": [1.1e9, 1.2e9, 1.3e9, 1.1e9]})
        >>> train, test = Clicks.from_frame(frame).split_at("2007-01-01", k=1)
        >>> train.n_clicks, test.sequence.tolist(), test.n_outside
        (2, [-1], 1)
        """
        return splitting.split_at(self, time, k, repeats)

    def last(self, duration: str) -> Clicks:
        """Return the clicks of the last hours or days, back from the last click, such as "72h"; needs a clock.

        Users without clicks in that time are left out. All items stay, so that old items in histories are known.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": [1, 2, 2], "item": list("abc"), "time": [1.1e9, 1.2e9, 1.2e9 + 60]})
        >>> Clicks.from_frame(frame).last("1h").history
        ('kept the last 1h: 2 of 3 clicks, 1 users',)
        """
        return splitting.last(self, duration)

    def split_users(self, share: float = 0.8) -> tuple[Clicks, Clicks]:
        """Split an ordered log into earlier users and later users, by their first click; all items stay.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": [1, 1, 2, 3], "item": list("abca")})
        >>> [part.users.tolist() for part in Clicks.from_frame(frame, order="rows").split_users(0.67)]
        [[1, 2], [3]]
        """
        return splitting.split_users(self, share)

    def moments(self, k: int = 10, seed: int = 0, *, repeats: bool = False) -> tuple[Clicks, Clicks]:
        """Stop each user of an ordered log at a random moment: histories until then, and the next k new clicks.

        Only users with more than k clicks have such a moment; others are left out. With `repeats=True` every click
        counts as a next click, not only the first on an item. Ask a model that was fitted to other users with
        `model.recommend_for(histories, k)`, and evaluate the answer with
        `bmcd.evaluate(recommendations, train, test, histories=histories)`.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": 1, "item": list("abc")})
        >>> histories, test = Clicks.from_frame(frame, order="rows").moments(k=2)
        >>> histories.sequence.tolist(), test.sequence.tolist()
        ([0], [1, 2])
        """
        return splitting.moments(self, k, seed, repeats)

    def as_test(self, split: str, n_new_users: int = 0) -> Clicks:
        """Return the same clicks, marked as test clicks that were chosen in this way."""
        return replace(self, split=split, n_new_users=n_new_users)

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with one row per click, in order: user, item and, if there are any, title, time, session.

        By default in their own `library`. Test clicks on items outside `items` are left out.

        >>> Clicks.from_matrix([[0, 1]]).to_frame("pyarrow").to_pydict()
        {'user': [0], 'item': [1]}
        """
        import narwhals as nw

        inside = self.sequence >= 0
        item_codes = self.sequence[inside]
        data = {"user": self.users[owners(self.starts)[inside]].tolist(), "item": self.items[item_codes].tolist()}
        if self.titles is not None:
            data["title"] = self.titles[item_codes].tolist()
        if self.times is not None:
            data["time"] = self.times[inside].tolist()
        if self.session_ids is not None:
            data["session"] = self.session_ids[inside].tolist()
        return nw.from_dict(data, backend=library or self.library).to_native()

    def summary(self) -> ClicksSummary:
        """Count everything worth knowing about the clicks.

        >>> print(Clicks.from_matrix([[1, 1], [0, 0]]).summary())
        2 users x 2 items, 2 clicks (50.00%)
        clicks per user: 0 to 2, median 1.0 (1 with none)
        clicks per item: 1 to 1, median 1.0 (0 with none)
        items with a title: 0
        repeated clicks collapsed: 0
        rows dropped: 0
        """
        spreads = [
            (int(counts.min()), float(np.median(counts)), int(counts.max()))
            for counts in (self.per_user, self.per_item)
        ]
        return ClicksSummary(
            n_users=self.n_users,
            n_items=self.n_items,
            n_clicks=self.n_clicks,
            density=self.n_clicks / (self.n_users * self.n_items),
            clicks_per_user=spreads[0],
            clicks_per_item=spreads[1],
            n_users_without_clicks=int((self.per_user == 0).sum()),
            n_items_without_clicks=int((self.per_item == 0).sum()),
            n_titles=0 if self.titled is None else int(self.titled.sum()),
            n_repeated=self.n_repeated,
            history=self.history,
            n_dropped=self.n_dropped,
            order=self.order,
            n_sessions=0 if self.order is None else len(np.unique(self.sessions)),
            times=None
            if self.times is None or not len(self.times)
            else (self.times.min().item(), self.times.max().item()),
        )

    def __repr__(self) -> str:
        return f"Clicks({self.n_users:,} users x {self.n_items:,} items, {self.n_clicks:,} clicks)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clicks) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        arrays = (self.users, self.items, self.starts, self.sequence, self.titles, self.times, self.session_ids)
        return (self.order, *(None if array is None else array.tolist() for array in arrays))

    def with_steps(self, *steps: str) -> Clicks:
        """Return the same clicks with more steps in their history."""
        return replace(self, history=(*self.history, *steps))

    def _with(self, found: Sequences, **changes: Any) -> Clicks:
        changes |= {"starts": found.starts, "sequence": found.items}
        return replace(self, times=found.times, session_ids=found.sessions, **changes)


def _chosen(places: ArrayLike, number: int) -> NDArray[np.int64]:
    """Return the places chosen by numbers, which may be none, or by truth values."""
    own = np.asarray(places)
    chosen: NDArray[np.int64] = np.arange(number)[own if own.size else own.astype(np.int64)]
    return chosen
