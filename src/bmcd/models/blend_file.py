"""The file of a `Blend`: its parts, and the rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bmcd import __version__
from bmcd.blending.features import Scale, feature_names
from bmcd.blending.learning import LAST_RANKS
from bmcd.blending.parts import gives_law
from bmcd.blending.rule import Activity, Rule
from bmcd.clicks.log import Clicks
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


def pack_blend(
    clicks: Clicks,
    models: Mapping[str, Any],
    scales: tuple[Scale | None, ...],
    rule: Rule,
    seed: int,
    folds: int,
    with_users: bool,
) -> Packed:
    """Return header and arrays of the file."""
    with_users = with_users and clicks.n_users > 0
    about, arrays = pack_clicks(clicks if with_users else without_users(clicks))
    described, own = pack_parts(models, clicks=with_users)
    arrays |= own
    for number, scale in enumerate(scales):
        if scale is not None:
            arrays |= {f"scales/{number}/{key}": np.asarray(value) for key, value in scale._asdict().items()}
    for name in ("ks", "weights", "standard_errors", "maps", "brier"):
        arrays[f"rule/{name}"] = getattr(rule, name)
    header = {
        "version": __version__, "seed": seed, "folds": folds, "activity": list(rule.activity),
        "is_law": list(rule.is_law), "n_clicks": rule.n_clicks, "n_learnt": rule.n_users, **about, **described,
    }  # fmt: skip
    return header, arrays


def unpack_blend(
    header: Mapping[str, Any], arrays: Arrays
) -> tuple[Clicks, dict[str, Any], tuple[Scale | None, ...], Rule, int]:
    """Return clicks, fitted models, scales, rule and number of folds, or raise ValueError or KeyError."""
    clicks, models = unpack_clicks(header, arrays), unpack_parts(header, arrays)
    is_law = tuple(bool(law) for law in header["is_law"])
    if is_law != tuple(gives_law(model) for model in models.values()):
        raise ValueError("the models cannot give what is said of them")
    scales = tuple(
        None if law else _read_scale(below(arrays, f"scales/{number}/")) for number, law in enumerate(is_law)
    )
    rule = _read_rule(arrays, header, tuple(models), is_law)
    return clicks, models, scales, rule, read_whole_number(header["folds"], "folds", least=2)


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
