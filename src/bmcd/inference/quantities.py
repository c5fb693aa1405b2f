"""What is judged of a fit's draws: quantities that do not depend on the names of the clusters, and their figures.

R-hat (rank-normalised, split), effective sample sizes and Monte Carlo standard errors: `chain_statistics`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError
from bmcd.inference import chain_statistics
from bmcd.inference.draws import Draws
from bmcd.inference.probed import probed_pairs
from bmcd.utils import shown

MIN_DRAWS = 4  # of a chain: what is needed to split it

Values = NDArray[np.float64]  # [chain, draw]


class Row(NamedTuple):
    """The diagnostics of one quantity; those of a constant are nan, but for mean, sd and mcse."""

    quantity: str
    mean: float
    sd: float
    mcse: float
    rhat: float
    ess_bulk: float
    ess_tail: float
    constant: bool


def quantities(draws: Draws, clicks: Clicks | None = None) -> dict[str, Values]:
    """What is judged, each [chain, draw]: clusters are sorted by alpha or by size, so that names cannot matter.

    ``clicks`` are those that were fitted, for the names of users and items.
    """
    found = {"log joint": draws.log_joint, "within-cluster distance": draws.within_distance}
    for name, values in (("alpha", draws.alpha), ("cluster size", draws.label_counts)):
        ordered = -np.sort(-values.astype(np.float64), axis=2)
        found |= {f"{name} {c + 1} of {ordered.shape[2]}": ordered[:, :, c] for c in range(ordered.shape[2])}
    # Rounded: a probability that is always 1 differs in its last digits, which is no disagreement.
    probe = draws.probe.round(9)
    return found | dict(zip(_probability_names(draws, clicks), np.moveaxis(probe, 2, 0), strict=False))


def _probability_names(draws: Draws, clicks: Clicks | None) -> list[str]:
    """Return the names of the probabilities that are followed: of which item, for which user."""
    names = []
    of = draws.problem
    for user, item in zip(*probed_pairs(draws.seed, of.n_users, of.n_items), strict=True):
        what = f"item number {item + 1}" if clicks is None else shown(clicks.items[item])
        known = clicks is not None and clicks.n_users
        who = f"user {shown(clicks.users[user])}" if clicks is not None and known else f"user number {user + 1}"
        names.append(f"probability of {what} for {who}")
    return names


def rows(draws: Draws, clicks: Clicks | None = None) -> list[Row]:
    """The diagnostics of all `quantities`; of at least 4 draws of each chain."""
    _need_draws(draws)
    return [judge_quantity(name, values) for name, values in quantities(draws, clicks).items()]


def judge_quantity(name: str, values: Values) -> Row:
    """Return the diagnostics of one quantity, [chain, draw]."""
    mean, sd = float(values.mean()), float(values.std())
    if (values == values.flat[0]).all():
        return Row(name, float(values.flat[0]), 0.0, 0.0, math.nan, math.nan, math.nan, True)
    if (values == values[:, :1]).all():  # each chain stands still, but not at the same place: R-hat has no limit
        n_chains = len(values)
        return Row(name, mean, sd, sd, math.inf, float(n_chains), float(n_chains), False)
    statistics = chain_statistics
    bulk, tail, mcse = (of(values) for of in (statistics.ess_bulk, statistics.ess_tail, statistics.mcse_mean))
    return Row(name, mean, sd, mcse, rhat(values), bulk, tail, False)


def rhat(values: Values) -> float:
    """R-hat; that of one chain is taken between its halves, each of which is split again."""
    if len(values) == 1:
        half = values.shape[1] // 2
        if half < MIN_DRAWS:
            return 1.0  # too short to say anything; the effective sample size will
        values = np.concatenate([values[:, :half], values[:, -half:]])
    if (values == values.flat[0]).all():
        return 1.0
    if (values == values[:, :1]).all():
        return math.inf
    found = chain_statistics.rhat(values)
    return math.inf if math.isnan(found) else found


def _need_draws(draws: Draws) -> None:
    if draws.n_draws < MIN_DRAWS:
        raise InputError(
            f"diagnostics need at least {MIN_DRAWS} draws of each chain, but there are {draws.n_draws}."
        )
