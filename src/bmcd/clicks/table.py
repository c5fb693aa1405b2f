"""Who clicked what: an immutable table of users, items and clicks, and the steps that narrow it."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.clicks.frames import Library, library_of, rows_of_frame
from bmcd.clicks.holding_out import check_options, refuse_short, taken_at_random, taken_last
from bmcd.clicks.ids import Coded, Missing, distinct, positions
from bmcd.clicks.matrices import joined, narrowed, nonzero
from bmcd.clicks.rows import Rows, complete
from bmcd.clicks.summary import ClicksSummary
from bmcd.clicks.titles import titles_for, titles_of_frame, titles_of_rows
from bmcd.errors import ClicksError

__all__ = ["Clicks", "ClicksError", "ClicksSummary", "Library"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Clicks:
    """Which user clicked which item; made by `from_frame`, `from_matrix` or `read_clicks`.

    `users` and `items` are the caller's own ids, in order of first appearance; row u and column i of
    `matrix` (CSR, bool, sorted) are `users[u]` and `items[i]`. `titles` go with `items`; where an item has
    none (`titled` is False) its id stands in. `times` go with the clicks as they stand in `matrix`, if they are
    known: numbers or dates; only their order matters. `history` says in plain words everything that was done, and
    `library` is that in which answers are given, pandas, polars or pyarrow: that of the frame they came from.
    Two `Clicks` are equal when users, items, clicks and titles are; the rest
    may differ.

    >>> clicks = Clicks.from_matrix([[1, 1, 0], [0, 1, 1]], users=["ann", "bob"])
    >>> clicks
    Clicks(2 users x 3 items, 4 clicks)
    >>> clicks.at_least(2).most_clicked(1).history
    ('kept the 1 most clicked of 3 items',)
    """

    users: NDArray[Any]
    items: NDArray[Any]
    matrix: sparse.csr_array[Any]
    titles: NDArray[np.object_] | None = None
    titled: NDArray[np.bool_] | None = None
    n_repeated: int = 0
    history: tuple[str, ...] = ()
    library: Library = "pandas"
    times: NDArray[Any] | None = None
    n_dropped: int = 0

    def __post_init__(self) -> None:
        if self.times is not None and len(self.times) != self.matrix.nnz:
            raise ValueError(f"{len(self.times)} times for {self.matrix.nnz} clicks")
        for field in fields(self):
            if isinstance(array := getattr(self, field.name), np.ndarray):
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
        missing: Missing = "error",
    ) -> Clicks:
        """Read a pandas, polars or Arrow table with one row a click; lazy frames are collected.

        Ids may be anything hashable; blanks around those that are text are stripped. A row without one is an
        error, or left out and counted with `missing="drop"`. `titles` is a dict from item to title, or a frame;
        see `with_titles`. `title_column` names a column of the frame itself that has the titles, `time_column` one
        that says when. The frame is not changed; a click that is repeated counts once, at its first time.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": ["ann", "bob", "ann"], "item": [7, 7, 9]})
        >>> Clicks.from_frame(frame, titles={7: "Seven"}).titles.tolist()
        ['Seven', '9']
        """
        check_columns(
            {"user": user, "item": item, "title_column": title_column, "time_column": time_column}, titles
        )
        rows = rows_of_frame(frame, user, item, time_column, title_column, missing)
        clicks = replace(cls.from_rows(complete(rows)), library=library_of(frame))
        return clicks if titles is None else clicks.with_titles(titles, item=title_item, title=title, usual=item)

    @classmethod
    def from_rows(cls, rows: Rows) -> Clicks:
        """Make clicks of the complete rows of a log, and keep what was done to them."""
        clicks = cls.from_codes(rows.users.codes, rows.items.codes, rows.users.ids, rows.items.ids, rows.times)
        if rows.titles is not None:
            titles, steps = titles_of_rows(rows.items, rows.titles)
            clicks = clicks.with_titles(titles).with_steps(*steps)
        return replace(clicks, n_dropped=rows.n_dropped, history=(*rows.steps, *clicks.history))

    @classmethod
    def from_codes(
        cls,
        user_codes: NDArray[Any],
        item_codes: NDArray[Any],
        users: NDArray[Any],
        items: NDArray[Any],
        times: NDArray[Any] | None = None,
    ) -> Clicks:
        """Join codes, one pair a click, with the ids they stand for; repeated clicks keep their first time.

        >>> clicks = Clicks.from_codes(np.array([0, 1, 0]), np.zeros(3, int), np.array([5, 6]), np.array([7]))
        >>> clicks.history
        ('1 repeated clicks collapsed',)
        """
        if len(user_codes) == 0:
            raise ClicksError("there are no rows, so there are no clicks to read.")
        matrix, kept = joined(user_codes, item_codes, (len(users), len(items)), times)
        repeated = len(user_codes) - matrix.nnz
        history = (f"{repeated} repeated clicks collapsed",) if repeated else ()
        return cls(users, items, matrix, n_repeated=repeated, history=history, times=kept)

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
    def n_users(self) -> int:
        """How many users there are, those without clicks included."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """How many items there are, those nobody clicked included."""
        return len(self.items)

    @property
    def n_clicks(self) -> int:
        """How many different (user, item) clicks there are."""
        return int(self.matrix.nnz)

    @property
    def per_user(self) -> NDArray[np.int64]:
        """How many clicks each user has.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 0]]).per_user.tolist()
        [2, 1]
        """
        return np.diff(self.matrix.indptr).astype(np.int64)

    @property
    def per_item(self) -> NDArray[np.int64]:
        """How many clicks each item has.

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

    def of_users(self, rows: ArrayLike) -> Clicks:
        """Return the clicks of some users alone, given by their rows, in that order; all items stay.

        >>> Clicks.from_matrix([[1, 1], [0, 1]], users=["ann", "bob"]).of_users([1]).users.tolist()
        ['bob']
        """
        kept = np.asarray(rows)
        matrix, times = narrowed(self.matrix, self.times, rows=kept)
        return replace(self, users=self.users[kept], matrix=matrix, times=times)

    def fingerprint(self) -> str:
        """Return the sha256 of who clicked what, ids included, whatever the times, as hexadecimal digits.

        >>> clicks, others = Clicks.from_matrix([[1, 0], [1, 1]]), Clicks.from_matrix([[1, 0], [0, 1]])
        >>> clicks.fingerprint() == others.fingerprint()
        False
        """
        sha = hashlib.sha256()
        for array in (self.matrix.indptr, self.matrix.indices):
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
        matrix, times = narrowed(self.matrix, self.times, columns=keep)
        emptied = int(((np.diff(matrix.indptr) == 0) & (self.per_user > 0)).sum())
        step = f"kept the {n} most clicked of {self.n_items} items"
        step += f", which left {emptied} users without clicks" if emptied else ""
        titles = None if self.titles is None else self.titles[keep]
        titled = None if self.titled is None else self.titled[keep]
        return replace(
            self, items=self.items[keep], matrix=matrix, titles=titles, titled=titled, times=times
        ).with_steps(step)

    def at_least(self, n: int) -> Clicks:
        """Keep the users with at least n clicks; all items stay.

        >>> Clicks.from_matrix([[1, 1, 0], [0, 1, 0]]).at_least(2).history
        ('dropped 1 of 2 users with fewer than 2 clicks',)
        """
        n = operator.index(n)
        keep = self.per_user >= n
        if not keep.any():
            raise ClicksError(f"no user has at least {n} clicks; the most any user has is {self.per_user.max()}.")
        if keep.all():
            return self
        step = f"dropped {(~keep).sum()} of {self.n_users} users with fewer than {n} clicks"
        return self.of_users(keep).with_steps(step)

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

        They are random ones or, with `by="time"`, the last ones, so that recommendations are judged on the
        future; of clicks at the very same time, chance decides. Both parts have the same users and items in the
        same order and share no click. Each user must have at least `k + keep` clicks; users who have not are an
        error, or left out with `too_few="drop"`.

        >>> train, test = Clicks.from_matrix(np.ones((4, 5))).hold_out(2, seed=1)
        >>> train.n_clicks, test.n_clicks
        (12, 8)
        """
        k, keep = operator.index(k), operator.index(keep)
        check_options(k, keep, by, too_few, has_times=self.times is not None)
        if too_few == "drop":
            return self.at_least(k + keep).hold_out(k, seed, by=by, keep=keep)
        refuse_short(self.users, self.per_user, k, keep)
        if by == "time" and self.times is not None:
            taken = taken_last(self.matrix.indptr, self.times, k, seed)
            which, how = f"the last {k}", f"by time (seed {seed} where times are equal)"
        else:
            taken, which, how = taken_at_random(self.matrix.indptr, k, seed), f"{k}", f"(seed {seed})"
        return (
            self._part(~taken, f"held out {which} clicks of each user {how}"),
            self._part(taken, f"kept only the {which.removeprefix('the ')} held-out clicks of each user {how}"),
        )

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with one row a click: user, item and, if there are any, title and time.

        By default in their own `library`.

        >>> Clicks.from_matrix([[0, 1]]).to_frame("pyarrow").to_pydict()
        {'user': [0], 'item': [1]}
        """
        import narwhals as nw

        item_codes = self.matrix.indices
        data = {"user": np.repeat(self.users, self.per_user).tolist()}
        data["item"] = self.items[item_codes].tolist()
        if self.titles is not None:
            data["title"] = self.titles[item_codes].tolist()
        if self.times is not None:
            data["time"] = self.times.tolist()
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
            times=None
            if self.times is None or not self.n_clicks
            else (self.times.min().item(), self.times.max().item()),
        )

    def __repr__(self) -> str:
        return f"Clicks({self.n_users:,} users x {self.n_items:,} items, {self.n_clicks:,} clicks)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clicks) and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]

    def _content(self) -> tuple[Any, ...]:
        arrays = (self.users, self.items, self.matrix.indptr, self.matrix.indices, self.titles)
        return tuple(None if array is None else array.tolist() for array in arrays)

    def with_steps(self, *steps: str) -> Clicks:
        """Return the same clicks with more steps in their history."""
        return replace(self, history=(*self.history, *steps))

    def _part(self, mask: NDArray[np.bool_], step: str) -> Clicks:
        starts = np.concatenate(([0], np.cumsum(mask)))[self.matrix.indptr]
        parts = (self.matrix.data[mask], self.matrix.indices[mask], starts.astype(self.matrix.indptr.dtype))
        times = None if self.times is None else self.times[mask]
        return replace(self, matrix=sparse.csr_array(parts, shape=self.matrix.shape), times=times).with_steps(step)


def check_columns(names: Mapping[str, str | None], titles: Any) -> None:
    """Refuse columns of a log that contradict each other, given by the arguments that name them."""
    given = {argument: name for argument, name in names.items() if name is not None}
    for (one, name), (two, other) in combinations(given.items(), 2):
        if name == other:
            raise ClicksError(f"{one} and {two} are both {name!r}; they must be two different columns.")
    if titles is not None and "title_column" in given:
        raise ClicksError("titles and title_column are two sources of titles. Give one of them.")
