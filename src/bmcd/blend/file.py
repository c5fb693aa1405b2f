"""The file of a blend: counts, weights, past windows, and the models it was given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd import __version__
from bmcd.blend.dense import DenseMembers, Scale, fitted_to
from bmcd.blend.features import COUNTS, MEMBERS, N_TOUCHED, Csr, Settings, Tables
from bmcd.blend.fitting import Fitted, private
from bmcd.blend.learning import Layout, PastWindow, Rule, Scaling
from bmcd.blend.weights import N_OUTSIDE
from bmcd.clicks.log import Clicks
from bmcd.clicks.times import read_duration
from bmcd.models.persistence import (
    Arrays,
    Packed,
    below,
    pack_clicks,
    pack_parts,
    read_array,
    read_whole_number,
    unpack_clicks,
    unpack_parts,
    without_users,
)

N_Z = 3
SESSIONS = ("of", "latest", "rows", "items", "weights")


def pack(clicks: Clicks, fitted: Fitted, settings: Mapping[str, Any], *, with_users: bool) -> Packed:
    """Return header and arrays of the file. Without users, nothing depends on fewer than five of them."""
    with_users = with_users and clicks.n_users > 0
    if not with_users and clicks.n_users > 0:
        fitted = private(clicks, fitted)
    about, arrays = pack_clicks(clicks if with_users else without_users(clicks))
    described, own = pack_parts(fitted.dense.models, clicks=with_users)
    arrays |= own
    for number, scale in enumerate(fitted.dense.scales):
        if scale is not None:
            arrays |= {f"scales/{number}/{key}": np.asarray(value) for key, value in scale._asdict().items()}
    tables, rule = fitted.tables, fitted.rule
    for name in ("popularity", "share", "known", "head", "cell", "n_cell", "cells"):
        arrays[f"tables/{name}"] = np.ascontiguousarray(getattr(tables, name))
    for name in COUNTS:
        arrays |= {f"tables/{name}/{key}": value for key, value in getattr(tables, name)._asdict().items()}
    if tables.sessions is not None:
        arrays |= {
            f"tables/sessions/{n}": np.asarray(v) for n, v in zip(SESSIONS, tables.sessions[:5], strict=True)
        }
    arrays["rule/columns"] = rule.layout.columns
    for name in ("ks", "weights", "errors", "temper", "n_moments"):
        arrays[f"rule/{name}"] = np.ascontiguousarray(getattr(rule, name))
    arrays |= {"rule/mean": rule.scaling.mean, "rule/deviation": rule.scaling.deviation}
    arrays["dense/items"] = fitted.dense.items
    known = fitted.settings
    header = {
        "version": __version__,
        "settings": dict(settings),
        "members": {**known._asdict(), "window": _finite(known.window), "fading": _finite(known.fading)},
        "tables": {
            "outside": tables.outside, "n_plain": tables.n_plain, "smoothing": tables.smoothing,
            "sessions": None if tables.sessions is None else [float(value) for value in tables.sessions[5:]],
        },
        "rule": {
            "names": [list(name) for name in rule.layout.names], "width": rule.layout.width,
            "n_dense": rule.layout.n_dense, "centre": rule.layout.centre, "least": rule.layout.least,
            "most": rule.layout.most, "has_outside": bool(rule.has_outside), "n_users": rule.n_users,
        },
        "windows": [list(window) for window in fitted.windows],
        "gains": {name: list(gain) for name, gain in fitted.gains.items()},
        "until": fitted.until, "refresh": fitted.refresh, **about, **described,
    }  # fmt: skip
    return header, arrays


def unpack(header: Mapping[str, Any], arrays: Arrays) -> tuple[Clicks, Fitted, dict[str, Any]]:
    """Return clicks, what was learnt and the settings of the estimator, or raise an error of Python's."""
    clicks = unpack_clicks(header, arrays)
    n = clicks.n_items
    settings = _settings(header["members"])
    items = np.asarray(arrays["dense/items"])
    if items.dtype != np.int64 or items.ndim != 1 or (np.diff(items) <= 0).any():
        raise ValueError("the items of the models must be increasing numbers")
    _inside(items, n, "the items of the models")
    models: dict[str, Any] = {}
    if header["parts"]:
        asked = fitted_to(clicks, items)  # models were fitted to these clicks, which are not stored again
        about, own = pack_clicks(asked)
        models = unpack_parts({**header, **about}, {**arrays, **own})
    scales = tuple(
        _read_scale(below(arrays, f"scales/{number}/")) if f"scales/{number}/score" in arrays else None
        for number in range(len(models))
    )
    for (name, model), scale in zip(models.items(), scales, strict=True):
        if hasattr(model, "law_of_next_click") != (scale is None) or model.clicks_.n_items != len(items):
            raise ValueError(f"{name} does not fit what is said of it")
    dense = DenseMembers(models, scales, items)
    tables = _tables(header["tables"], arrays, n)
    rule = _rule(header["rule"], arrays, tables, dense)
    windows = tuple(_window(row) for row in header["windows"])
    gains = {str(name): (float(gain), float(error)) for name, (gain, error) in header["gains"].items()}
    refresh = header["refresh"] if header["refresh"] is None else read_whole_number(header["refresh"], "refresh")
    until = int(header["until"])
    parameters: dict[str, Any] = {
        "refresh": header["settings"]["refresh"],
        "repeats": bool(header["settings"]["repeats"]),
    }
    if parameters["refresh"] is not None:
        read_duration(parameters["refresh"], "refresh")
    return clicks, Fitted(settings, tables, rule, windows, gains, refresh, until, dense), parameters


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _settings(given: Mapping[str, Any]) -> Settings:
    values = {name: given[name] for name in Settings._fields}
    members = tuple(str(name) for name in values["members"])
    if not set(members) <= set(MEMBERS):
        raise ValueError(f"the members are {members}")
    lives = tuple(float(value) for value in values["half_lives"])
    numbers = {name: float(values[name]) for name in ("regularization", "recent")}
    wholes = {name: read_whole_number(values[name], name) for name in ("most_clicked", "head")}
    if not all(math.isfinite(value) and value > 0 for value in (*lives, *numbers.values())):
        raise ValueError("half-lives and settings must be positive numbers")
    volume = float(values["volume"])
    if not (math.isfinite(volume) and volume >= 0):
        raise ValueError("the number of clicks must not be negative")
    endless = {name: math.inf if values[name] is None else float(values[name]) for name in ("window", "fading")}
    truths = {name: bool(values[name]) for name in ("ordered", "repeats")}
    every: dict[str, Any] = {**numbers, **wholes, **endless, **truths, "volume": volume}
    return Settings(members=members, half_lives=lives, **every)


def _inside(values: NDArray[Any], n: int, what: str, least: int = 0) -> None:
    if values.size and (values.min() < least or values.max() >= n):
        raise ValueError(f"{what} must be numbers from {least} to {n - 1}")


def _numbers(arrays: Arrays, name: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    values = read_array(arrays, name, dtype, shape)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite numbers")
    return values


def _tables(about: Mapping[str, Any], arrays: Arrays, n: int) -> Tables:
    popularity = np.asarray(arrays["tables/popularity"])
    n_dense = popularity.shape[1] if popularity.ndim == 2 else -1
    popularity = _numbers(arrays, "tables/popularity", "<f4", (n, n_dense))
    share = _numbers(arrays, "tables/share", "<f4", (n,))
    if n and share.min() <= 0:
        raise ValueError("shares must be positive")
    known = read_array(arrays, "tables/known", "|b1", (n,))
    head, cell = np.asarray(arrays["tables/head"]), read_array(arrays, "tables/cell", "<i4", (n,))
    head = read_array(arrays, "tables/head", "<i4", (len(head),))
    _inside(head, n, "the head")
    n_cell = np.asarray(arrays["tables/n_cell"])
    n_cell = _numbers(arrays, "tables/n_cell", "<f4", (len(n_cell),))
    cells = _numbers(arrays, "tables/cells", "<f4", (len(n_cell), n_dense))
    _inside(cell, len(n_cell), "cells", -1)
    counts = {name: _csr(arrays, f"tables/{name}", n) for name in COUNTS}
    n_plain = read_whole_number(about["n_plain"], "n_plain", least=0)
    if n_plain > n_dense:
        raise ValueError("n_plain is larger than the number of features")
    outside, smoothing = float(about["outside"]), float(about["smoothing"])
    if not (math.isfinite(outside) and math.isfinite(smoothing) and smoothing > 0):
        raise ValueError("the share outside and the smoothing must be numbers")
    sessions = None if about["sessions"] is None else _sessions(about["sessions"], arrays, n)
    return Tables(
        popularity, share, known, head, cell, n_cell, cells, counts["follows"], counts["follows_recent"],
        counts["two_steps"], counts["later"], counts["goes_with"], counts["ease"], sessions, outside, n_plain,
        smoothing,
    )  # fmt: skip


def _starts(arrays: Arrays, name: str, n: int, end: int) -> NDArray[np.int64]:
    start: NDArray[np.int64] = read_array(arrays, name, "<i8", (n + 1,))
    if start[0] != 0 or start[-1] != end or (np.diff(start) < 0).any():
        raise ValueError(f"{name} must rise from 0 to {end}")
    return start


def _csr(arrays: Arrays, name: str, n: int) -> Csr:
    item = np.asarray(arrays[f"{name}/item"])
    item = read_array(arrays, f"{name}/item", "<i4", (len(item),))
    _inside(item, n, name)
    value = _numbers(arrays, f"{name}/value", "<f4", (len(item),))
    total = _numbers(arrays, f"{name}/total", "<f4", (n,))
    if (total < 0).any():
        raise ValueError(f"the totals of {name} must not be negative")
    return Csr(_starts(arrays, f"{name}/start", n, len(item)), item, value, total)


def _sessions(about: Any, arrays: Arrays, n: int) -> tuple[Any, ...]:
    own = below(arrays, "tables/sessions/")
    n_sessions, latest, items = len(own["weights"]), np.asarray(own["latest"]), np.asarray(own["items"])
    latest = read_array(own, "latest", "<i4", (len(latest),))
    items = read_array(own, "items", "<i4", (len(items),))
    _inside(latest, n_sessions, "sessions")
    _inside(items, n, "the items of sessions")
    of, rows = _starts(own, "of", n, len(latest)), _starts(own, "rows", n_sessions, len(items))
    weights = _numbers(own, "weights", "<f8", (n_sessions,))
    neighbours, candidates = (read_whole_number(int(value), "a number of sessions") for value in about[:2])
    if neighbours > 10**6 or candidates > 10**6 or not 0 <= float(about[2]) <= 1:
        raise ValueError("the settings of SessionKNN are wrong")
    return of, latest, rows, items, weights, neighbours, candidates, float(about[2])


def _rule(about: Mapping[str, Any], arrays: Arrays, tables: Tables, dense: DenseMembers) -> Rule:
    names = tuple((str(feature), str(member)) for feature, member in about["names"])
    columns = read_array(arrays, "rule/columns", "<i8", (len(names),))
    width = tables.n_dense + N_TOUCHED + len(dense.names)
    n_dense = read_whole_number(about["n_dense"], "n_dense", least=0)
    if about["width"] != width or n_dense != tables.n_dense or (columns[:n_dense] != np.arange(n_dense)).any():
        raise ValueError("the weights do not fit the features")
    _inside(columns, width, "columns")
    ks = np.asarray(arrays["rule/ks"])
    ks = read_array(arrays, "rule/ks", "<i8", (len(ks),))
    if not len(ks) or ks[0] < 1 or (np.diff(ks) <= 0).any():
        raise ValueError("the rule must be for increasing numbers of clicks")
    shape = (len(ks), len(names) + N_OUTSIDE, N_Z)
    weights, errors = (_numbers(arrays, f"rule/{name}", "<f8", shape) for name in ("weights", "errors"))
    temper = _numbers(arrays, "rule/temper", "<f8", (len(ks),))
    n_moments = read_array(arrays, "rule/n_moments", "<i8", (len(ks),))
    mean, deviation = (_numbers(arrays, f"rule/{name}", "<f8", (len(names),)) for name in ("mean", "deviation"))
    numbers = [float(about[name]) for name in ("centre", "least", "most")]
    if not all(math.isfinite(value) for value in numbers) or (temper <= 0).any() or (deviation <= 0).any():
        raise ValueError("the scales of the weights are wrong")
    layout = Layout(names, columns, width, n_dense, *numbers)
    n_users = read_whole_number(about["n_users"], "n_users", least=0)
    scaling = Scaling(mean, deviation)
    return Rule(layout, ks, weights, errors, temper, bool(about["has_outside"]), n_moments, n_users, scaling)


def _window(row: Any) -> PastWindow:
    label, n, *numbers = row
    values = [float(value) for value in numbers]
    if len(values) != len(PastWindow._fields) - 2 or not all(math.isfinite(value) for value in values):
        raise ValueError("a past window must be numbers")
    return PastWindow(str(label), read_whole_number(n, "moments"), *values)


def _read_scale(arrays: Arrays) -> Scale:
    score, e = (np.asarray(arrays[name]) for name in Scale._fields)
    for values in (score, e):
        if values.dtype != np.float64 or values.ndim != 1 or len(values) != len(score) or not len(score):
            raise ValueError("a scale must be two rows of numbers, equally long")
        if not np.isfinite(values).all() or (np.diff(values) <= 0).any():
            raise ValueError("the numbers of a scale must increase")
    return Scale(score, e)
