"""The methods of the study by name, with their settings, and which of them can do what."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import bmcd
from bmcd import baselines
from experiments.study import IN_A_TASK

BLEND, REPEATING = "Blend", "Blend(repeats=True)"
# The most items for which methods take part that score all pairs of users and items, or of items.
MOST_ITEMS = 5_000


class Method(NamedTuple):
    """How a method is made and fitted."""

    make: Callable[[], Any]
    dense: bool = False
    """Whether it is left out on large catalogues."""
    fit: Mapping[str, Any] = MappingProxyType({})
    recommend: Mapping[str, Any] = MappingProxyType({})
    seconds: float = 10.0


def methods(*, quick: bool) -> dict[str, Method]:
    """Return the methods: those that know no order, those that do, and the models with probabilities.

    >>> list(methods(quick=True))[:3]
    ['Popularity', 'Trending', 'Transitions']
    """
    bmcd_fit = {"draws": 3, "warmup": 3, "chains": 2} if quick else {"draws": 20, "warmup": 40, "chains": 2}
    if not quick:
        bmcd_fit["max_users"] = 4_000
    tastes_fit = {"draws": 2, "warmup": 10} if quick else {}

    def tastes() -> bmcd.Tastes:
        return bmcd.Tastes(5, chains=2) if quick else bmcd.Tastes(40, chains=4)

    found = {
        "Popularity": Method(baselines.Popularity),
        "Trending": Method(baselines.Trending),
        "Transitions": Method(baselines.Transitions),
        "RecentCooccurrence": Method(baselines.RecentCooccurrence),
        "SessionKNN": Method(baselines.SessionKNN),
        "ItemKNN": Method(lambda: baselines.ItemKNN(neighbours=50), dense=True),
        "UserKNN": Method(lambda: baselines.UserKNN(neighbours=200), dense=True, seconds=40),
        "EASE": Method(lambda: baselines.EASE(regularization=100.0), dense=True),
        "EASE, decay": Method(lambda: baselines.EASE(regularization=100.0, decay=0.7), dense=True),
        "ALS": Method(lambda: baselines.ALS(factors=16, alpha=5.0, regularization=60.0), dense=True, seconds=20),
        "BMCD": Method(
            lambda: bmcd.BMCD(3 if quick else 12), dense=True, fit=bmcd_fit, recommend={"max_draws": 8}, seconds=200
        ),
        "Tastes": Method(tastes, dense=True, fit=tastes_fit, recommend={"max_draws": 8}, seconds=90),
        "Blend(Tastes)": Method(
            lambda: bmcd.Blend(tastes()), dense=True, fit={"fit_options": {"Tastes": tastes_fit}}, seconds=180
        ),
        "Blend(EASE)": Method(lambda: bmcd.Blend(baselines.EASE(regularization=100.0)), dense=True, seconds=30),
        BLEND: Method(bmcd.Blend, seconds=30),
        REPEATING: Method(lambda: bmcd.Blend(repeats=True), seconds=30),
    }
    if quick:
        kept = ("Popularity", "Trending", "Transitions", "SessionKNN", "EASE", "Tastes", BLEND, REPEATING)
        found = {name: found[name] for name in kept}
    return found


def fitted(method: Method, clicks: bmcd.Clicks, seed: int) -> tuple[Any, float]:
    """Return a method fitted to clicks, and the CPU seconds that took."""
    model = method.make()
    own = {name: value for name, value in (*IN_A_TASK.items(), ("seed", seed)) if takes(model.fit, name)}
    began = time.process_time()
    model.fit(clicks, **own, **method.fit)
    return model, time.process_time() - began


def takes(function: Callable[..., Any], option: str) -> bool:
    """Return whether a function has an option of that name."""
    return option in inspect.signature(function).parameters


def recommend_for(model: Any, method: Method, histories: Any, k: int, horizon: int) -> Any:
    """Return lists of k items for the next ``horizon`` clicks after histories."""
    own: dict[str, Any] = {**IN_A_TASK, "horizon": horizon, **method.recommend}
    own = {name: value for name, value in own.items() if takes(model.recommend_for, name)}
    return model.recommend_for(histories, k, unknown="ignore", **own)
