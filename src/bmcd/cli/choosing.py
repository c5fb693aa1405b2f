"""The number of clusters of `bmcd fit`: given, or chosen once and remembered if the run is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from bmcd.cli.output import plain, rows_of

if TYPE_CHECKING:
    from bmcd.clicks.log import Clicks
    from bmcd.models.choose_clusters import ClusterChoice

MEMORY = "choice"  # the kind of the file that remembers a choice


def parsed_clusters(text: str) -> int | range | None:
    """A number of clusters, or those to choose from; None for auto.

    >>> parsed_clusters("4-20")
    range(4, 21)
    """
    low, dash, high = text.strip().partition("-")
    if text.strip() == "auto":
        return None
    if low.isascii() and low.isdigit() and int(low) > 0:
        if not dash:
            return int(low)
        if high.isascii() and high.isdigit() and int(high) >= int(low):
            return range(int(low), int(high) + 1)
    raise typer.BadParameter(f"--clusters must be auto, a number such as 8, or 4-20, not {plain(text)!r}.")


def parsed_tastes(text: str) -> int | Literal["auto"]:
    """A number of tastes, or auto."""
    if text == "auto":
        return "auto"
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise typer.BadParameter(f"--tastes must be auto or a number such as 40, not {plain(text)!r}.")


def parsed_max_users(text: str) -> int | Literal["auto"]:
    """A number of users, or auto."""
    if text == "auto":
        return "auto"
    digits = text.replace("_", "")
    if digits.isascii() and digits.isdigit() and int(digits) > 0:
        return int(digits)
    raise typer.BadParameter(f"--max-users must be auto or a number such as 50000, not {plain(text)!r}.")


def chosen_clusters(
    clicks: Clicks, candidates: range | None, memory: Path, rank_scale: str, run: dict[str, Any]
) -> ClusterChoice:
    """What `choose_n_clusters` found.

    It is kept in the file ``memory``: choosing takes minutes, and a run that is stopped later must not lose them.
    """
    from bmcd import __version__, choose_n_clusters, container
    from bmcd.models.stored_choices import pack_cluster_choice

    of = {
        "version": __version__,
        "data_hash": clicks.fingerprint(),
        "candidates": "auto" if candidates is None else list(candidates),
        "rank_scale": rank_scale,
        "seed": run["seed"],
    }
    if (known := _remembered(memory, of, clicks)) is not None:
        return known
    found = choose_n_clusters(clicks, candidates, rank_scale=rank_scale, **run)
    header, arrays = pack_cluster_choice(found, clicks, with_users=True)
    container.write(memory, MEMORY, {"of": of, **header}, arrays, private=True)
    return found


def told(choice: Any) -> dict[str, Any]:
    """What --json says of a choice of clusters or tastes."""
    if hasattr(choice, "n_tastes"):
        return {"recommended": choice.n_tastes, "reason": choice.reason, "table": rows_of(choice.table)}
    return {
        "recommended": choice.recommended,
        "reason": choice.reason,
        "by_mwcd": choice.by_mwcd,
        "elbow": choice.elbow,
        "table": rows_of(choice.table.reset_index()),
    }


def _remembered(memory: Path, of: dict[str, Any], clicks: Clicks) -> ClusterChoice | None:
    """What the file says, if it is about the same data and options; anything else is as good as no file."""
    from bmcd import container
    from bmcd.errors import StoreError
    from bmcd.models.stored_choices import read_cluster_choice

    try:
        stored = container.read(memory, MEMORY)
        return read_cluster_choice(stored.header, stored.arrays, clicks) if stored.header["of"] == of else None
    except (StoreError, ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        return None
