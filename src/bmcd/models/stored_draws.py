"""Draws of `BMCD` and `Tastes`, and what "auto" chose, in a model file: packed, and checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.files import json_ready
from bmcd.inference.draws import MIXTURE, Draws, FitSpec, Schema, check_rankings
from bmcd.inference.mixture import Priors
from bmcd.inference.run import Plan
from bmcd.inference.tastes.draws import TASTES, TasteDraws, describe_priors, read_priors
from bmcd.mallows.distances import check_distance
from bmcd.mallows.rank_scale import scale_values
from bmcd.models.choose import ClusterChoice, TasteChoice
from bmcd.models.clusters import checked_names
from bmcd.models.persistence import (
    Arrays,
    Packed,
    check_names,
    is_too_few,
    pack_clicks,
    read_array,
    read_whole_number,
    unpack_clicks,
    without_users,
)
from bmcd.models.shared_fit import COLUMNS, SHARE, Fit, UserSample, sample_table
from bmcd.utils import shown

if TYPE_CHECKING:
    import pandas as pd


STOPPED = ("finished", "time", "interrupted")
# Optional arrays, which other functions read.
TALLY, CHOICE = "draws/tally", "choice/"
PAPER_OPTIONS = {"alpha_update", "ranks_move"}
MIXTURE_OPTIONS = {"rate", "concentration", "distance", "rank_scale", "sampler", "start", "count_k", "n_clusters"}
TASTE_OPTIONS = {"model", "distance", "rank_scale", "n_alphas", "scale_rate", "a", "b", "n_tastes"}


def pack_mixture(fit: Fit, options: Mapping[str, Any], with_users: bool) -> Packed:
    """Return header and arrays of a fit; ``options`` are those of the model that the draws do not have."""
    header, arrays = _pack(fit, MIXTURE, options, with_users)
    if with_users and fit.draws.tally is not None:
        arrays[TALLY] = fit.draws.tally
    if not with_users:
        _hide(arrays, arrays["draws/label_counts"], alpha=0.0)
    choice, more = pack_cluster_choice(fit.choice, fit.clicks, with_users)
    return header | choice, arrays | more


def pack_tastes(fit: Fit, n_tastes: int | str, with_users: bool) -> Packed:
    """Return header and arrays of a fit."""
    header, arrays = _pack(fit, TASTES, {"n_tastes": n_tastes}, with_users)
    if not with_users:  # the visits to a taste are at least as many as the users who make them
        _hide(arrays, arrays["draws/visits_per_taste"], alpha=float(fit.draws.laws().alphas.min()))
    return header | _pack_taste_choice(fit.choice), arrays


def unpack_mixture(header: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Fit]:
    """Return the parameters of the model and its fit, or raise ValueError, KeyError or TypeError."""
    options = _checked_options(header, MIXTURE_OPTIONS | PAPER_OPTIONS, {"max_users"})
    if not isinstance(options["count_k"], list):
        raise ValueError("count_k must be a list")
    for k in options["count_k"]:
        read_whole_number(k, "count_k")
    left_out = {"n_clusters"} if options["sampler"] == "paper" else {"n_clusters", *PAPER_OPTIONS}
    clicks, fields = _unpack(header, arrays, MIXTURE, {k: v for k, v in options.items() if k not in left_out})
    if (fields["alpha"] < 0).any() or (fields["tau"] < 0).any() or not np.allclose(fields["tau"].sum(axis=2), 1.0):
        raise ValueError("alpha must not be negative, and tau must be weights that sum to 1")
    draws = Draws(**fields, tally=_tally(arrays, fields, clicks))
    spec = draws.problem
    parameters = {
        "n_clusters": "auto" if options["n_clusters"] == "auto" else spec.n_clusters,
        "distance": options["distance"],
        "rank_scale": options["rank_scale"],
        "priors": Priors(rate=options["rate"], concentration=options["concentration"]),
        "sampler": options["sampler"],
        "start": "kmeans" if str(options["start"]).startswith("previous ") else options["start"],
        "alpha_update": read_whole_number(options["alpha_update"], "alpha_update"),
        "ranks_move": str(options["ranks_move"]),
    }
    check_distance(parameters["distance"])
    scale_values(spec.n_items, parameters["rank_scale"])
    choice = read_cluster_choice(header, arrays, clicks)
    return parameters, Fit(clicks, draws, choice, _read_sample(header), _read_names(header, spec.n_clusters))


def unpack_tastes(header: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Fit]:
    """Return the parameters of the model and its fit, or raise ValueError, KeyError or TypeError."""
    options = _checked_options(header, TASTE_OPTIONS, {"start", "max_users"})
    n_tastes = options.pop("n_tastes")
    clicks, fields = _unpack(header, arrays, TASTES, options)
    for name in ("alpha", "a", "b"):
        if (fields[name] <= 0).any():
            raise ValueError(f"{name} must be positive")
    draws = TasteDraws(**fields)
    draws.laws()  # refuses a distance or a rank scale that is not known
    parameters = {
        "n_tastes": "auto" if n_tastes == "auto" else draws.n_tastes,
        "distance": options["distance"],
        "rank_scale": options["rank_scale"],
        "priors": read_priors(options),
        "chains": draws.n_chains,
    }
    choice = _read_taste_choice(header)
    return parameters, Fit(clicks, draws, choice, _read_sample(header), _read_names(header, draws.n_tastes))


def _read_names(header: Mapping[str, Any], n_clusters: int) -> dict[int, str]:
    names = header["cluster_names"]
    if not isinstance(names, dict):
        raise ValueError(f"cluster_names must be names by number, not {shown(names)}")
    return checked_names({int(c): name for c, name in names.items()}, n_clusters)


def _pack_sample(sample: UserSample | None, with_users: bool) -> dict[str, Any] | None:
    if sample is None or (not with_users and is_too_few(int(SHARE * sample.n_users))):  # chosen by few users
        return None
    table = json_ready(sample.table.to_dict("list"))
    return {"max_users": sample.max_users, "n_users": sample.n_users, "table": table}


def _read_sample(header: Mapping[str, Any]) -> UserSample | None:
    if (facts := header["user_sample"]) is None:
        return None
    max_users, n_users = (read_whole_number(facts[name], name) for name in ("max_users", "n_users"))
    table = {name: facts["table"][name] for name in COLUMNS}
    for name, values in table.items():
        if not all(value is None or type(value) in (int, float) for value in values):
            raise ValueError(f"{name} of the samples of users must be numbers, not {shown(values)}")
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return UserSample(max_users, n_users, sample_table(rows))


def _pack(fit: Fit, schema: Schema, options: Mapping[str, Any], with_users: bool) -> Packed:
    clicks, draws = fit.clicks, fit.draws
    problem, plan = draws.problem, draws.plan
    arrays: dict[str, NDArray[Any]] = {f"draws/{name}": getattr(draws, name) for name in _names(schema)}
    if not with_users:  # what was followed through the chains are probabilities and clicks of single users
        arrays["draws/probe"] = arrays["draws/probe"][:, :, :0]
    about, shared = pack_clicks(clicks if with_users else without_users(clicks))
    header = {
        "version": draws.version,
        "seed": draws.seed,
        "data_hash": problem.data_hash if with_users else "",
        "options": {**problem.options, **options},
        "run": {
            "n_users": problem.n_users, "n_items": problem.n_items, "n_clusters": problem.n_clusters,
            "chains": plan.n_chains, "draws": plan.draws, "warmup": plan.warmup, "thin": plan.thin,
            "stopped": draws.stopped, "note": draws.note, "caveat": draws.caveat,
        },
        **about,
        "cluster_names": {str(c): name for c, name in fit.cluster_names.items()},
        "user_sample": _pack_sample(fit.sample, with_users),
    }  # fmt: skip
    return header, arrays | shared


def _names(schema: Schema) -> tuple[str, ...]:
    return (*schema.traces, "warmup_log_joint", "n_tallied")


def _hide(arrays: dict[str, NDArray[Any]], members: NDArray[Any], alpha: float) -> None:
    """Forget the clusters of few users, draw by draw: with this alpha, and any ranking, they prefer no item."""
    few = is_too_few(members)
    if not few.any():
        return
    n_items = arrays["draws/rho"].shape[-1]
    hidden: dict[str, Any] = {
        "alpha": alpha, "rho": np.arange(1, n_items + 1), "alpha_accepted": np.nan, "label_counts": 0,
        "visits_per_taste": 0.0,
    }  # fmt: skip
    for name, value in hidden.items():
        if (key := f"draws/{name}") in arrays:
            arrays[key] = arrays[key].copy()
            arrays[key][few] = value


def _checked_options(header: Mapping[str, Any], needed: set[str], optional: set[str]) -> dict[str, Any]:
    options = dict(header["options"])
    if not needed <= options.keys() <= needed | optional:
        raise ValueError(f"the options must be {', '.join(sorted(needed))}, not {', '.join(sorted(options))}")
    if "max_users" in options:
        read_whole_number(options["max_users"], "max_users")
    return options


def _unpack(
    header: Mapping[str, Any], arrays: Arrays, schema: Schema, options: Mapping[str, Any]
) -> tuple[Clicks, dict[str, Any]]:
    """Return the clicks, and all fields of the draws but the tally, or raise ValueError, KeyError or TypeError."""
    clicks, run = unpack_clicks(header, arrays), header["run"]
    sizes = {name: read_whole_number(run[name], name) for name in ("n_users", "n_items", "n_clusters")}
    if clicks.n_items != sizes["n_items"] or clicks.n_users not in (0, sizes["n_users"]):
        raise ValueError(f"the draws are of {sizes['n_users']} users and {sizes['n_items']} items, the clicks not")
    if type(header["seed"]) is not int or header["seed"] < 0:
        raise ValueError(f"the seed is {shown(header['seed'])}")
    if not all(
        isinstance(text, str) for text in (header["version"], header["data_hash"], run["note"], run["caveat"])
    ):
        raise ValueError("version, data_hash, note and caveat must be texts")
    if run["stopped"] not in STOPPED:
        raise ValueError(f"stopped is {shown(run['stopped'])}")
    plan = Plan(run["chains"], run["draws"], run["warmup"], run["thin"])
    problem = FitSpec(**sizes, data_hash=header["data_hash"], options=options)
    others = [name for name in arrays if name.startswith(CHOICE)]
    check_names(arrays, [f"draws/{name}" for name in _names(schema)], [TALLY, *others])
    log_joint = arrays["draws/log_joint"]
    if log_joint.ndim != 2 or not 1 <= log_joint.shape[1] <= plan.draws:
        raise ValueError(f"the draws of log_joint have shape {log_joint.shape}")
    n_probed = arrays["draws/probe"].shape[-1]
    fields: dict[str, Any] = {}
    for name, (dtype, dims) in schema.traces.items():
        shape = (plan.n_chains, log_joint.shape[1], *problem.shape(dims, probed=n_probed))
        fields[name] = read_array(arrays, f"draws/{name}", problem.stored_dtype(dtype), shape)
        if name not in schema.shares and not np.isfinite(fields[name]).all():
            raise ValueError(f"{name} has values that are not finite")
    check_rankings(fields["rho"], problem.n_items, "rho")
    return clicks, fields | {
        "warmup_log_joint": read_array(arrays, "draws/warmup_log_joint", "<f8", (plan.n_chains, plan.warmup)),
        "n_tallied": read_array(arrays, "draws/n_tallied", "<i8", (plan.n_chains,)),
        "problem": problem, "plan": plan, "seed": header["seed"], "version": header["version"],
        **{name: run[name] for name in ("stopped", "note", "caveat")},
    }  # fmt: skip


def _tally(arrays: Arrays, fields: Mapping[str, Any], clicks: Clicks) -> NDArray[Any] | None:
    """Return the counts of items among the next k, or None if there are none."""
    ks = fields["problem"].options["count_k"]
    if not (ks and clicks.n_users):
        if TALLY in arrays:
            raise ValueError("there are counts, but the options name none, or the users are left out")
        return None
    if (fields["n_tallied"] < 1).any():
        raise ValueError("counts must be of at least one draw of each chain")
    return read_array(arrays, TALLY, "<i4", (fields["plan"].n_chains, len(ks), clicks.n_users, clicks.n_items))


WITHIN, SCORES, ROWS = "choice/within_distance", "choice/log_likelihood", "choice/held_out_rows"
NUMBERS = ("n_training_users", "n_held_out_users")


def pack_cluster_choice(choice: ClusterChoice | None, clicks: Clicks, with_users: bool) -> Packed:
    """Return a choice of the number of clusters; without users, nothing about single ones or about few."""
    if choice is None:
        return {"choice": None}, {}
    if not with_users and is_too_few(min(choice.n_held_out_users, choice.n_training_users)):
        return {"choice": None}, {}
    facts: dict[str, Any] = {name: getattr(choice, name) for name in NUMBERS}
    facts["table"] = _columns(choice.table)
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
    within = {c: f"{WITHIN}/{c}" for c in numbers}
    choice = ClusterChoice(
        **{name: read_whole_number(facts[name], name) for name in NUMBERS},
        table=table,
        within_distance={c: read_array(arrays, w, "<f8", arrays[w].shape) for c, w in within.items()},
        log_likelihood=scores,
        held_out_users=users,
    )
    _ = (choice.reason, choice.boxplot)  # errors if the table lacks a column or the numbers are not as they must be
    return choice


def _pack_taste_choice(choice: TasteChoice | None) -> dict[str, Any]:
    """Return a choice of the number of tastes as a header; its table has means over many users."""
    if choice is None:
        return {"choice": None}
    own = {"n_tastes": choice.n_tastes, "priors": describe_priors(choice.priors), "reason": choice.reason}
    return {"choice": json_ready({**own, "table": _columns(choice.table)})}


def _read_taste_choice(header: Mapping[str, Any]) -> TasteChoice | None:
    """Return the choice that `_pack_taste_choice` packed, or raise ValueError, KeyError or TypeError."""
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
