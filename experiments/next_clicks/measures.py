"""What is measured: each of these functions is a task with one method, and returns numbers fit for JSON."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import bmcd
from bmcd.errors import FitWarning
from experiments.next_clicks.files import clicks_of, read_sessions
from experiments.next_clicks.methods import fitted, methods, recommend_for
from experiments.study import IN_A_TASK
from experiments.tasks import Result

# Length of the lists, and number of next clicks that they are for.
ASKED = ((5, 1), (3, 3), (10, 10))
SEEDS = (1, 2, 3)
EARLIER = 0.8
MOST_CLICKED, AT_LEAST, LAST = 200, 13, 10
QUICK_USERS = 1500
LIST = 20


def shop(quick: bool) -> bmcd.Clicks:
    """Return the shop's visits in order; a part of them if ``quick``."""
    clicks = bmcd.load_dataset("eshop")
    return clicks.of_users(np.arange(QUICK_USERS)) if quick else clicks


def later_visits(method: str, quick: bool, seed: int = 0) -> Result:
    """Fit to the earlier visits, and measure lists for the later ones at a random moment of each."""
    earlier, later = shop(quick).split_users(EARLIER)
    how = methods(quick=quick)[method]
    model, seconds = fitted(how, earlier, seed)
    found: Result = {"seconds": seconds, **_about(model)}
    for k, horizon in ASKED:
        measured = []
        for moment in SEEDS[:1] if quick else SEEDS:
            histories, test = later.moments(horizon, moment)
            began = time.process_time()
            lists = recommend_for(model, how, histories, k, horizon)
            asking = (time.process_time() - began) / histories.n_users
            evaluation = bmcd.evaluate(lists, earlier, test, histories=histories, horizon=horizon, k=k)
            measured.append({**_measures(evaluation), "seconds_per_user": asking})
        found[f"{k}/{horizon}"] = {name: float(np.mean([one[name] for one in measured])) for name in measured[0]}
    return found


def last_clicks(method: str, quick: bool, seed: int = 0) -> Result:
    """Hold out the last clicks of every user with enough of them, and measure lists for these."""
    clicks = shop(quick).most_clicked(MOST_CLICKED).at_least(AT_LEAST)
    train, test = clicks.hold_out(LAST, by="time")
    how = methods(quick=quick)[method]
    model, seconds = fitted(how, train, seed)
    lists = recommend_for(model, how, train, LAST, LAST)
    evaluation = bmcd.evaluate(lists, train, test, horizon=LAST, k=LAST)
    return {"seconds": seconds, **_measures(evaluation), "n_users": train.n_users}


def back_test(
    method: str, log: dict[str, Any], window: str, cuts: int, k: int, horizon: int, quick: bool, seed: int = 0
) -> Result:
    """Fit a method at several past times of a log, and measure it on the clicks that followed each."""
    how = methods(quick=quick)[method]
    clicks = read_log(log)
    model = how.make()
    if isinstance(model, bmcd.Blend) and clicks.has_clock:
        model.refresh = window  # how long each fit of the back-test is in use
    result = bmcd.backtest(
        model, clicks, cuts=cuts, window=window if clicks.has_clock else None, k=k, horizon=horizon, seed=seed,
        fit=how.fit, **IN_A_TASK,
    )  # fmt: skip
    return result.to_dict()


def describe_log(log: dict[str, Any]) -> Result:
    """Count users, items and clicks of a log."""
    clicks = read_log(log)
    return {
        "n_users": clicks.n_users,
        "n_items": clicks.n_items,
        "n_clicks": clicks.n_clicks,
        "order": clicks.order,
    }


def read_log(log: dict[str, Any]) -> bmcd.Clicks:
    """Read a log of the user's own."""
    columns = {name: log[name] for name in ("user", "item", "time_column", "session_column") if log.get(name)}
    return bmcd.read_clicks(log["file"], **columns)


def sessions(
    method: str, train: str, test: str, most_cases: int, quick: bool, sha256: str, seed: int = 0
) -> Result:
    """Fit to the sessions of one file, and measure lists of 20 for the last click of each session of another."""
    how = methods(quick=quick)[method]
    clicks = clicks_of(read_sessions(Path(train)))
    cases = [case for case in read_sessions(Path(test)) if len(case) > 1]
    if len(cases) > most_cases:
        chosen = np.sort(np.random.default_rng(seed).permutation(len(cases))[:most_cases])
        cases = [cases[i] for i in chosen]
    model, seconds = fitted(how, clicks, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        lists = recommend_for(model, how, [case[:-1] for case in cases], LIST, 1)
    asking = (time.process_time() - began) / len(cases)
    following = np.array([case[-1] for case in cases])
    hit = lists["item"].to_numpy() == following[lists["user"].to_numpy()]
    rank = lists["rank"].to_numpy()[hit]
    found = {
        "n_cases": len(cases),
        "n_items": clicks.n_items,
        "hits": float(hit.sum() / len(cases)),
        "mrr": float((1.0 / rank).sum() / len(cases)),
        "coverage": lists["item"].nunique() / clicks.n_items,
        "seconds": seconds,
        "seconds_per_user": asking,
    }
    if "probability" in lists:
        found["predicted"] = float(lists["probability"].sum() / len(cases))
    return found


def _measures(evaluation: Any) -> Result:
    """Return hits, diversity and calibration; NaN stands for a method without probabilities."""
    calibration = evaluation.calibration
    low, high = (getattr(evaluation.interval("accuracy"), end) for end in ("low", "high"))
    found = {"hits": evaluation.accuracy, "low": low, "high": high, "coverage": evaluation.coverage}
    if calibration is not None:
        found |= {"predicted": calibration.mean_probability, "ece": calibration.ece_at_k}
    return {**found, "novelty": evaluation.novelty, "rare_share": evaluation.rare_share}


def _about(model: Any) -> Result:
    """Return what a blend reports of itself."""
    if not isinstance(model, bmcd.Blend):
        return {}
    return {"members": list(model.members_), "verdict": str(getattr(model.verdict_, "text", model.verdict_))}
