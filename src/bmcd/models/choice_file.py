"""What "auto" found, in a model file: JSON in an array of bytes, which files written before do not have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.clusters.choice import ClusterChoice
from bmcd.models.choose_tastes import TasteChoice
from bmcd.models.files import read_whole_number
from bmcd.sampling.tastes.draws import describe_priors, read_priors
from bmcd.system.files import json_ready

if TYPE_CHECKING:
    import pandas as pd

NAME = "choice/facts"
NUMBERS = ("recommended", "by_mwcd", "least_mwcd", "n_training_users", "n_held_out_users")


def pack_choice(facts: Mapping[str, Any] | None) -> dict[str, NDArray[np.uint8]]:
    """Return the array of a file that has these facts, if there are any."""
    return {} if facts is None else {NAME: np.frombuffer(json.dumps(facts, allow_nan=False).encode(), np.uint8)}


def unpack_facts(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any] | None:
    """Return the facts of a file, or None if it has none."""
    if NAME not in arrays:
        return None
    if arrays[NAME].dtype != np.uint8 or arrays[NAME].ndim != 1:
        raise ValueError("the choice must be bytes")
    return dict(json.loads(arrays[NAME].tobytes().decode()))


def cluster_facts(choice: ClusterChoice, clicks: Clicks, with_users: bool) -> dict[str, Any]:
    """Return a choice of the number of clusters as JSON holds it; scores of single users only with users."""
    facts: dict[str, Any] = {name: getattr(choice, name) for name in NUMBERS}
    facts |= {"elbow": choice.elbow, "table": _columns(choice.table), "boxplot": _columns(choice.boxplot)}
    facts["within_distance"] = [choice.within_distance[c] for c in choice.table.index]
    if with_users:
        facts["held_out_rows"] = clicks.rows_of(choice.held_out_users.tolist(), "")
        facts["log_likelihood"] = [choice.log_likelihood[c] for c in choice.table.index]
    return dict(json_ready(facts))


def read_cluster_choice(facts: Mapping[str, Any], clicks: Clicks) -> ClusterChoice:
    """Return the choice that `cluster_facts` described, or raise ValueError, KeyError or TypeError."""
    table = _frame(facts["table"], "n_clusters")
    numbers = table.index.tolist()
    rows = np.array(facts.get("held_out_rows", []), np.int64)
    if rows.size and not (clicks.n_users > rows.max() >= rows.min() >= 0):
        raise ValueError("the held-out users of the choice are not among the users")
    within = dict(zip(numbers, (np.array(draws, float) for draws in facts["within_distance"]), strict=True))
    scores = (np.array(values, float) for values in facts.get("log_likelihood", []))
    return ClusterChoice(
        **{name: read_whole_number(facts[name], name) for name in NUMBERS},
        elbow=None if facts["elbow"] is None else read_whole_number(facts["elbow"], "elbow"),
        table=table,
        boxplot=_frame(facts["boxplot"], "n_clusters"),
        within_distance=within,
        log_likelihood=dict(zip(numbers, scores, strict="held_out_rows" in facts)),
        held_out_users=clicks.users[rows] if rows.size else clicks.users[:0],
    )


def taste_facts(choice: TasteChoice) -> dict[str, Any]:
    """Return a choice of the number of tastes as JSON holds it."""
    priors = describe_priors(choice.priors)
    facts = {
        "n_tastes": choice.n_tastes,
        "priors": priors,
        "reason": choice.reason,
        "table": _columns(choice.table),
    }
    return dict(json_ready(facts))


def read_taste_choice(facts: Mapping[str, Any]) -> TasteChoice:
    """Return the choice that `taste_facts` described, or raise ValueError, KeyError or TypeError."""
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
