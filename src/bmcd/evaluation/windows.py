"""Ask models for the clicks that followed in past windows, and count what came true."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks import splitting
from bmcd.clicks.log import Clicks
from bmcd.clicks.splitting import Window
from bmcd.errors import ClicksError, InputError, Message, Option
from bmcd.evaluation.lists import read_lists
from bmcd.models.hits import read_truth, was_clicked
from bmcd.utils import Floats

Ints = NDArray[np.int64]

DEFAULT_WINDOW = "1d"


class WindowHits(NamedTuple):
    """What one model predicted in one window, and what happened; users are those of the window."""

    user: Ints
    """The user of each recommendation."""
    hit: NDArray[np.bool_]
    probability: Floats | None
    """None for models that give scores."""
    n_clicks: Ints
    """Of each user: the clicks that were observed, at most the horizon; what the predictions are for."""
    n_outside: Ints
    """Of each user: those of them on items outside the model."""
    expected_outside: Floats | None
    """Of each user: how many of them the model expected outside; None for models that do not say."""


def windows_of(
    clicks: Clicks, cuts: int | Sequence[Any], window: str | None, horizon: int, at: str, seed: int, repeats: bool
) -> Iterator[Window]:
    """Return windows in time where the log has a clock, and otherwise cuts between users."""
    if clicks.has_clock:
        return splitting.time_windows(clicks, cuts, window or DEFAULT_WINDOW, horizon, at, seed, repeats)
    if window is not None:
        said = f"the log has no clock, so a window of {window} has no meaning. Say which column has the times when "
        then = ", or leave the window out: cuts are then made between users."
        raise ClicksError(Message(said, "reading: ", Option("time_column", "..."), then))
    if at == "cut":
        raise InputError(
            "at='cut' needs a log with a clock: without one cuts are made between users, and nothing is known of "
            "the later users at the cut. Use at='moment'."
        )
    if at != "moment":
        raise InputError(f"at must be 'moment' or 'cut', but it is {at!r}.")
    return splitting.user_windows(clicks, cuts, horizon, seed, repeats)


def takes(function: Callable[..., Any], option: str) -> bool:
    """Return whether a method of a model has an option of that name.

    >>> takes(lambda k, *, horizon=None: None, "horizon"), takes(lambda k: None, "horizon")
    (True, False)
    """
    return option in inspect.signature(function).parameters


def window_hits(
    model: Any, window: Window, k: int, horizon: int, *, repeats: bool, n_threads: int | None = None
) -> WindowHits:
    """Ask a fitted model for lists of k items, and count the hits among the clicks that followed.

    Predictions are for min(horizon, observed) clicks of each user: users with the same number are asked together.
    Models without a horizon, which give scores, only have hits.
    """
    histories = window.histories
    truth = read_truth(window.test, histories, k, horizon, repeats=repeats, fewer=True)
    options: dict[str, Any] = {"unknown": "ignore"}
    for name, value in (("n_threads", n_threads), ("progress", False)):
        options |= {name: value} if takes(model.recommend_for, name) else {}
    parts: list[tuple[Ints, Ints, Floats | None]] = []
    expected, known = np.zeros(histories.n_users), True
    asked = takes(model.recommend_for, "horizon")
    # A model without a horizon is asked for all users at once.
    for g in np.unique(truth.n_clicks[truth.n_clicks > 0]).tolist() if asked else [0]:
        rows = np.flatnonzero(truth.n_clicks == g if asked else truth.n_clicks > 0)
        people = histories.of_users(rows)
        found = model.recommend_for(people, k, **options, **({"horizon": g} if asked else {}))
        if len(found):
            lists = read_lists(found, people, repeats)
            parts.append((rows[lists.user], lists.item, lists.probability if asked else None))
        outside = _expected_outside(model, found, g) if asked else None
        known &= outside is not None
        expected[rows] = 0.0 if outside is None else outside
    if not parts:
        raise InputError(f"the model recommended nothing in the window from {window.label} on.")
    user, item = (np.concatenate([part[column] for part in parts]) for column in (0, 1))
    given = [part[2] for part in parts if part[2] is not None]
    probability = np.concatenate(given) if len(given) == len(parts) else None
    order = np.argsort(user, kind="stable")
    hit = was_clicked(truth.matrix, user, item)[order]
    return WindowHits(
        user[order],
        hit,
        None if probability is None else probability[order],
        truth.n_clicks,
        truth.n_outside,
        expected if known else None,
    )


def _expected_outside(model: Any, recommended: Any, g: int) -> Any:
    """Return how many of the next g clicks a model expects outside its items, on average or of each user."""
    attributes = getattr(recommended, "attrs", None) or {}
    if "outside" in attributes:
        found = attributes["outside"]
    elif hasattr(model, "outside"):
        found = model.outside(g)
    else:
        return None
    return float(np.mean(np.asarray(found, np.float64)))
