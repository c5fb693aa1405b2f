"""Checks of `bmcd fit`: options that a model does not take, fits that take too long, logs that cannot be right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import typer

from bmcd.cli.output import bytes_in_words
from bmcd.errors import ClicksError, InputError, Message, Option
from bmcd.utils import plain

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks

ModelName = Literal["blend", "tastes", "bmcd"]
MEMBERS = (
    *("Tastes", "BMCD", "EASE", "ItemKNN", "UserKNN", "ALS", "SparkALS", "Popularity"),
    *("Trending", "Transitions", "RecentCooccurrence", "SessionKNN"),
)

# ---- options ----

CHAIN_OPTIONS = ("draws", "warmup", "chains", "thin")
SAMPLED = frozenset((*CHAIN_OPTIONS, "max_time", "checkpoint", "rank_scale", "distance"))
OPTIONS = {
    "blend": frozenset(("blend", "refresh", "repeats")),
    "tastes": SAMPLED | {"tastes", "max_users"},
    "bmcd": SAMPLED | {"clusters", "sampler", "count_k", "max_users"},
}
MEMBER_OPTIONS = {"BMCD": SAMPLED | {"clusters"}, "Tastes": SAMPLED | {"tastes"}}
# Members that store the clicks of single users.
NEEDS_CLICKS = ("UserKNN", "SessionKNN")


def parsed_members(text: str) -> list[str]:
    """Return the members that --blend names.

    >>> parsed_members("tastes, EASE")
    ['Tastes', 'EASE']
    """
    known = {name.lower(): name for name in MEMBERS}
    words = [word.strip() for word in text.split(",")]
    if unknown := [word for word in words if word.lower() not in known]:
        raise typer.BadParameter(f"--blend must be names of {', '.join(MEMBERS)}, not {plain(unknown[0])!r}.")
    members = [known[word.lower()] for word in words]
    if twice := [name for name in members if members.count(name) > 1]:
        raise typer.BadParameter(f"--blend has {twice[0]} twice.")
    return members


def check_options(model: ModelName, members: Sequence[str], given: Mapping[str, Any], no_clicks: bool) -> None:
    """Raise a usage error for options that the model or the members do not take, or that contradict each other.

    >>> check_options("bmcd", [], {"draws": 5, "clusters": 3}, False)
    """
    taken = OPTIONS[model].union(*(MEMBER_OPTIONS.get(member, ()) for member in members))
    for name in given:
        if name not in taken:
            takers = [f"--model {other}" for other in get_args(ModelName) if name in OPTIONS[other]]
            takers += [f"--blend with {member}" for member, own in MEMBER_OPTIONS.items() if name in own]
            raise typer.BadParameter(
                f"--{name.replace('_', '-')} is for {', '.join(takers)}; this is --model {model}."
            )
    clusters, distance = given.get("clusters"), given.get("distance", "footrule")
    if "BMCD" in members and distance != "footrule":
        raise typer.BadParameter(f"a blend takes BMCD with --distance footrule only, not {distance}.")
    if "BMCD" in members and isinstance(clusters, range):
        raise typer.BadParameter("a blend with BMCD needs a number of --clusters, or auto.")
    if no_clicks and (needing := [member for member in members if member in NEEDS_CLICKS]):
        raise typer.BadParameter(f"{needing[0]} needs the clicks of users: leave out --no-clicks, or {needing[0]}.")
    if model == "bmcd" and distance != "footrule" and given.get("sampler") != "paper":
        raise typer.BadParameter(f"--distance {distance} needs --sampler paper.")
    if model == "bmcd" and distance != "footrule" and not isinstance(clusters, int):
        raise typer.BadParameter(f"--distance {distance} needs a number of --clusters.")
    if "max_users" in given and distance != "footrule":
        raise typer.BadParameter("--max-users needs --distance footrule.")
    if not given.get("max_time", 1) > 0:
        raise typer.BadParameter(f"--max-time must be more than 0 seconds, not {given['max_time']:g}.")


# ---- cost ----

# CPU seconds of BMCD per user and sweep at 200 items (fewer are not faster), and how they grow with items.
BMCD_SECONDS, BMCD_ITEMS, BMCD_GROWTH = 45e-6, 200, 1.7
# CPU seconds of Tastes per click, taste and sweep.
TASTES_SECONDS = 12e-9
# Bytes that a fit takes beside its arrays: compiled code, packages.
FIXED = 300e6
# Longer fits are refused, unless --max-time limits them; and fits that take more of the free memory.
MOST_HOURS, MOST_MEMORY = 1.0, 0.8
# Users per chain with --max-users auto, at most, and the number that the advice names.
AUTO_USERS, SOME_USERS = 50_000, 5_000
# Chains, draws, warm-up sweeps and thinning by default.
DEFAULT_RUN = {"BMCD": (4, 200, 200, 1), "Tastes": (16, 10, 100, 10)}
# Clusters of BMCD where their number is not chosen yet, and what choosing costs, in fits.
MANY_CLUSTERS, CHOOSING = 16, 5


class Cost(NamedTuple):
    """What a fit is estimated to take."""

    cpu_seconds: float
    memory: float
    """In bytes."""


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
    state = 50.0 * n_clicks * min(n_chains, n_threads) + 16.0 * n_users * n_tastes
    kept = 16.0 * n_chains * draws * n_tastes * n_items
    return Cost(TASTES_SECONDS * n_clicks * n_tastes * sweeps * n_chains, FIXED + state + kept)


def check_fit_cost(data: Clicks, model: ModelName, members: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raise an error if the BMCD and Tastes of a fit would not fit into memory, or would take hours."""
    from bmcd.blend.fitting import EASE_ITEMS, MODEL_CUTS
    from bmcd.utils import thread_count

    names = members if model == "blend" else ["BMCD" if model == "bmcd" else "Tastes"]
    n_threads = thread_count(given.get("n_threads"))
    n_items = min(data.n_items, EASE_ITEMS) if model == "blend" else data.n_items
    most = given.get("max_users", data.n_users)
    n_users = min(data.n_users, AUTO_USERS if most == "auto" else most)
    n_clicks = data.n_clicks * n_users // max(data.n_users, 1)
    costs = [Cost(0.0, 0.0)]
    for name in set(names) & set(DEFAULT_RUN):
        usual = DEFAULT_RUN[name]
        n_chains, draws, warmup, thin = (
            given.get(key, value) for key, value in zip(("chains", "draws", "warmup", "thin"), usual, strict=True)
        )
        sweeps = warmup + draws * thin
        if name == "Tastes":
            number = given.get("tastes", 40)
            number = 40 if number == "auto" else number
            costs.append(cost_of_tastes(n_clicks, n_users, n_items, number, sweeps, draws, n_chains, n_threads))
            continue
        is_given = isinstance(given.get("clusters"), int)
        number = given["clusters"] if is_given else MANY_CLUSTERS
        cost = cost_of_bmcd(n_users, n_items, number, sweeps, n_chains, n_threads)
        fits = 1 if is_given or "start" in given else 1 + CHOOSING
        costs.append(cost._replace(cpu_seconds=cost.cpu_seconds * fits))
    n_fits = 1 + MODEL_CUTS if model == "blend" else 1  # past cuts too
    seconds = n_fits * sum(cost.cpu_seconds for cost in costs)
    hours, memory, free = seconds / n_threads / 3600, max(cost.memory for cost in costs), free_memory()
    needs = (
        f"{' and '.join(names)} for {n_users:,} users, {n_items:,} items and {n_clicks:,} clicks needs an "
        f"estimated {_time(hours)} on {n_threads} threads and {bytes_in_words(memory)}"
    )
    sample = "" if model == "blend" else f" and fewer users per chain (--max-users {SOME_USERS})"
    remedy = f"Use fewer items (--most-clicked 200){sample}, or --model blend, which takes any log."
    if free is not None and memory > MOST_MEMORY * free:
        raise InputError(f"{needs}, but only {bytes_in_words(free)} of memory are free. {remedy}")
    if hours > MOST_HOURS and "max_time" not in given:
        raise InputError(f"{needs}. {remedy} Or limit the time, such as --max-time 7200.")


def free_memory() -> float | None:
    """Return the free memory in bytes, or None if this system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return None


def _time(hours: float) -> str:
    if hours >= 48:
        return f"{hours / 24:,.0f} days"
    return f"{hours:.0f} hours" if hours >= 1.5 else "1 hour" if hours >= 1 else f"{math.ceil(hours * 60)} minutes"


# ---- growing logs ----

# Logs with local times, taken as UTC, may be this many hours ahead of the clock of this machine.
AHEAD = 24
# One of this number of the latest clicks may lie far from all others by mistake; smaller logs are not checked.
FEW, SMALL = 1_000, 100
# Fewer clicks than this, or a single user, are too few to fit to.
FEWEST_CLICKS = 20


def latest(clicks: Clicks, name: str, last: str | None, start: Any, path: Path | None) -> Clicks:
    """Return the clicks of the last hours, all without ``last``; `ClicksError` if the log cannot be relied on.

    ``start`` is the blend in ``path`` that the fit begins with, or None. With ``last`` or ``start`` the log is one
    that grows and is fitted again and again: if clicks are missing or the clock is wrong, the fit is refused, and
    the model in use stays.
    """
    from bmcd.clicks.times import as_text

    if last is not None and not clicks.has_clock:
        said = f"{name}: --last {last} needs points in time, and this log has none. Name the column of times with "
        raise ClicksError(Message(said, Option("time_column", "..."), "."))
    if clicks.has_clock:
        _check_clock(clicks.times, name)
    if start is not None:
        _check_grown(clicks, name, start, path, last)
    if last is None:
        return clicks
    found = clicks.last(last)
    if len(found.sequence) < FEWEST_CLICKS or found.n_users < 2:
        raise ClicksError(
            f"{name}: the last {last} before the last click ({as_text(clicks.times.max())}) have "  # type: ignore[union-attr]
            f"{len(found.sequence):,} of {len(clicks.sequence):,} clicks, by {found.n_users:,} users: too few to "
            "fit to. Use a longer --last, and check that the log is still being written."
        )
    return found


def _check_clock(times: Any, name: str) -> None:
    """Refuse a last click that lies in the future, or far from all other clicks."""
    import numpy as np

    from bmcd.clicks.times import as_text

    times, hour = np.sort(times), np.timedelta64(1, "h")
    present = np.datetime64(datetime.now(UTC).replace(tzinfo=None), "us")
    if ahead := int((times > present + AHEAD * hour).sum()):
        raise ClicksError(
            f"{name}: the last click is at {as_text(times[-1])}, and it is {as_text(present.astype('M8[s]'))} UTC "
            f"now: {ahead:,} of {len(times):,} clicks lie more than a day ahead. A clock has jumped, here or where "
            "the log is written. Correct these times or leave the rows out."
        )
    if len(times) < SMALL:
        return
    tail = times[-max(len(times) // FEW, 1) - 1 :]
    widest = int(np.argmax(np.diff(tail)))
    bulk, gap = tail[widest], tail[widest + 1] - tail[widest]
    if gap > max(24 * hour, (bulk - times[0]) / 4):
        raise ClicksError(
            f"{name}: the latest {len(tail) - 1 - widest:,} of {len(times):,} clicks, up to {as_text(times[-1])}, "
            f"come {gap / hour:,.0f} hours after all others, which run from {as_text(times[0])} to "
            f"{as_text(bulk)}. A clock has jumped, or the log was interrupted. Correct these times, leave the rows "
            "out, or wait until there are more clicks."
        )


def _check_grown(clicks: Clicks, name: str, start: Any, path: Path | None, last: str | None) -> None:
    """Refuse a log that lacks clicks which the model to begin with was fitted to."""
    import numpy as np

    from bmcd.clicks.times import as_text, read_duration

    old, times, as_of, why = start.clicks_, clicks.times, start.as_of_, ""
    if not clicks.has_clock or as_of is None or times is None:
        if clicks.order == old.order and len(clicks.sequence) < len(old.sequence):
            why = (
                f"the log has {len(clicks.sequence):,} clicks, and {path} was fitted to {len(old.sequence):,}: it "
                "has shrunk"
            )
    elif times.max() < as_of:
        why = (
            f"the last click is at {as_text(times.max())}, and {path} was fitted to clicks up to {as_text(as_of)}: "
            "the log has shrunk, or is another one"
        )
    elif old.n_users and old.times is not None:  # a model with clicks
        begin = max(times.min(), old.times.min())
        now, then = (int(((t >= begin) & (t <= as_of)).sum()) for t in (times, old.times))
        covered, wanted = times.max() - times.min(), as_of - old.times.min()
        if last is not None:
            wanted = min(wanted, np.timedelta64(read_duration(last, "last"), "us"))
        if now < then:
            why = (
                f"the log has {now:,} clicks from {as_text(begin)} to {as_text(as_of)}, and {path} was fitted to "
                f"{then:,} of that time: it has shrunk"
            )
        elif covered < wanted / 2:
            why = (
                f"the log begins at {as_text(times.min())}, and {path} was fitted to clicks from "
                f"{as_text(old.times.min())} on: it has shrunk, or was rotated"
            )
    if why:
        remedy = f"Restore the log; or leave out --start to fit to it as it is. {path} stays."
        raise ClicksError(f"{name}: {why}. {remedy}")
