"""The contract that models and baselines keep, as a check that any other recommender can be put through.

>>> from bmcd import BMCD, testing
>>> testing.check_recommender(lambda: BMCD(2), fit={"draws": 5, "warmup": 5, "chains": 2})
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from bmcd.clicks.log import Clicks
from bmcd.errors import ContractError, FitWarning, ShortListWarning

__all__ = ["ContractError", "check_recommender", "example_clicks"]


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
    together = _table(model.recommend(k))
    _check_lists(together, clicks, k)
    _check_equal(_table(model.recommend(k)), together, "asking twice must give the same")
    _check_users(model, together, clicks, k)
    half = clicks.items.tolist()[::2]
    some = _table(model.recommend(k, items=half))
    _check_lists(some, clicks, k, items=half)
    _check_equal(_table(model.recommend(k, items=half[::-1])), some, "the order of items= must not matter")
    if histories:
        _check_histories(model, clicks, k)
    _check_refit(make, model, clicks, options, k)
    bad = ({"k": 0}, {"users": ["nobody like this"]}, {"items": ["nothing like this"]})
    _check_refused(model.recommend, {"k": k}, bad)


def _check_refused(call: Callable[..., Any], usual: dict[str, Any], wrong: Iterable[dict[str, Any]]) -> None:
    for bad in wrong:
        try:
            call(**(usual | bad))
        except (ValueError, KeyError):
            continue
        raise ContractError(f"{call.__name__}({bad}) must be an error")


def _check_lists(
    table: pd.DataFrame,
    clicks: Clicks,
    k: int,
    *,
    users: list[Any] | None = None,
    items: list[Any] | None = None,
    histories: Mapping[Any, list[Any]] | None = None,
) -> None:
    """Check the lists of some users (by default all) or of histories, from some items (by default all)."""
    values = [name for name in ("probability", "score") if name in table]
    _need(len(values) == 1, f"there must be a column probability or score: {list(table)}")
    value = values[0]
    columns = ["user", "item", *(["title"] if clicks.titles is not None else []), "rank", value]
    _need(list(table)[: len(columns)] == columns, f"the columns must begin with {columns}, not {list(table)}")
    users = list(histories) if histories is not None else clicks.users.tolist() if users is None else users
    if histories is None:
        clicked_by = [clicks.items[clicks.matrix[[row]].indices].tolist() for row in clicks.rows_of(users)]
    else:
        clicked_by = list(histories.values())
    allowed = set(clicks.items.tolist() if items is None else items)
    for user, clicked in zip(users, map(set, clicked_by), strict=True):
        own = _of_users(table, [user])
        shown, ranks, found = own["item"].tolist(), own["rank"].tolist(), own[value].to_numpy(float)
        _need(clicked.isdisjoint(shown), f"user {user!r} gets items that were clicked: {clicked & set(shown)}")
        _need(allowed.issuperset(shown), f"user {user!r} gets items not asked for: {set(shown) - allowed}")
        _need(len(set(shown)) == len(shown), f"user {user!r} gets an item twice: {shown}")
        n_expected = min(k, len(allowed - clicked))
        _need(len(shown) == n_expected, f"user {user!r} gets {len(shown)} items, not {n_expected}")
        _need(ranks == list(range(1, len(ranks) + 1)), f"user {user!r} has the ranks {ranks}")
        _need(np.isfinite(found).all(), f"user {user!r} has a {value} that is not finite: {found}")
        _need((np.diff(found) <= 1e-6).all(), f"user {user!r} does not get the best first: {found}")
        if value == "probability":
            inside = ((found >= 0) & (found <= 1)).all() and found.sum() <= k + 1e-9
            _need(inside, f"user {user!r} has the probabilities {found}")
    _need(_of_users(table, users).equals(table), "users must come together, and in the order asked for")


def _check_users(model: Any, together: pd.DataFrame, clicks: Clicks, k: int) -> None:
    users = clicks.users.tolist()
    mixed = list(dict.fromkeys(users[::-3] + users[1:4]))
    _check_lists(_table(model.recommend(k, users=mixed)), clicks, k, users=mixed)
    for chosen in (mixed, users[:1], users[1:2]):
        message = "users asked for alone must get what they get together"
        _check_equal(_table(model.recommend(k, users=chosen)), _of_users(together, chosen), message)


def _check_histories(model: Any, clicks: Clicks, k: int) -> None:
    _need(callable(getattr(model, "recommend_for", None)), "there must be a method recommend_for")
    items, unknown = clicks.items.tolist(), "nothing like this"
    histories = {"b": items[:3], "d": [items[-1], items[0], items[-1]], "c": [], "a": items[-2:-1]}
    together = _table(model.recommend_for(histories, k=k))
    _check_lists(together, clicks, k, histories=histories)
    half = items[::2]
    some = _table(model.recommend_for(histories, k=k, items=half))
    _check_lists(some, clicks, k, histories=histories, items=half)
    for user in histories:
        alone = _table(model.recommend_for({user: histories[user]}, k=k))
        message = f"history {user!r} alone must give what it gives among others"
        _check_equal(alone, _of_users(together, [user]), message)
    clicked = {user: history for user, history in histories.items() if history}
    timed = [(user, item, time) for user, history in clicked.items() for time, item in enumerate(history)]
    frame = pd.DataFrame(timed[::-1], columns=["user", "item", "time"])
    listed, framed = (_table(model.recommend_for(given, k=k)) for given in (clicked, frame))
    for user in clicked:
        own, wanted = (_of_users(table, [user])["item"].tolist() for table in (framed, listed))
        _need(own == wanted, f"user {user!r} must get the same from a list and from a frame with times")
    strange = {user: [unknown, *history] for user, history in histories.items()}
    try:
        ignored = _table(model.recommend_for(strange, k=k, unknown="ignore"))
    except (ValueError, KeyError) as error:
        raise ContractError(f"unknown='ignore' must leave unknown items out, not raise {error!r}") from error
    _check_equal(ignored, together, "unknown='ignore' must leave unknown items out")
    bad = ({"histories": strange}, {"k": 0}, {"items": [unknown]})
    _check_refused(model.recommend_for, {"histories": histories, "k": k}, bad)


def _check_refit(make: Callable[[], Any], model: Any, clicks: Clicks, options: dict[str, Any], k: int) -> None:
    sizes = {"n_users": clicks.n_users + 5, "n_items": max(clicks.n_items - 2, 8)}
    other = example_clicks(seed=1, **sizes, ordered=clicks.order is not None)
    again, new = (_table(each.fit(other, **options).recommend(k)) for each in (model, make()))
    _check_lists(again, other, k)
    _check_equal(again, new, "a model fitted again must be like a new one")
    titled = other.with_titles({item: f"Title of {item}" for item in other.items.tolist()})
    table = _table(model.fit(titled, **options).recommend(k))
    _check_lists(table, titled, k)
    expected = [f"Title of {item}" for item in table["item"]]
    _need(table["title"].tolist() == expected, "titles must be those of the items")


def _table(frame: Any) -> pd.DataFrame:
    import narwhals as nw

    table: pd.DataFrame = nw.from_native(frame).to_pandas()
    return table.reset_index(drop=True)


def _of_users(table: pd.DataFrame, users: list[Any]) -> pd.DataFrame:
    """Return the rows of some users, in their order."""
    places = table.groupby("user", sort=False).indices
    return table.iloc[[place for user in users for place in places.get(user, ())]].reset_index(drop=True)


def _check_equal(table: pd.DataFrame, expected: pd.DataFrame, message: str) -> None:
    try:
        pd.testing.assert_frame_equal(table, expected, check_dtype=False, rtol=1e-9, atol=1e-9)
    except AssertionError as error:
        raise ContractError(f"{message}: {str(error).splitlines()[0]}") from None


def _need(kept: Any, message: str) -> None:
    if not kept:
        raise ContractError(message)
