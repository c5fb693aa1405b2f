"""The number of clusters of `bmcd fit`: given, or chosen once and remembered if the run is stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bmcd.cli.output import plain, rows_of
from bmcd.system.files import write_json

if TYPE_CHECKING:
    from bmcd.clicks.table import Clicks


def parsed_clusters(text: str) -> int | range:
    """A number of clusters, or those to choose from.

    >>> parsed_clusters("4-20")
    range(4, 21)
    """
    low, dash, high = text.strip().partition("-")
    if text.strip() == "auto":
        from bmcd.clusters.choose import CANDIDATES

        return CANDIDATES
    if low.isascii() and low.isdigit() and int(low) > 0:
        if not dash:
            return int(low)
        if high.isascii() and high.isdigit() and int(high) >= int(low):
            return range(int(low), int(high) + 1)
    raise typer.BadParameter(f"--clusters must be auto, a number such as 8, or 4-20, not {plain(text)!r}.")


def chosen_clusters(
    clicks: Clicks, candidates: range, memory: Path, rank_scale: str, run: dict[str, Any]
) -> dict[str, Any]:
    """What `choose_n_clusters` recommends, why, and its table.

    It is kept in the file ``memory``: choosing takes minutes, and a run that is stopped later must not lose them.
    """
    from bmcd import __version__, choose_n_clusters

    of = {
        "version": __version__,
        "data_hash": clicks.fingerprint(),
        "candidates": list(candidates),
        "rank_scale": rank_scale,
        "seed": run["seed"],
    }
    if (known := _remembered(memory, of)) is not None:
        return known
    found = choose_n_clusters(clicks, candidates, rank_scale=rank_scale, **run)
    choice = {
        "recommended": found.recommended,
        "reason": found.reason,
        "by_mwcd": found.by_mwcd,
        "elbow": found.elbow,
        "table": rows_of(found.table.reset_index()),
    }
    write_json(memory, {"of": of, "choice": choice})
    return choice


def _remembered(memory: Path, of: dict[str, Any]) -> dict[str, Any] | None:
    """What the file says, if it is about the same data and options; anything else is as good as no file."""
    try:
        stored = json.loads(memory.read_text(encoding="utf-8"))
        choice = dict(stored["choice"])
        same = (
            stored["of"] == of and choice["recommended"] in of["candidates"] and {"reason", "table"} <= set(choice)
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return choice if same else None
