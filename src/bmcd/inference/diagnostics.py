"""Whether the chains have converged: R-hat, effective sample sizes, standard errors, and the verdict in words.

The quantities do not depend on the names of the clusters; `chain_statistics` computes their statistics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, Message, Option
from bmcd.inference import chain_statistics
from bmcd.inference.draws import Draws
from bmcd.markup import bullets, tag
from bmcd.utils import shown

if TYPE_CHECKING:
    import pandas as pd


# User-item pairs whose probability is followed, and their k.
PROBED, PROBED_K = 24, 10


def probed_pairs(seed: int, n_users: int, n_items: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the users and the columns of the items, which follow from the seed of the run."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_users, PROBED), rng.integers(0, n_items, PROBED)


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
    """Return the quantities whose convergence is assessed, each [chain, draw].

    Clusters are sorted by alpha or by size, so that their numbers do not matter.

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
    if draws.n_draws < MIN_DRAWS:
        raise InputError(
            f"diagnostics need at least {MIN_DRAWS} draws of each chain, but there are {draws.n_draws}."
        )
    return [assess_quantity(name, values) for name, values in quantities(draws, clicks).items()]


def assess_quantity(name: str, values: Values) -> Row:
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
            return 1.0  # too short; the effective sample size will show it
        values = np.concatenate([values[:, :half], values[:, -half:]])
    if (values == values.flat[0]).all():
        return 1.0
    if (values == values[:, :1]).all():
        return math.inf
    found = chain_statistics.rhat(values)
    return math.inf if math.isnan(found) else found


MAX_RHAT = 1.05
MIN_ESS = 100.0  # a posterior mean is then known to a tenth of its standard deviation
# R-hat has no scale: a probability on which no two halves of chains differ by this much counts as converged.
MATTERS = 0.01


State = Literal["converged", "not converged", "too short", "stopped"]
# The same in a few words, for where there is no room for more.
SHORT: dict[State, str] = {
    "converged": "converged",
    "not converged": "not converged",
    "too short": "too short to tell whether it converged",
    "stopped": "stopped before it converged",
}


@dataclass(frozen=True)
class Verdict:
    """Converged or not, in words, and what to do about it."""

    state: State
    """Too short: the chains agree so far, but there are too few draws to be sure. Stopped: the run ended early and
    what there is has not converged."""
    text: str
    advice: tuple[str, ...] = ()
    stuck_chains: tuple[int, ...] = ()
    """Chains that stopped changing: nothing of such a run can be used."""

    @property
    def converged(self) -> bool:
        """Whether the chains have converged."""
        return self.state == "converged"

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"- {line}" for line in self.advice)])

    def _repr_html_(self) -> str:
        state, colon, reason = self.text.partition(":")
        return tag("div", tag("p", tag("b", state, colon), reason), bullets(self.advice) if self.advice else None)


def table(draws: Draws, clicks: Clicks | None = None) -> pd.DataFrame:
    """`rows` as a frame, by quantity."""
    import pandas as pd

    return pd.DataFrame(rows(draws, clicks)).set_index("quantity")


def verdict(
    draws: Draws, clicks: Clicks | None = None, *, max_rhat: float = MAX_RHAT, min_ess: float = MIN_ESS
) -> Verdict:
    """Assess convergence: R-hat of every quantity at most `max_rhat`, and `min_ess` effective draws, bulk and tail.

    Probabilities that differ by less than `MATTERS`, between chains and between their halves, count as converged.
    ``clicks`` are those that were fitted, for the names of users and items.
    """
    apart = "max_users" in draws.problem.options and draws.n_chains > 1
    assessed = (_assess_apart if apart else _assess)(draws, clicks, max_rhat, min_ess)
    more = [f"The run was {draws.note}"] if draws.note else []
    more += [draws.caveat] if draws.caveat else []
    early = draws.stopped != "finished" and not assessed.converged
    return replace(assessed, state="stopped" if early else assessed.state, text=" ".join([assessed.text, *more]))


def _assess(draws: Draws, clicks: Clicks | None, max_rhat: float, min_ess: float) -> Verdict:
    if draws.n_draws < MIN_DRAWS:
        return Verdict(
            "too short",
            f"Convergence cannot be assessed: {draws.n_draws} draws of each chain are too few; {MIN_DRAWS} are the "
            f"least, and {MIN_ESS:g} in all are wanted.",
            (Message("Ask for more draws, such as ", Option("draws", _enough(draws, min_ess)), "."),),
        )
    if stuck := _stuck_chains(draws):
        return Verdict(
            "not converged",
            "Not converged: " + "; ".join(f"chain {c} is stuck ({how})" for c, how in stuck.items()) + ".",
            (
                "Run again with another seed, or with more warm-up or chains; use nothing of this run.",
                "If it stays stuck, the moves do not suit the data: try the other sampler, or fewer clusters.",
            ),
            tuple(stuck),
        )
    known = quantities(draws, clicks)
    found = [row for row in rows(draws, clicks) if not (row.constant or _agrees_closely(row, known[row.quantity]))]
    worst = max(found, key=lambda row: row.rhat)
    least = min(found, key=lambda row: min(row.ess_bulk, row.ess_tail))
    ess, kind = min((least.ess_bulk, "bulk"), (least.ess_tail, "tail"))
    one = draws.n_chains == 1
    alone = (
        " One chain cannot show whether others would end elsewhere: R-hat between chains cannot be taken."
        if one and "max_users" not in draws.problem.options
        else ""
    )
    more_chains = ("Run at least 2 chains, better 4.",) if alone else ()
    what = "split R-hat of the one chain" if one else f"R-hat over {draws.n_chains} chains"
    figures = (
        f"largest {what} {_shown(worst.rhat)} ({worst.quantity}; at most {max_rhat:g} is wanted), "
        f"smallest effective sample size {ess:.0f} ({kind}, {least.quantity}; {min_ess:g} or more is wanted), "
        f"from {draws.n_draws} draws of each chain."
    )
    if worst.rhat <= max_rhat and ess >= min_ess:
        return Verdict("converged", f"Converged: {figures}{alone}", more_chains)
    if worst.rhat <= max_rhat:
        enough = Option("draws", _enough(draws, min_ess, ess))
        advice = (Message("The chains agree, but there are too few draws: ask for ", enough, "."),)
        return Verdict("too short", f"Not converged yet: {figures}{alone}", advice + more_chains)
    advice = (*_advice(draws, worst, known[worst.quantity], max_rhat), *more_chains)
    return Verdict("not converged", f"Not converged: {figures}{alone}", advice)


def _assess_apart(draws: Draws, clicks: Clicks | None, max_rhat: float, min_ess: float) -> Verdict:
    """Assess every chain by itself, as each has its own users, and return the worst verdict."""
    verdicts = [
        _assess(draws.of_chain(chain), clicks, max_rhat, min_ess / draws.n_chains)
        for chain in range(draws.n_chains)
    ]
    order: tuple[State, ...] = ("not converged", "stopped", "too short", "converged")
    chain = min(range(draws.n_chains), key=lambda c: order.index(verdicts[c].state))
    said = f"Every chain has its own sample of users and is assessed by itself: this is chain {chain}."
    worst = verdicts[chain]
    stuck = tuple(c for c, verdict in enumerate(verdicts) if verdict.stuck_chains)
    return replace(worst, text=f"{worst.text} {said}", stuck_chains=stuck)


def _advice(draws: Draws, worst: Row, values: Values, max_rhat: float) -> tuple[str, ...]:
    """What to do about a large R-hat: is it drift within the chains, or do they disagree?"""
    # Halves of a chain that drifts differ by far more than those of one that is only slow.
    drifting = [c for c in range(len(values)) if rhat(values[c : c + 1]) > max(max_rhat, 1.1)]
    warmup, done = draws.plan.warmup, draws.n_draws * draws.plan.thin
    longer = Message("such as ", Option("warmup", max(2 * warmup, warmup + done, 100)))
    if len(drifting) == len(values):
        said = f"The {worst.quantity} still moves from one half of each chain to the other"
        return (Message(f"{said}: give more warm-up, ", longer, ", and more draws."),)
    if len(values) == 1:
        twice = Option("draws", 2 * draws.n_draws)
        return (Message("Give more draws, such as ", twice, ", and more warm-up, ", longer, "."),)
    means = ", ".join(_told_apart(values.mean(axis=1)))
    said = f"The chains disagree on the {worst.quantity} (means by chain: {means})"
    if len(values) > 2:
        others = {c: rhat(np.delete(values, c, axis=0)) for c in range(len(values))}
        apart = min(others, key=lambda c: others[c])
        if others[apart] <= max_rhat:
            said += f"; without chain {apart} the others agree (R-hat {_shown(others[apart])})"
    if drifting:
        said += f"; chain {', '.join(map(str, drifting))} still drifts"
    return (
        Message(f"{said}. Give more warm-up, ", longer, "."),
        Message(
            "If they still disagree, the posterior has several modes: run more chains from different starts (",
            Option("chains", 2 * len(values)),
            "), and average over them.",
        ),
    )


def _agrees_closely(row: Row, values: Values) -> bool:
    """Whether it is a probability on which chains and their halves differ by nothing that matters."""
    half = values.shape[1] // 2
    means = np.stack([values[:, :half].mean(axis=1), values[:, half:].mean(axis=1)])
    return row.quantity.startswith("probability") and float(np.ptp(means)) < MATTERS


def _told_apart(means: NDArray[np.float64]) -> list[str]:
    """Return numbers with as many digits as it takes to see that they differ.

    >>> _told_apart(np.array([-12345.61, -12347.2])), _told_apart(np.array([0.12, 0.1345]))
    (['-12,345.6', '-12,347.2'], ['0.120', '0.135'])
    """
    spread = float(np.ptp(means))
    digits = max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 4
    return [f"{mean:,.{digits}f}" for mean in means]


def _stuck_chains(draws: Draws) -> dict[int, str]:
    """Return the chains whose log joint stopped changing, with a description."""
    found = {}
    for chain, values in enumerate(draws.log_joint):
        moves = np.flatnonzero(np.diff(values))
        still = int(np.diff(np.concatenate([[-1], moves, [len(values) - 1]])).max())
        if still >= max(MIN_DRAWS, len(values) / 2):
            found[chain] = f"its log joint stood at {values[-1]:,.6g} for {still} of {len(values)} draws"
    for chain, values in enumerate(draws.alpha):
        if chain not in found and (values == values[0]).all():
            found[chain] = f"its alpha stood at {values[0].max():,.6g} for all {len(values)} draws"
    return dict(sorted(found.items()))


def _enough(draws: Draws, min_ess: float, ess: float | None = None) -> int:
    """A round number of draws that should give `min_ess` effective ones, with a quarter to spare."""
    if ess is None:
        return max(100, 2 * draws.n_draws)
    return math.ceil(1.25 * draws.n_draws * min_ess / max(ess, 1.0) / 50) * 50


def _shown(rhat: float) -> str:
    return f"{rhat:.3f}" if rhat < 10 else "above 10"
