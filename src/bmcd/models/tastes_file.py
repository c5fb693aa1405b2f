"""The file of a `Tastes`: its options and its draws, checked before compiled code trusts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.models.choice_file import NAME as CHOICE
from bmcd.models.files import (
    Arrays,
    check_finite,
    check_max_users,
    check_names,
    make_header,
    pack_clicks,
    pack_draws,
    read_draws,
    read_sizes,
    unpack_clicks,
)
from bmcd.sampling.schema import Problem
from bmcd.sampling.tastes.draws import TASTES, TasteDraws, read_priors

OPTIONS = {"model", "distance", "rank_scale", "n_alphas", "scale_rate", "a", "b", "n_tastes"}


def pack_tastes(
    draws: TasteDraws, clicks: Clicks, n_tastes: int | str, with_users: bool
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of the file."""
    with_users = with_users and clicks.n_users > 0
    header = make_header(draws, clicks, {"n_tastes": n_tastes}, with_users)
    arrays = pack_draws(draws, TASTES) | pack_clicks(clicks, with_users)
    if not with_users:  # log probabilities of clicks of single users
        arrays["draws/probe"] = arrays["draws/probe"][:, :, :0]
    return header, arrays


def unpack_tastes(header: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Clicks, TasteDraws]:
    """Return the parameters of the model, its clicks and its draws, or raise ValueError or KeyError."""
    run, options = dict(header["run"]), dict(header["options"])
    if options.keys() - {"start", "max_users"} != OPTIONS:
        raise ValueError(f"the options must be {', '.join(sorted(OPTIONS))}, not {', '.join(sorted(options))}")
    sizes, plan = read_sizes(run)
    n_tastes = options.pop("n_tastes")
    check_max_users(options)
    problem = Problem(**sizes, data_hash=header["data_hash"], options=options)
    check_names(arrays, TASTES, optional=[CHOICE])
    clicks = unpack_clicks(arrays, run, problem.n_users, problem.n_items)
    fields = read_draws(header, arrays, TASTES, problem, plan)
    check_finite(fields, ("alpha", "a", "b", "log_joint", "visits_per_taste", "probe"))
    for name in ("alpha", "a", "b"):
        if (fields[name] <= 0).any():
            raise ValueError(f"{name} must be positive")
    draws = TasteDraws(**fields)
    draws.laws()  # refuses a distance or a rank scale that is not known
    parameters = {
        "n_tastes": "auto" if n_tastes == "auto" else problem.n_clusters,
        "distance": options["distance"],
        "rank_scale": options["rank_scale"],
        "priors": read_priors(options),
        "chains": plan.n_chains,
    }
    return parameters, clicks, draws
