"""What a fit of BMCD or Tastes will cost: estimated before it begins, so that one that cannot end is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from bmcd.cli.names import ModelName, PartName
from bmcd.cli.output import bytes_in_words
from bmcd.errors import InputError

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

# CPU seconds of BMCD: of a user and sweep at 200 items (fewer are not faster), and how they grow with items.
BMCD_SECONDS, BMCD_ITEMS, BMCD_GROWTH = 45e-6, 200, 1.7
# CPU seconds of Tastes: of a click, taste and sweep.
TASTES_SECONDS = 12e-9
# Bytes that a fit takes beside its arrays: compiled code, packages.
FIXED = 300e6
# Longer fits are refused, unless --max-time says when to stop; and what takes more of the memory that is free.
MOST_HOURS, MOST_MEMORY = 1.0, 0.8
# Users in the sample of a chain with --max-users auto, at most.
AUTO_USERS, SOME_USERS = 50_000, 5_000
# Chains, draws, warm-up sweeps and thinning if nothing else is asked for.
BMCD_RUN = {"chains": 4, "draws": 200, "warmup": 200, "thin": 1}
TASTES_RUN = {"chains": 16, "draws": 10, "warmup": 100, "thin": 10}
# Clusters of BMCD where their number is still to be chosen, and what choosing costs, in fits.
MANY_CLUSTERS, CHOOSING = 16, 5


class Cost(NamedTuple):
    """What a fit is estimated to take."""

    cpu_seconds: float
    memory: float
    """In bytes."""

    def plus(self, other: Cost) -> Cost:
        """Return the cost of both, one after the other."""
        return Cost(self.cpu_seconds + other.cpu_seconds, max(self.memory, other.memory))


def cost_of_bmcd(n_users: int, n_items: int, n_clusters: int, sweeps: int, n_chains: int, n_threads: int) -> Cost:
    """Return the cost of a fit of BMCD; ``sweeps`` are those of one chain.

    >>> round(cost_of_bmcd(7_872, 200, 17, 350, 2, 2).cpu_seconds)  # measured: 258
    248
    """
    each = BMCD_SECONDS * max(1.0, n_items / BMCD_ITEMS) ** BMCD_GROWTH
    at_once = min(n_chains, n_threads)
    tables = 8.0 * n_clusters * n_items**2 * at_once
    return Cost(each * n_users * sweeps * n_chains, FIXED + tables + 8.0 * n_users * n_items * at_once)


def cost_of_tastes(
    n_clicks: int, n_users: int, n_items: int, n_tastes: int, sweeps: int, draws: int, n_chains: int, n_threads: int
) -> Cost:
    """Return the cost of a fit of Tastes; ``sweeps`` and ``draws`` are those of one chain.

    >>> round(cost_of_tastes(762_000, 6_000, 2_500, 60, 200, 10, 1, 1).cpu_seconds)  # measured, after tuning: 51
    110
    """
    at_once = min(n_chains, n_threads)
    state = 50.0 * n_clicks * at_once + 16.0 * n_users * n_tastes
    kept = 16.0 * n_chains * draws * n_tastes * n_items
    return Cost(TASTES_SECONDS * n_clicks * n_tastes * sweeps * n_chains, FIXED + state + kept)


def check_fit_cost(
    data: Clicks, model: ModelName, parts: Sequence[PartName], given: Mapping[str, Any], run: Mapping[str, Any]
) -> None:
    """Raise an error if the BMCD and Tastes of a fit would not fit into memory, or would take hours."""
    from bmcd.blend.fitting import EASE_ITEMS, MODEL_CUTS
    from bmcd.cli.checks import free_memory
    from bmcd.utils import thread_count

    names = parts if model is ModelName.blend else [PartName.bmcd if model is ModelName.bmcd else PartName.tastes]
    n_threads = thread_count(run.get("n_threads"))
    n_items = min(data.n_items, EASE_ITEMS) if model is ModelName.blend else data.n_items
    most = run.get("max_users")
    n_users = min(data.n_users, data.n_users if most is None else AUTO_USERS if most == "auto" else most)
    n_clicks = data.n_clicks * n_users // max(data.n_users, 1)
    total = Cost(0.0, 0.0)
    for name in names:
        if name is PartName.bmcd:
            n_chains, draws, warmup, thin = (run.get(key, value) for key, value in BMCD_RUN.items())
            sweeps = warmup + draws * thin
            number = given["n_clusters"] if isinstance(given["n_clusters"], int) else MANY_CLUSTERS
            cost = cost_of_bmcd(n_users, n_items, number, sweeps, n_chains, n_threads)
            if not isinstance(given["n_clusters"], int) and "start" not in run:
                cost = cost._replace(cpu_seconds=cost.cpu_seconds * (1 + CHOOSING))
            total = total.plus(cost)
        elif name is PartName.tastes:
            n_chains, draws, warmup, thin = (run.get(key, value) for key, value in TASTES_RUN.items())
            sweeps = warmup + draws * thin
            number = 40 if given["n_tastes"] == "auto" else given["n_tastes"]
            total = total.plus(
                cost_of_tastes(n_clicks, n_users, n_items, number, sweeps, draws, n_chains, n_threads)
            )
    if model is ModelName.blend:  # models are fitted at past cuts too
        total = total._replace(cpu_seconds=total.cpu_seconds * (1 + MODEL_CUTS))
    what = f"{' and '.join(names)} for {n_users:,} users, {n_items:,} items and {n_clicks:,} clicks"
    sample = "" if model is ModelName.blend else f" and fewer users per chain (--max-users {SOME_USERS})"
    remedy = f"Use fewer items (--most-clicked 200){sample}, or --model blend, which takes any log."
    check_cost(total, what, n_threads, free_memory(), "max_time" in run, remedy)


def check_cost(cost: Cost, what: str, n_threads: int, free: float | None, limited: bool, remedy: str) -> None:
    """Raise an error if a fit would not fit into memory, or would take hours; ``limited``: a time limit was given.

    >>> check_cost(Cost(60.0, 1e9), "BMCD", 2, 4e9, False, "")
    """
    hours = cost.cpu_seconds / n_threads / 3600
    needs = f"{what} needs an estimated {_time(hours)} on {n_threads} threads and {bytes_in_words(cost.memory)}"
    if free is not None and cost.memory > MOST_MEMORY * free:
        raise InputError(f"{needs}, but only {bytes_in_words(free)} of memory are free. {remedy}")
    if hours > MOST_HOURS and not limited:
        raise InputError(f"{needs}. {remedy} Or say when to stop with what there is, such as --max-time 7200.")


def _time(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.0f} days"
    if hours >= 1:
        return f"{hours:.0f} hours" if hours >= 1.5 else "1 hour"
    return f"{math.ceil(hours * 60)} minutes"
