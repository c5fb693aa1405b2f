"""The contract that models and baselines keep, as a check that any other recommender can be put through.

>>> from bmcd import BMCD, testing
>>> testing.check_recommender(lambda: BMCD(2), fit={"draws": 5, "warmup": 5, "chains": 2})
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bmcd.clicks.log import Clicks
from bmcd.errors import ContractError, FitWarning, ShortListWarning

__all__ = ["ContractError", "check_recommender", "example_clicks"]

Rows = Mapping[str, list[Any]]
"""A frame as lists by the name of the column."""


def example_clicks(seed: int = 0, n_users: int = 60, n_items: int = 12, *, ordered: bool = False) -> Clicks:
    """Return clicks of users with one of two tastes, whose ids are not in order.

    One user has clicked all items but two, and another a single one; without order these are the first two. With
    ``ordered`` the same clicks have random times within two days, and some of them are repeated.

    >>> example_clicks(), example_clicks(ordered=True).order
    (Clicks(60 users x 12 items, 257 clicks), 'time')
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
    users = np.array([f"u{7919 * u % 1000:03d}" for u in range(n_users)], object)
    items = np.array([f"i{(31 * i + 5) % 97:02d}" for i in range(n_items)], object)
    if not ordered:
        return Clicks.from_matrix(clicked, users=users, items=items)
    rows, columns = np.nonzero(clicked)
    again = rng.random(len(rows)) < 0.2
    rows, columns = np.concatenate((rows, rows[again])), np.concatenate((columns, columns[again]))
    seconds = rng.permutation(2 * 86_400)[: len(rows)]  # no two clicks at the same time
    times = np.datetime64("2026-05-01", "us") + seconds * np.timedelta64(1, "s")
    return Clicks.from_codes(rows, columns, users, items, times=times, order="time")


def check_recommender(
    make: Callable[[], Any],
    *,
    fit: Mapping[str, Any] | None = None,
    clicks: Clicks | None = None,
    k: int = 4,
    histories: bool = True,
) -> None:
    """Raise `ContractError` unless what ``make()`` returns keeps the contract.

    ``fit(clicks, **fit)`` returns the model itself and does not change the clicks. ``recommend(k)`` returns a frame
    with the columns user, item, rank, and probability or score, in which:

    * users come in the order asked for, each with ranks 1, 2, ..., best first, and no item twice;
    * clicked items never come back; there are k rows, or as many as there are unclicked items;
    * users one by one, or in another order, get what they get together;
    * the order of ``items=`` does not matter, and only those come back;
    * probabilities lie in [0, 1], and a user's sum to at most k;
    * ids are those of the clicks, and titles come with them;
    * asking twice gives the same, and a model fitted again has forgotten what it was fitted to before;
    * an unknown user or item, or a k below 1, is an error.

    ``recommend_for(histories, k=, items=, unknown=)`` returns the same kind of frame for the users of histories, in
    which:

    * each gets what they get alone; an empty history, and an item that is repeated, are no errors;
    * lists of items, the latest last, give what a frame with times gives, whatever the order of its rows;
    * an unknown item is an error, unless `unknown="ignore"` leaves it out.

    With ``histories=False``, for a method that cannot serve users it was not fitted to, `recommend_for` is not
    checked. ``clicks`` are by default those of `example_clicks`. Check a recommender that uses order on an ordered
    log:

    >>> from bmcd.baselines import EASE, Transitions
    >>> check_recommender(EASE)
    >>> check_recommender(Transitions, clicks=example_clicks(ordered=True))
    """
    with warnings.catch_warnings():
        # The clicks are few, and so may be the draws; neither is against the contract.
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ShortListWarning)
        _check(make, dict(fit or {}), clicks or example_clicks(), k, histories)


def _check(make: Callable[[], Any], options: dict[str, Any], clicks: Clicks, k: int, histories: bool) -> None:
    before, matrix = clicks.fingerprint(), clicks.matrix.toarray()
    model = make()
    _need(model.fit(clicks, **options) is model, "fit must return the model itself")
    same = clicks.fingerprint() == before and (clicks.matrix.toarray() == matrix).all()
    _need(same, "fit must not change the clicks")
    together = _rows(model.recommend(k))
    _check_lists(together, clicks, k)
    _check_equal(_rows(model.recommend(k)), together, "asking twice must give the same")
    _check_users(model, together, clicks, k)
    _check_items(model, clicks, k)
    if histories:
        _check_histories(model, clicks, k)
    _check_refit(make, model, clicks, options, k)
    for bad in ({"k": 0}, {"users": ["nobody like this"]}, {"items": ["nothing like this"]}):
        try:
            model.recommend(**{"k": k, **bad})
        except (ValueError, KeyError):
            continue
        raise ContractError(f"recommend({bad}) must be an error")


def _check_lists(
    rows: Rows,
    clicks: Clicks,
    k: int,
    *,
    users: list[Any] | None = None,
    items: list[Any] | None = None,
    histories: Mapping[Any, list[Any]] | None = None,
) -> None:
    """Check the lists of some users (by default all) or of histories, from some items (by default all)."""
    value = _value_column(rows)
    columns = ["user", "item", *(["title"] if clicks.titles is not None else []), "rank", value]
    _need(list(rows)[: len(columns)] == columns, f"the columns must begin with {columns}, not {list(rows)}")
    users = list(histories) if histories is not None else clicks.users.tolist() if users is None else users
    if histories is None:
        clicked_by = [clicks.items[clicks.matrix[[row]].indices].tolist() for row in clicks.rows_of(users)]
    else:
        clicked_by = list(histories.values())
    allowed = set(clicks.items.tolist() if items is None else items)
    in_order = []
    for user, clicked in zip(users, map(set, clicked_by), strict=True):
        places = [place for place, other in enumerate(rows["user"]) if other == user]
        shown, ranks = ([rows[name][place] for place in places] for name in ("item", "rank"))
        values = np.array([rows[value][place] for place in places], float)
        _need(clicked.isdisjoint(shown), f"user {user!r} gets items that were clicked: {clicked & set(shown)}")
        _need(allowed.issuperset(shown), f"user {user!r} gets items not asked for: {set(shown) - allowed}")
        _need(len(set(shown)) == len(shown), f"user {user!r} gets an item twice: {shown}")
        n_expected = min(k, len(allowed - clicked))
        _need(len(shown) == n_expected, f"user {user!r} gets {len(shown)} items, not {n_expected}")
        _need(ranks == list(range(1, len(ranks) + 1)), f"user {user!r} has the ranks {ranks}")
        _need(np.isfinite(values).all(), f"user {user!r} has a {value} that is not finite: {values}")
        _need((np.diff(values) <= 1e-6).all(), f"user {user!r} does not get the best first: {values}")
        if value == "probability":
            inside = ((values >= 0) & (values <= 1)).all() and values.sum() <= k + 1e-9
            _need(inside, f"user {user!r} has the probabilities {values}")
        in_order += [user] * len(places)
    _need(rows["user"] == in_order, "users must come together, and in the order asked for")


def _check_users(model: Any, together: Rows, clicks: Clicks, k: int) -> None:
    users = clicks.users.tolist()
    mixed = list(dict.fromkeys(users[::-3] + users[1:4]))
    _check_lists(_rows(model.recommend(k, users=mixed)), clicks, k, users=mixed)
    for chosen in (mixed, users[:1], users[1:2]):
        places = [place for user in chosen for place, other in enumerate(together["user"]) if other == user]
        expected = {name: [values[place] for place in places] for name, values in together.items()}
        message = "users asked for alone must get what they get together"
        _check_equal(_rows(model.recommend(k, users=chosen)), expected, message)


def _check_items(model: Any, clicks: Clicks, k: int) -> None:
    half = clicks.items.tolist()[::2]
    rows = _rows(model.recommend(k, items=half))
    _check_lists(rows, clicks, k, items=half)
    _check_equal(_rows(model.recommend(k, items=half[::-1])), rows, "the order of items= must not matter")


def _check_histories(model: Any, clicks: Clicks, k: int) -> None:
    import pandas as pd

    _need(callable(getattr(model, "recommend_for", None)), "there must be a method recommend_for")
    items, unknown = clicks.items.tolist(), "nothing like this"
    histories = {"b": items[:3], "d": [items[-1], items[0], items[-1]], "c": [], "a": items[-2:-1]}
    together = _rows(model.recommend_for(histories, k=k))
    _check_lists(together, clicks, k, histories=histories)
    half = items[::2]
    _check_lists(_rows(model.recommend_for(histories, k=k, items=half)), clicks, k, histories=histories, items=half)
    for user in histories:
        alone = _rows(model.recommend_for({user: histories[user]}, k=k))
        places = [place for place, other in enumerate(together["user"]) if other == user]
        expected = {name: [values[place] for place in places] for name, values in together.items()}
        _check_equal(alone, expected, f"history {user!r} alone must give what it gives among others")
    clicked = {user: history for user, history in histories.items() if history}
    timed = [(user, item, time) for user, history in clicked.items() for time, item in enumerate(history)]
    frame = pd.DataFrame(timed[::-1], columns=["user", "item", "time"])
    listed = _rows(model.recommend_for(clicked, k=k))
    rows = _rows(model.recommend_for(frame, k=k))
    for user in clicked:
        own, wanted = ([one["item"] for one in _records(some) if one["user"] == user] for some in (rows, listed))
        _need(own == wanted, f"user {user!r} must get the same from a list and from a frame with times")
    strange = {user: [unknown, *history] for user, history in histories.items()}
    try:
        rows = _rows(model.recommend_for(strange, k=k, unknown="ignore"))
    except (ValueError, KeyError) as error:
        raise ContractError(f"unknown='ignore' must leave unknown items out, not raise {error!r}") from error
    _check_equal(rows, together, "unknown='ignore' must leave unknown items out")
    for bad in ({"histories": strange}, {"k": 0}, {"items": [unknown]}):
        try:
            model.recommend_for(**{"histories": histories, "k": k, **bad})
        except (ValueError, KeyError):
            continue
        raise ContractError(f"recommend_for({bad}) must be an error")


def _records(rows: Rows) -> list[dict[str, Any]]:
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


def _check_refit(make: Callable[[], Any], model: Any, clicks: Clicks, options: dict[str, Any], k: int) -> None:
    sizes = {"n_users": clicks.n_users + 5, "n_items": max(clicks.n_items - 2, 8)}
    other = example_clicks(seed=1, **sizes, ordered=clicks.order is not None)
    again, new = (_rows(each.fit(other, **options).recommend(k)) for each in (model, make()))
    _check_lists(again, other, k)
    _check_equal(again, new, "a model fitted again must be like a new one")
    titled = other.with_titles({item: f"Title of {item}" for item in other.items.tolist()})
    rows = _rows(model.fit(titled, **options).recommend(k))
    _check_lists(rows, titled, k)
    _need(rows["title"] == [f"Title of {item}" for item in rows["item"]], "titles must be those of the items")


def _rows(frame: Any) -> Rows:
    import narwhals as nw

    columns: Rows = nw.from_native(frame).to_dict(as_series=False)
    return columns


def _value_column(rows: Rows) -> str:
    names = [name for name in ("probability", "score") if name in rows]
    _need(len(names) == 1, f"there must be a column probability or score: {list(rows)}")
    return names[0]


def _check_equal(rows: Rows, expected: Rows, message: str) -> None:
    _need(list(rows) == list(expected), f"{message}: the columns differ, {list(rows)} and {list(expected)}")
    for name, values in rows.items():
        same = len(values) == len(expected[name]) and all(map(_is_close, values, expected[name]))
        _need(same, f"{message}: {name} differs")


def _is_close(a: Any, b: Any) -> bool:
    """Return whether two values are equal, two numbers up to rounding; NaN equals NaN."""
    return bool(a == b or (isinstance(a, float) and (abs(a - b) <= 1e-9 * max(1.0, abs(a)) or (a != a and b != b))))


def _need(kept: Any, message: str) -> None:
    if not kept:
        raise ContractError(message)
