"""The clicks of the case study: which items and users are kept, and which clicks are removed to test on."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bmcd import Clicks, ClicksError, load_dataset, read_clicks


@dataclass(frozen=True)
class DataSet:
    """Clicks, and the paper's protocol for them; fit for JSON, as it is an argument of every task."""

    name: str
    """Its name in files and headings, such as "eshop-1"."""
    source: str
    """A bundled data set, or the path of a file."""
    most_clicked: int
    """Only so many items are kept, the most clicked."""
    at_least: int
    """Only users with so many clicks on these items are kept."""
    remove: int
    """So many clicks of each user are removed at random; as many items are recommended."""
    n_popular: int | None
    """So many of the most clicked items are popular, the others rare; a fifth unless given."""
    seed: int = 0
    n_users: int | None = None
    """Only the first so many of these users are kept, to be quick."""
    user: str = "user"
    """The column of the file with users."""
    item: str = "item"
    """The column of the file with items."""
    titles: str | None = None
    """A file with titles of the items."""
    sha256: str | None = None
    """The checksum of the file, so that results of other clicks are not used again; None for a bundled data set."""

    @property
    def is_own(self) -> bool:
        """Whether the clicks are the user's own."""
        return self.sha256 is not None


class PreparedClicks(NamedTuple):
    """The clicks of a data set after the protocol."""

    kept: Clicks
    """All that are kept, before any are removed to test on."""
    train: Clicks
    test: Clicks
    """Those that were removed."""


def own_data(file: Path, **protocol: Any) -> DataSet:
    """Return a data set of the user's own, from a file as `bmcd.read_clicks` reads it."""
    checksum = hashlib.sha256(file.read_bytes()).hexdigest()
    name = re.sub(r"[^\w-]+", "-", file.name.partition(".")[0]) or "own"  # fit for names of files and for links
    return DataSet(name, str(file), sha256=checksum, **protocol)


@lru_cache(maxsize=3)
def prepare(data: DataSet) -> PreparedClicks:
    """Read the clicks, keep and remove what the protocol says, and return what is left and what was removed."""
    if data.is_own:
        clicks = read_clicks(data.source, user=data.user, item=data.item, titles=data.titles)
    else:
        clicks = load_dataset(data.source)
    if data.remove < 1 or data.at_least <= data.remove:
        raise ClicksError(
            f"{data.source}: {data.remove} clicks of users with at least {data.at_least} are to be removed, but at "
            "least one must be removed and one must be left. Give other --at-least and --remove."
        )
    kept = clicks.most_clicked(min(data.most_clicked, clicks.n_items))
    n_clicks = sorted(int(n) for n in kept.matrix.sum(axis=1))
    n_users = sum(n >= data.at_least for n in n_clicks)
    if n_users < 2:
        most = n_clicks[-20:]
        raise ClicksError(
            f"{data.source}: {n_users} of {len(n_clicks):,} users have {data.at_least} clicks or more on the "
            f"{kept.n_items} most clicked items, but 2 users are needed. The most clicks of a user are {most[-1]}; "
            f"{len(most)} users have {most[0]} or more. Give --at-least and --remove accordingly, or a larger "
            "--most-clicked."
        )
    kept = kept.at_least(data.at_least)
    if data.n_users is not None:
        history = (*kept.history, f"kept the first {data.n_users} of {kept.n_users} users")
        kept = replace(kept.of_users(np.arange(min(data.n_users, kept.n_users))), history=history)
    # The protocol removes random clicks, so a blend must not learn what users clicked next.
    matrix = kept.matrix
    unordered = replace(
        kept, starts=matrix.indptr.astype(np.int64), sequence=matrix.indices.astype(np.int32), times=None,
        session_ids=None, session_over=None, order=None, history=(), n_repeated=0, n_dropped=0,
    )  # fmt: skip
    return PreparedClicks(kept, *unordered.hold_out(data.remove, data.seed))
