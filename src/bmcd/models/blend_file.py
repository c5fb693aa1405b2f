"""The file of a `Blend`: clicks once, then what each model has learned, then the rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd import __version__, baselines
from bmcd.baselines import Baseline, UserKNN
from bmcd.blending.features import Scale, feature_names
from bmcd.blending.learning import LAST_RANKS
from bmcd.blending.parts import gives_law
from bmcd.blending.rule import Activity, Rule
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.models.bmcd import BMCD
from bmcd.models.files import Arrays, describe_clicks, pack_clicks, read_array, read_whole_number, unpack_clicks
from bmcd.models.tastes import Tastes

BASELINES: dict[str, type[Baseline]] = {
    name: getattr(baselines, name) for name in baselines.__all__ if name != Baseline.__name__
}
SAMPLED: dict[str, type[BMCD] | type[Tastes]] = {"BMCD": BMCD, "Tastes": Tastes}
SHARED = ("clicks/", "items/")  # kept once, for all models
Models = dict[str, Any]


def pack_blend(
    clicks: Clicks,
    models: Mapping[str, Any],
    scales: tuple[Scale | None, ...],
    rule: Rule,
    seed: int,
    folds: int,
    with_users: bool,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of the file."""
    with_users = with_users and clicks.n_users > 0
    arrays = pack_clicks(clicks, with_users)
    described = []
    for number, (name, model) in enumerate(models.items()):
        about, own = _pack_model(name, model, with_users)
        described.append({"name": name, **about})
        kept = {key: value for key, value in own.items() if not key.startswith(SHARED)}
        arrays |= {f"models/{number}/{key}": value for key, value in kept.items()}
        if (scale := scales[number]) is not None:
            arrays |= {f"scales/{number}/{key}": np.asarray(value) for key, value in scale._asdict().items()}
    for name in ("ks", "weights", "standard_errors", "maps", "brier"):
        arrays[f"rule/{name}"] = getattr(rule, name)
    header = {
        "kind": "model",
        "version": __version__,
        "seed": seed,
        "data_hash": clicks.fingerprint() if with_users else "",
        "options": {"model": "blend", "models": described, "folds": folds},
        "run": {
            "n_users": clicks.n_users if with_users else 0, "n_items": clicks.n_items,
            "activity": list(rule.activity), "is_law": list(rule.is_law), "n_clicks": rule.n_clicks,
            "n_learnt": rule.n_users, **describe_clicks(clicks),
        },
    }  # fmt: skip
    return header, arrays


def unpack_blend(
    header: Mapping[str, Any], arrays: Arrays
) -> tuple[Clicks, Models, tuple[Scale | None, ...], Rule, int]:
    """Return clicks, fitted models, scales, rule and number of folds, or raise ValueError or KeyError."""
    run, options = header["run"], header["options"]
    n_items = read_whole_number(run["n_items"], "n_items")
    clicks = unpack_clicks(arrays, run, read_whole_number(run["n_users"], "n_users", least=0), n_items)
    shared = {name: array for name, array in arrays.items() if name.startswith(SHARED)}
    models: Models = {}
    scales: list[Scale | None] = []
    is_law = tuple(bool(law) for law in run["is_law"])
    if not options["models"] or len(is_law) != len(options["models"]):
        raise ValueError("there must be a model, and of each it must be said whether it gives a law")
    for number, about in enumerate(options["models"]):
        own = _below(arrays, f"models/{number}/")
        models[str(about["name"])] = _unpack_model(about, own, shared, clicks)
        if gives_law(models[str(about["name"])]) != is_law[number]:
            raise ValueError(f"a {about['class']} cannot give what is said of it")
        scales.append(None if is_law[number] else _read_scale(_below(arrays, f"scales/{number}/")))
    if len(models) != len(is_law):
        raise ValueError("two models have the same name")
    rule = _read_rule(arrays, run, tuple(models), is_law)
    return clicks, models, tuple(scales), rule, read_whole_number(options["folds"], "folds", least=2)


def _pack_model(name: str, model: Any, with_users: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    kind = type(model).__name__
    if type(model) in SAMPLED.values():
        header, arrays = model.packed(clicks=with_users)
        return {"class": kind, "header": header}, arrays
    if type(model) not in BASELINES.values():
        raise InputError(f"{name} is a {kind}, which is not of bmcd: a blend with it cannot be saved.")
    if isinstance(model, UserKNN) and not with_users:
        raise InputError(f"{name} is a UserKNN, which needs everybody's clicks: save the blend with clicks=True.")
    arrays = model.packed()
    if not with_users:
        arrays = {key: value[:0] if key == "user_factors_" else value for key, value in arrays.items()}
    return {"class": kind, "settings": json.loads(json.dumps(model.get_params()))}, arrays


def _unpack_model(about: Mapping[str, Any], own: Arrays, shared: Arrays, clicks: Clicks) -> Any:
    kind = str(about["class"])
    if kind in SAMPLED:
        if about["header"]["run"]["n_items"] != clicks.n_items:
            raise ValueError(f"{kind} has another number of items than the blend")
        return SAMPLED[kind].restored(about["header"], {**own, **shared})
    return BASELINES[kind](**about["settings"]).restore(clicks, own)


def _read_scale(arrays: Arrays) -> Scale:
    score, e = (np.asarray(arrays[name]) for name in Scale._fields)
    for values in (score, e):
        if values.dtype != np.float64 or values.ndim != 1 or len(values) != len(score) or not len(score):
            raise ValueError("a scale must be two rows of numbers, equally long")
        if not np.isfinite(values).all() or (np.diff(values) <= 0).any():
            raise ValueError("the numbers of a scale must increase")
    return Scale(score, e)


def _read_rule(arrays: Arrays, run: Mapping[str, Any], names: tuple[str, ...], is_law: tuple[bool, ...]) -> Rule:
    ks = np.asarray(arrays["rule/ks"])
    if ks.dtype != np.int64 or ks.ndim != 1 or not len(ks) or ks[0] < 1 or (np.diff(ks) <= 0).any():
        raise ValueError("the rule must be for increasing k")
    n_features = sum(len(feature_names(law)) + 1 for law in is_law)
    weights, errors = (
        read_array(arrays, f"rule/{name}", "<f8", (len(ks), n_features)) for name in ("weights", "standard_errors")
    )
    maps = read_array(arrays, "rule/maps", "<f8", (len(ks), len(LAST_RANKS) + 1))
    brier = read_array(arrays, "rule/brier", "<f8", (len(ks), 2))
    if not np.isfinite(weights).all() or not np.isfinite(maps).all() or (maps < 0).any():
        raise ValueError("the weights of the rule must be finite, and those of its map not negative")
    activity = Activity(*(float(value) for value in run["activity"]))
    if not np.isfinite(activity).all() or activity.least > activity.most:
        raise ValueError(f"activity is {activity}")
    counts = (read_whole_number(run[name], name, least=0) for name in ("n_clicks", "n_learnt"))
    return Rule(names, is_law, activity, ks, weights, errors, maps, brier, *counts)


def _below(arrays: Arrays, prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
