"""The file of a `BMCD`: its options and its draws, checked before compiled code trusts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks
from bmcd.mallows.distances import check_distance
from bmcd.mallows.rank_scale import scale_values
from bmcd.models.files import (
    Arrays,
    check_names,
    describe_clicks,
    pack_clicks,
    read_array,
    read_whole_number,
    unpack_clicks,
)
from bmcd.sampling.draws import MIXTURE, Draws
from bmcd.sampling.priors import Priors
from bmcd.sampling.run import Plan
from bmcd.sampling.schema import Problem, check_rankings
from bmcd.system.text import shown

STOPPED = ("finished", "time", "interrupted")
PAPER_OPTIONS = ("alpha_update", "ranks_move")
OPTIONS = {"rate", "concentration", "distance", "rank_scale", "sampler", "start", "count_k", "n_clusters"}


def pack_mixture(
    draws: Draws, clicks: Clicks, options: Mapping[str, Any], with_users: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of the file; ``options`` are those of the model that the draws do not know."""
    problem, plan = draws.problem, draws.plan
    arrays: dict[str, NDArray[Any]] = {f"draws/{name}": getattr(draws, name) for name in MIXTURE.traces}
    arrays["draws/warmup_log_joint"], arrays["draws/n_tallied"] = draws.warmup_log_joint, draws.n_tallied
    with_users = with_users and clicks.n_users > 0
    arrays |= pack_clicks(clicks, with_users)
    if with_users and draws.tally is not None:  # counts of single users
        arrays["draws/tally"] = draws.tally
    header = {
        "kind": "model",
        "version": draws.version,
        "seed": draws.seed,
        "data_hash": problem.data_hash if with_users else "",
        "options": {**problem.options, **options},
        "run": {
            "n_users": problem.n_users, "n_items": problem.n_items, "n_clusters": problem.n_clusters,
            "chains": plan.n_chains, "draws": plan.draws, "warmup": plan.warmup, "thin": plan.thin,
            "stopped": draws.stopped, "note": draws.note, "caveat": draws.caveat, **describe_clicks(clicks),
        },
    }  # fmt: skip
    return header, arrays


def unpack_mixture(header: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Clicks, Draws]:
    """Return the parameters of the model, its clicks and its draws, or raise ValueError or KeyError."""
    run, options = dict(header["run"]), dict(header["options"])
    sizes = {name: read_whole_number(run[name], name) for name in ("n_users", "n_items", "n_clusters")}
    plan = Plan(run["chains"], run["draws"], run["warmup"], run["thin"])
    problem = Problem(**sizes, data_hash=header["data_hash"], options=_fit_options(options))
    names = {f"draws/{name}" for name in (*MIXTURE.traces, "warmup_log_joint", "n_tallied")}
    check_names(arrays, names, optional={"draws/tally"})
    clicks = unpack_clicks(arrays, run, problem.n_users, problem.n_items)
    draws = _draws(header, arrays, problem, plan, with_tally=clicks.n_users > 0)
    parameters = {
        "n_clusters": "auto" if options["n_clusters"] == "auto" else problem.n_clusters,
        "distance": options["distance"],
        "rank_scale": options["rank_scale"],
        "priors": Priors(rate=options["rate"], concentration=options["concentration"]),
        "sampler": options["sampler"],
        "start": options["start"],
        "alpha_update": read_whole_number(options["alpha_update"], "alpha_update"),
        "ranks_move": str(options["ranks_move"]),
    }
    check_distance(parameters["distance"])
    scale_values(problem.n_items, parameters["rank_scale"])
    return parameters, clicks, draws


def _fit_options(options: Mapping[str, Any]) -> dict[str, Any]:
    names = OPTIONS | set(PAPER_OPTIONS)
    if options.keys() != names:
        raise ValueError(f"the options must be {', '.join(sorted(names))}, not {', '.join(sorted(options))}")
    if not isinstance(options["count_k"], list):
        raise ValueError("count_k must be a list")
    for k in options["count_k"]:
        read_whole_number(k, "count_k")
    left_out = {"n_clusters"} if options["sampler"] == "paper" else {"n_clusters", *PAPER_OPTIONS}
    return {name: value for name, value in options.items() if name not in left_out}


def _draws(header: Mapping[str, Any], arrays: Arrays, problem: Problem, plan: Plan, with_tally: bool) -> Draws:
    alpha, run = arrays["draws/alpha"], header["run"]
    if alpha.ndim != 3 or not 1 <= alpha.shape[1] <= plan.draws:
        raise ValueError(f"the draws of alpha have shape {alpha.shape}")
    n_probed = arrays["draws/probe"].shape[-1]
    traces: dict[str, Any] = {}
    for name, (dtype, dims) in MIXTURE.traces.items():
        shape = (plan.n_chains, alpha.shape[1], *problem.shape(dims, probed=n_probed))
        traces[name] = read_array(arrays, f"draws/{name}", problem.stored_dtype(dtype), shape)
    for name in ("alpha", "tau", "log_joint", "within_distance"):
        if not np.isfinite(traces[name]).all():
            raise ValueError(f"{name} has values that are not finite")
    if (traces["alpha"] < 0).any() or (traces["tau"] < 0).any() or not np.allclose(traces["tau"].sum(axis=2), 1.0):
        raise ValueError("alpha must not be negative, and tau must be weights that sum to 1")
    check_rankings(traces["rho"], problem.n_items, "rho")
    ks = problem.options["count_k"]
    tally = None
    if ks and with_tally:
        tally = read_array(arrays, "draws/tally", "<i4", (plan.n_chains, len(ks), problem.n_users, problem.n_items))
        if (arrays["draws/n_tallied"] < 1).any():
            raise ValueError("counts must be of at least one draw of each chain")
    elif "draws/tally" in arrays:
        raise ValueError("there are counts, but the options name none, or the users are left out")
    if run["stopped"] not in STOPPED or not (isinstance(run["note"], str) and isinstance(run["caveat"], str)):
        raise ValueError(f"stopped is {shown(run['stopped'])}")
    return Draws(
        **traces,
        warmup_log_joint=read_array(arrays, "draws/warmup_log_joint", "<f8", (plan.n_chains, plan.warmup)),
        tally=tally,
        n_tallied=read_array(arrays, "draws/n_tallied", "<i8", (plan.n_chains,)),
        problem=problem,
        plan=plan,
        seed=header["seed"],
        version=header["version"],
        stopped=run["stopped"],
        note=run["note"],
        caveat=run["caveat"],
    )
