"""What every recommender here must do: a contract that BMCD and its rivals are held to, and yours can be.

>>> from bmcd import BMCD, testing
>>> testing.check_recommender(lambda: BMCD(2), fit={"draws": 5, "warmup": 5, "chains": 2})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bmcd.clicks.table import Clicks
from bmcd.errors import ContractError

__all__ = ["ContractError", "check_recommender", "example_clicks"]


def example_clicks(seed: int = 0, n_users: int = 60, n_items: int = 12) -> Clicks:
    """Two tastes, ids that are not in order; one user has clicked all items but two, another a single one.

    >>> example_clicks()
    Clicks(60 users x 12 items, 257 clicks)
    """
    rng = np.random.default_rng(seed)
    taste = np.linspace(2.0, -3.0, n_items)
    odds = np.where(np.arange(n_users)[:, None] % 2, taste, taste[::-1]) + rng.logistic(size=(n_users, n_items)) - 1
    clicked = odds > 0
    clicked[np.arange(n_users), rng.integers(0, n_items, n_users)] = True
    clicked[0] = True
    clicked[0, [3, 7]] = False
    clicked[1] = False
    clicked[1, 5] = True
    users = [f"u{7919 * u % 1000:03d}" for u in range(n_users)]
    return Clicks.from_matrix(clicked, users=users, items=[f"i{(31 * i + 5) % 97:02d}" for i in range(n_items)])


def check_recommender(
    make: Callable[[], Any], *, fit: Mapping[str, Any] | None = None, clicks: Clicks | None = None, k: int = 4
) -> None:
    """Raise `ContractError` unless what ``make()`` returns keeps the contract.

    ``fit(clicks, **fit)`` returns the model itself and leaves the clicks as they were. ``recommend(k)`` returns a
    frame with the columns user, item, rank, and probability or score, in which:

    * users come in the order asked for, each with ranks 1, 2, ..., best first, and no item twice;
    * clicked items never come back; there are k rows, or as many as there are unclicked items;
    * users one by one, or in another order, get what they get together;
    * the order of ``items=`` does not matter, and only those come back;
    * probabilities lie in [0, 1], and a user's sum to at most k;
    * ids are those of the clicks, and titles come with them;
    * asking twice gives the same, and a model fitted again has forgotten what it was fitted to before;
    * an unknown user or item, or a k below 1, is an error.
    """
    clicks = clicks or example_clicks()
    options = dict(fit or {})
    before = (clicks.matrix.copy(), clicks.users.copy(), clicks.items.copy())
    model = make()
    _need(model.fit(clicks, **options) is model, "fit must return the model itself")
    same = not (clicks.matrix.toarray() != before[0].toarray()).any() and (clicks.users == before[1]).all()
    _need(same and (clicks.items == before[2]).all(), "fit must not change the clicks")
    together = model.recommend(k)
    _check_lists(together, clicks, clicks.users.tolist(), k, clicks.items.tolist())
    _equal(model.recommend(k), together, "asking twice must give the same")
    _check_users(model, together, clicks, k)
    _check_items(model, clicks, k)
    _check_refit(make, model, clicks, options, k)
    for bad in ({"k": 0}, {"users": ["nobody like this"]}, {"items": ["nothing like this"]}):
        try:
            model.recommend(**{"k": k, **bad})
        except (ValueError, KeyError):
            continue
        raise ContractError(f"recommend({bad}) must be an error")


def _check_lists(frame: Any, clicks: Clicks, users: list[Any], k: int, allowed: list[Any]) -> None:
    rows = _rows(frame)
    value = _value(rows)
    columns = ["user", "item", *(["title"] if clicks.titles is not None else []), "rank", value]
    _need(list(rows)[: len(columns)] == columns, f"the columns must begin with {columns}, not {list(rows)}")
    by_user: dict[Any, list[int]] = {}
    for row, user in enumerate(rows["user"]):
        by_user.setdefault(user, []).append(row)
    place = {own: i for i, own in enumerate(clicks.users.tolist())}
    matrix, items = clicks.matrix.toarray(), clicks.items.tolist()
    expected = []
    for user in users:
        clicked = {items[i] for i in np.flatnonzero(matrix[place[user]])}
        left = [item for item in allowed if item not in clicked]
        at = by_user.get(user, [])
        got = [rows["item"][row] for row in at]
        _need(not clicked & set(got), f"user {user!r} gets items that were clicked: {clicked & set(got)}")
        _need(set(got) <= set(left), f"user {user!r} gets items that were not asked for: {set(got) - set(left)}")
        _need(len(set(got)) == len(got), f"user {user!r} gets an item twice: {got}")
        wanted = min(k, len(left))
        _need(len(got) == wanted, f"user {user!r} gets {len(got)} items, not {wanted}")
        ranks = [rows["rank"][row] for row in at]
        _need(ranks == list(range(1, len(ranks) + 1)), f"user {user!r} has the ranks {ranks}")
        values = np.array([rows[value][row] for row in at], float)
        _need(bool(np.isfinite(values).all()), f"user {user!r} has a {value} that is not finite: {values}")
        _need(bool((np.diff(values) <= 1e-6).all()), f"user {user!r} does not get the best first: {values}")
        if value == "probability":
            inside = bool(((values >= 0) & (values <= 1)).all())
            _need(inside and values.sum() <= k + 1e-9, f"user {user!r} has the probabilities {values}")
        expected += [user] * len(at)
    _need(rows["user"] == expected, "users must come together, and in the order asked for")


def _check_users(model: Any, together: Any, clicks: Clicks, k: int) -> None:
    users = clicks.users.tolist()
    rows = _rows(together)
    mixed = users[::-3] + users[1:4]
    mixed = list(dict.fromkeys(mixed))
    _check_lists(model.recommend(k, users=mixed), clicks, mixed, k, clicks.items.tolist())
    for chosen in (mixed, users[:1], users[1:2]):
        got = _rows(model.recommend(k, users=chosen))
        want: dict[str, list[Any]] = {name: [] for name in rows}
        for user in chosen:
            at = [row for row, other in enumerate(rows["user"]) if other == user]
            for name, values in rows.items():
                want[name] += [values[row] for row in at]
        _equal_rows(got, want, "users asked for alone must get what they get together")


def _check_items(model: Any, clicks: Clicks, k: int) -> None:
    some = clicks.items.tolist()[::2]
    frame = model.recommend(k, items=some)
    _check_lists(frame, clicks, clicks.users.tolist(), k, some)
    _equal(model.recommend(k, items=some[::-1]), frame, "the order of items= must not matter")


def _check_refit(make: Callable[[], Any], model: Any, clicks: Clicks, options: dict[str, Any], k: int) -> None:
    other = example_clicks(seed=1, n_users=clicks.n_users + 5, n_items=max(clicks.n_items - 2, 8))
    model.fit(other, **options)
    again = model.recommend(k)
    _check_lists(again, other, other.users.tolist(), k, other.items.tolist())
    _equal(again, make().fit(other, **options).recommend(k), "a model fitted again must be like a new one")
    titled = other.with_titles({own: f"Title of {own}" for own in other.items.tolist()})
    frame = model.fit(titled, **options).recommend(k)
    _check_lists(frame, titled, titled.users.tolist(), k, titled.items.tolist())
    rows = _rows(frame)
    right = [f"Title of {item}" for item in rows["item"]]
    _need(rows["title"] == right, "titles must be those of the items")


def _rows(frame: Any) -> dict[str, list[Any]]:
    import narwhals as nw

    found: dict[str, list[Any]] = nw.from_native(frame).to_dict(as_series=False)
    return found


def _value(rows: Mapping[str, list[Any]]) -> str:
    found = [name for name in ("probability", "score") if name in rows]
    _need(len(found) == 1, f"there must be a column probability or score: {list(rows)}")
    return found[0]


def _equal(one: Any, two: Any, what: str) -> None:
    _equal_rows(_rows(one), _rows(two), what)


def _equal_rows(one: Mapping[str, list[Any]], two: Mapping[str, list[Any]], what: str) -> None:
    _need(list(one) == list(two), f"{what}: the columns differ, {list(one)} and {list(two)}")
    for name, values in one.items():
        others = two[name]
        same = len(values) == len(others) and all(
            a == b or (isinstance(a, float) and (abs(a - b) <= 1e-9 * max(1.0, abs(a)) or (a != a and b != b)))
            for a, b in zip(values, others, strict=True)
        )
        _need(same, f"{what}: {name} differs")


def _need(true: bool, otherwise: str) -> None:
    if not true:
        raise ContractError(otherwise)
