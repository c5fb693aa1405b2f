"""Who clicked what: an immutable table of users, items and clicks, and the steps that narrow it."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from bmcd.clicks.frames import columns, distinct, encode, library_of, nonzero, objects, titles_of_frame
from bmcd.errors import ClicksError, InputTypeError, UnknownIdError
from bmcd.system.text import listed, shown

__all__ = ["Clicks", "ClicksError", "ClicksSummary"]

Library = Literal["pandas", "polars", "pyarrow"]


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
                f"repeated clicks collapsed: {self.n_repeated:,}",
                *(f"- {step}" for step in self.history),
            ]
        )


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Clicks:
    """Which user clicked which item; made by `from_frame`, `from_matrix` or `read_clicks`.

    `users` and `items` are the caller's own ids, in order of first appearance; row u and column i of
    `matrix` (CSR, bool, sorted) are `users[u]` and `items[i]`. `titles` go with `items`; where an item has
    none (`titled` is False) its id stands in. `history` says in plain words everything that was done, and
    `library` is that of the frame they came from, in which answers are given: pandas, polars or pyarrow.
    Two `Clicks` are equal when users, items, clicks and titles are; the rest may differ.

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

    def __post_init__(self) -> None:
        for field in fields(self):
            if isinstance(array := getattr(self, field.name), np.ndarray):
                array.setflags(write=False)

    @classmethod
    def from_frame(
        cls, frame: Any, user: str = "user", item: str = "item", titles: Any = None, *, title: str = "title"
    ) -> Clicks:
        """Read a pandas, polars or Arrow table with one row a click; lazy frames are collected.

        Ids may be anything hashable. `titles` is a dict from item to title, or a frame with the columns
        `item` and `title`. The frame is not changed; a click that is repeated counts once.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"user": ["ann", "bob", "ann"], "item": [7, 7, 9]})
        >>> Clicks.from_frame(frame, titles={7: "Seven"}).titles.tolist()
        ['Seven', '9']
        """
        if user == item:
            raise ClicksError(f"user and item are both {user!r}; they must be two different columns.")
        (user_codes, users), (item_codes, items) = (
            encode(values, name) for values, name in zip(columns(frame, user, item), (user, item), strict=True)
        )
        clicks = replace(cls.from_codes(user_codes, item_codes, users, items), library=library_of(frame))
        return clicks if titles is None else clicks.with_titles(titles, item=item, title=title)

    @classmethod
    def from_codes(
        cls, user_codes: NDArray[Any], item_codes: NDArray[Any], users: NDArray[Any], items: NDArray[Any]
    ) -> Clicks:
        """Join codes, one pair a click, with the ids they stand for.

        >>> clicks = Clicks.from_codes(np.array([0, 1, 0]), np.zeros(3, int), np.array([5, 6]), np.array([7]))
        >>> clicks.history
        ('1 repeated clicks collapsed',)
        """
        if len(user_codes) == 0:
            raise ClicksError("there are no rows, so there are no clicks to read.")
        ones = np.ones(len(user_codes), dtype=np.bool_)
        matrix = sparse.csr_array((ones, (user_codes, item_codes)), shape=(len(users), len(items)))
        matrix.sum_duplicates()
        repeated = len(user_codes) - matrix.nnz
        history = (f"{repeated} repeated clicks collapsed",) if repeated else ()
        return cls(users, items, matrix, n_repeated=repeated, history=history)

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
            np.arange(length) if ids is None else distinct(list(ids), what, length)
            for ids, what, length in zip((users, items), ("user", "item"), shape, strict=True)
        ]
        clicks = cls.from_codes(user_codes, item_codes, own[0], own[1])
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
        return replace(self, users=self.users[kept], matrix=self.matrix[kept])

    def fingerprint(self) -> str:
        """Return the sha256 of who clicked what, ids included, as hexadecimal digits.

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

    def with_titles(self, titles: Any, *, item: str = "item", title: str = "title") -> Clicks:
        """Give the items titles, from a dict or from a frame with the columns `item` and `title`.

        >>> Clicks.from_matrix([[1, 1]]).with_titles({0: "Zero"}).titles.tolist()
        ['Zero', '1']
        """
        given = titles if isinstance(titles, Mapping) else titles_of_frame(titles, item, title)
        # NaN is what frames write, and dicts made of them hold, where there is no text.
        named = {key: str(text) for key, text in given.items() if text is not None and text == text}
        named = {key: text for key, text in named.items() if text.strip()}
        for key, text in named.items():
            if not _is_unicode(text):
                raise ClicksError(f"the title of item {shown(key)} is not valid Unicode: {shown(text)}.")
        own = self.items.tolist()
        titled = np.array([key in named for key in own])
        if not titled.any():
            example = f"{shown(next(iter(named)))} against {shown(own[0])}" if named else "there are none"
            raise ClicksError(f"no title belongs to a clicked item ({example}). Check the item ids of the titles.")
        texts = objects([named.get(key, str(key)) for key in own])
        unused = len(named) - int(titled.sum())
        steps = (f"{unused} titles of items nobody clicked left out",) if unused else ()
        return replace(self, titles=texts, titled=titled).with_steps(*steps)

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
        matrix = self.matrix[:, keep]
        matrix.sort_indices()
        emptied = int(((np.diff(matrix.indptr) == 0) & (self.per_user > 0)).sum())
        step = f"kept the {n} most clicked of {self.n_items} items"
        step += f", which left {emptied} users without clicks" if emptied else ""
        titles = None if self.titles is None else self.titles[keep]
        titled = None if self.titled is None else self.titled[keep]
        return replace(self, items=self.items[keep], matrix=matrix, titles=titles, titled=titled).with_steps(step)

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
        self, k: int, seed: int = 0, *, keep: int = 1, too_few: Literal["error", "drop"] = "error"
    ) -> tuple[Clicks, Clicks]:
        """Take k random clicks from each user: what is left to train on, and what was taken to test on.

        Both parts have the same users and items in the same order and share no click. Each user must have
        at least `k + keep` clicks; users who have not are an error, or left out with `too_few="drop"`.

        >>> train, test = Clicks.from_matrix(np.ones((4, 5))).hold_out(2, seed=1)
        >>> train.n_clicks, test.n_clicks
        (12, 8)
        """
        k, keep = operator.index(k), operator.index(keep)
        if k < 1 or keep < 0 or too_few not in ("error", "drop"):
            raise ClicksError(
                f"k must be 1 or more, keep 0 or more, too_few 'error' or 'drop': {k}, {keep}, {too_few!r}."
            )
        short = np.flatnonzero(self.per_user < k + keep)
        if short.size and too_few == "drop":
            return self.at_least(k + keep).hold_out(k, seed, keep=keep)
        if short.size:
            named = ", ".join(f"{shown(self.users[u])} has {self.per_user[u]}" for u in short[:5])
            named += f" and {len(short) - 5} more have too few" if len(short) > 5 else ""
            raise ClicksError(
                f"holding out {k} and keeping {keep} needs {k + keep} clicks of each user, but user "
                f"{named}. Use at_least({k + keep}) first, or too_few='drop'."
            )
        starts, clicked_by = self.matrix.indptr, np.repeat(np.arange(self.n_users), self.per_user)
        # Sorting random keys within users gives each user a random order; the first k of it are taken.
        order = np.lexsort((np.random.default_rng(seed).random(self.n_clicks), clicked_by))
        taken = np.zeros(self.n_clicks, dtype=np.bool_)
        taken[order[np.arange(self.n_clicks) - starts[clicked_by] < k]] = True
        return (
            self._part(~taken, f"held out {k} clicks of each user (seed {seed})"),
            self._part(taken, f"kept only the {k} held-out clicks of each user (seed {seed})"),
        )

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with one row a click: user, item and, if there are any, title.

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
        return nw.from_dict(data, backend=library or self.library).to_native()

    def summary(self) -> ClicksSummary:
        """Count everything worth knowing about the clicks.

        >>> print(Clicks.from_matrix([[1, 1], [0, 0]]).summary())
        2 users x 2 items, 2 clicks (50.00%)
        clicks per user: 0 to 2, median 1.0 (1 with none)
        clicks per item: 1 to 1, median 1.0 (0 with none)
        items with a title: 0
        repeated clicks collapsed: 0
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
        return replace(self, matrix=sparse.csr_array(parts, shape=self.matrix.shape)).with_steps(step)


def positions(wanted: Iterable[Any], known: NDArray[Any], what: str, hint: str = "") -> NDArray[np.int64]:
    """Return where each id wanted stands among those known; `UnknownIdError` lists those that are not there."""
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise InputTypeError(f"{what}s must be a list of ids, such as [{shown(wanted)}], not {shown(wanted)}.")
    place = {value: number for number, value in enumerate(known.tolist())}
    ids = [value.item() if isinstance(value, np.generic) else value for value in wanted]
    if unknown := [value for value in ids if value not in place]:
        count = f"{len(unknown)} of {len(ids)} {what}s are" if len(ids) > 1 else f"the {what} is"
        raise UnknownIdError(
            f"{count} not known: {listed([shown(value) for value in unknown])}. The {what} ids look like "
            f"{listed([shown(value) for value in known[:3]])}. {hint}"
        )
    return np.array([place[value] for value in ids], np.int64)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which no frame can hold
        return False
    return True
