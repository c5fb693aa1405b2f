"""The file of a `BMCD`: its options and its draws, checked before compiled code trusts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.mallows.distances import check_distance
from bmcd.mallows.rank_scale import scale_values
from bmcd.models.choice_file import NAME as CHOICE
from bmcd.models.files import (
    Arrays,
    check_finite,
    check_max_users,
    check_names,
    make_header,
    pack_clicks,
    pack_draws,
    read_array,
    read_draws,
    read_sizes,
    read_whole_number,
    unpack_clicks,
)
from bmcd.sampling.draws import MIXTURE, Draws
from bmcd.sampling.priors import Priors
from bmcd.sampling.schema import Problem

PAPER_OPTIONS = ("alpha_update", "ranks_move")
OPTIONS = {"rate", "concentration", "distance", "rank_scale", "sampler", "start", "count_k", "n_clusters"}


def pack_mixture(
    draws: Draws, clicks: Clicks, options: Mapping[str, Any], with_users: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of the file; ``options`` are those of the model that the draws do not know."""
    with_users = with_users and clicks.n_users > 0
    arrays = pack_draws(draws, MIXTURE) | pack_clicks(clicks, with_users)
    if with_users and draws.tally is not None:  # counts of single users
        arrays["draws/tally"] = draws.tally
    return make_header(draws, clicks, options, with_users), arrays


def unpack_mixture(header: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Clicks, Draws]:
    """Return the parameters of the model, its clicks and its draws, or raise ValueError or KeyError."""
    run, options = dict(header["run"]), dict(header["options"])
    sizes, plan = read_sizes(run)
    problem = Problem(**sizes, data_hash=header["data_hash"], options=_fit_options(options))
    check_names(arrays, MIXTURE, optional=["draws/tally", CHOICE])
    clicks = unpack_clicks(arrays, run, problem.n_users, problem.n_items)
    fields = read_draws(header, arrays, MIXTURE, problem, plan)
    check_finite(fields, ("alpha", "tau", "log_joint", "within_distance"))
    if (fields["alpha"] < 0).any() or (fields["tau"] < 0).any() or not np.allclose(fields["tau"].sum(axis=2), 1.0):
        raise ValueError("alpha must not be negative, and tau must be weights that sum to 1")
    draws = Draws(**fields, tally=_tally(arrays, fields, problem, with_users=clicks.n_users > 0))
    parameters = {
        "n_clusters": "auto" if options["n_clusters"] == "auto" else problem.n_clusters,
        "distance": options["distance"],
        "rank_scale": options["rank_scale"],
        "priors": Priors(rate=options["rate"], concentration=options["concentration"]),
        "sampler": options["sampler"],
        "start": "kmeans" if str(options["start"]).startswith("previous ") else options["start"],
        "alpha_update": read_whole_number(options["alpha_update"], "alpha_update"),
        "ranks_move": str(options["ranks_move"]),
    }
    check_distance(parameters["distance"])
    scale_values(problem.n_items, parameters["rank_scale"])
    return parameters, clicks, draws


def _fit_options(options: Mapping[str, Any]) -> dict[str, Any]:
    names = OPTIONS | set(PAPER_OPTIONS)
    check_max_users(options)
    if options.keys() - {"max_users"} != names:
        raise ValueError(f"the options must be {', '.join(sorted(names))}, not {', '.join(sorted(options))}")
    if not isinstance(options["count_k"], list):
        raise ValueError("count_k must be a list")
    for k in options["count_k"]:
        read_whole_number(k, "count_k")
    left_out = {"n_clusters"} if options["sampler"] == "paper" else {"n_clusters", *PAPER_OPTIONS}
    return {name: value for name, value in options.items() if name not in left_out}


def _tally(arrays: Arrays, fields: Mapping[str, Any], problem: Problem, with_users: bool) -> NDArray[Any] | None:
    """Return the counts of items among the next k, or None if there are none."""
    ks = problem.options["count_k"]
    if not (ks and with_users):
        if "draws/tally" in arrays:
            raise ValueError("there are counts, but the options name none, or the users are left out")
        return None
    shape = (fields["plan"].n_chains, len(ks), problem.n_users, problem.n_items)
    if (fields["n_tallied"] < 1).any():
        raise ValueError("counts must be of at least one draw of each chain")
    return read_array(arrays, "draws/tally", "<i4", shape)
