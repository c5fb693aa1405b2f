"""The clicks of the case study: which items and users are kept, and which clicks are removed to test on."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from bmcd.clicks.datasets import load_dataset
from bmcd.clicks.reading import read_clicks
from bmcd.clicks.table import Clicks
from bmcd.errors import ClicksError


@dataclass(frozen=True)
class DataSet:
    """Clicks, and the paper's protocol for them; fit for JSON, as it is an argument of every task."""

    name: str
    """Of files and headings, such as "eshop-1"."""
    source: str
    """A bundled data set, or the path of a file."""
    most_clicked: int
    """Only so many items are kept, the most clicked."""
    at_least: int
    """Only users with so many clicks on them are kept."""
    remove: int
    """So many clicks of each user are removed at random; as many items are recommended."""
    n_popular: int | None
    """So many of the most clicked items are popular, the others rare; a fifth unless given."""
    seed: int = 0
    n_users: int | None = None
    """Only the first so many of these users, to be quick."""
    user: str = "user"
    item: str = "item"
    titles: str | None = None
    """A file with titles of the items."""
    sha256: str | None = None
    """Of the file: results of other clicks are not to be used again."""

    @property
    def is_own(self) -> bool:
        """Is it a file of the user's?"""
        return self.sha256 is not None


def own_data(file: Path, **protocol: Any) -> DataSet:
    """A data set of the user's own, from a file as `bmcd.read_clicks` reads it."""
    content = file.read_bytes()
    name = re.sub(r"[^\w-]+", "-", file.name.partition(".")[0]) or "own"  # also of files and links
    return DataSet(name, str(file), sha256=hashlib.sha256(content).hexdigest(), **protocol)


def as_argument(data: DataSet) -> dict[str, Any]:
    """The data set as an argument of a task."""
    return asdict(data)


def all_clicks(data: DataSet) -> Clicks:
    """The clicks that are kept, before any are removed to test on."""
    return _prepared(json.dumps(asdict(data)))[0]


def split(data: DataSet) -> tuple[Clicks, Clicks]:
    """The clicks to train on, and those removed to test on."""
    _, train, test = _prepared(json.dumps(asdict(data)))
    return train, test


@lru_cache(maxsize=3)
def _prepared(text: str) -> tuple[Clicks, Clicks, Clicks]:
    data = DataSet(**json.loads(text))
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
    n_clicks = [int(n) for n in kept.matrix.sum(axis=1)]
    enough = sum(n >= data.at_least for n in n_clicks)
    if enough < 2:
        most = sorted(n_clicks)[-min(20, len(n_clicks)) :]
        raise ClicksError(
            f"{data.source}: {enough} of {len(n_clicks):,} users have {data.at_least} clicks or more on the "
            f"{kept.n_items} most clicked items, and 2 are the least. The most clicks of a user are {most[-1]}; "
            f"{len(most)} users have {most[0]} or more. Give --at-least and --remove accordingly, or a larger "
            "--most-clicked."
        )
    kept = kept.at_least(data.at_least)
    if data.n_users is not None:
        step = f"kept the first {data.n_users} of {kept.n_users} users"
        first = slice(data.n_users)
        history = (*kept.history, step)
        kept = replace(kept, users=kept.users[first], matrix=kept.matrix[first], history=history)
    return kept, *kept.hold_out(data.remove, data.seed)
