"""What "auto" found, in header and arrays of a model file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.files import json_ready
from bmcd.inference.tastes.draws import describe_priors, read_priors
from bmcd.models.choose_clusters import ClusterChoice
from bmcd.models.choose_tastes import TasteChoice
from bmcd.models.persistence import Arrays, Packed, is_too_few, read_array, read_whole_number

if TYPE_CHECKING:
    import pandas as pd

WITHIN, SCORES, ROWS = "choice/within_distance", "choice/log_likelihood", "choice/held_out_rows"
NUMBERS = ("recommended", "by_mwcd", "least_mwcd", "n_training_users", "n_held_out_users")


def pack_cluster_choice(choice: ClusterChoice | None, clicks: Clicks, with_users: bool) -> Packed:
    """Return a choice of the number of clusters; without users, nothing about single ones or about few."""
    if choice is None:
        return {"choice": None}, {}
    if not with_users and is_too_few(min(choice.n_held_out_users, choice.n_training_users)):
        return {"choice": None}, {}
    facts: dict[str, Any] = {name: getattr(choice, name) for name in NUMBERS}
    facts |= {"elbow": choice.elbow, "table": _columns(choice.table), "boxplot": _columns(choice.boxplot)}
    arrays: dict[str, NDArray[Any]] = {f"{WITHIN}/{c}": choice.within_distance[c] for c in choice.table.index}
    if with_users and choice.log_likelihood:
        arrays[ROWS] = clicks.rows_of(choice.held_out_users.tolist())
        arrays |= {f"{SCORES}/{c}": choice.log_likelihood[c] for c in choice.table.index}
    return {"choice": json_ready(facts)}, arrays


def read_cluster_choice(header: Mapping[str, Any], arrays: Arrays, clicks: Clicks) -> ClusterChoice | None:
    """Return the choice that `pack_cluster_choice` packed, or raise ValueError, KeyError or TypeError."""
    if (facts := header["choice"]) is None:
        return None
    table = _frame(facts["table"], "n_clusters")
    numbers: list[int] = table.index.tolist()
    users, scores = clicks.users[:0], {}
    if ROWS in arrays:
        rows = read_array(arrays, ROWS, "<i8", arrays[ROWS].shape[:1])
        if ((rows < 0) | (rows >= clicks.n_users)).any():
            raise ValueError("the held-out users of the choice are not among the users")
        users = clicks.users[rows]
        scores = {c: read_array(arrays, f"{SCORES}/{c}", "<f8", rows.shape) for c in numbers}
    return ClusterChoice(
        **{name: read_whole_number(facts[name], name) for name in NUMBERS},
        elbow=None if facts["elbow"] is None else read_whole_number(facts["elbow"], "elbow"),
        table=table,
        boxplot=_frame(facts["boxplot"], "n_clusters"),
        within_distance={c: _floats(arrays, f"{WITHIN}/{c}") for c in numbers},
        log_likelihood=scores,
        held_out_users=users,
    )


def pack_taste_choice(choice: TasteChoice | None) -> dict[str, Any]:
    """Return a choice of the number of tastes as a header; its table has means over many users."""
    if choice is None:
        return {"choice": None}
    own = {"n_tastes": choice.n_tastes, "priors": describe_priors(choice.priors), "reason": choice.reason}
    return {"choice": json_ready({**own, "table": _columns(choice.table)})}


def read_taste_choice(header: Mapping[str, Any]) -> TasteChoice | None:
    """Return the choice that `pack_taste_choice` packed, or raise ValueError, KeyError or TypeError."""
    if (facts := header["choice"]) is None:
        return None
    n_tastes = read_whole_number(facts["n_tastes"], "n_tastes")
    return TasteChoice(n_tastes, read_priors(facts["priors"]), _frame(facts["table"]), str(facts["reason"]))


def _columns(frame: pd.DataFrame) -> dict[str, Any]:
    named = frame.reset_index() if frame.index.name else frame
    return {str(name): named[name].to_numpy() for name in named.columns}


def _frame(columns: Mapping[str, Any], index: str | None = None) -> pd.DataFrame:
    import pandas as pd

    whole = {"n_clusters": np.int64, "n_tastes": np.int64}
    arrays = {str(name): np.array(values, whole.get(name, np.float64)) for name, values in dict(columns).items()}
    frame = pd.DataFrame(arrays)
    return frame if index is None else frame.set_index(index)


def _floats(arrays: Arrays, name: str) -> NDArray[np.float64]:
    return read_array(arrays, name, "<f8", arrays[name].shape)
