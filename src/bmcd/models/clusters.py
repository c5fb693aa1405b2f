"""What each cluster or taste is like: summarised and named."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.log import Clicks, Library
from bmcd.errors import InputError
from bmcd.markup import short_title, table
from bmcd.utils import shown

# A word stands for a cluster if it is in this share of the titles that set it apart, and LEAST_LIFT times more
# frequent there than in all titles.
LEAST_SHARE, LEAST_LIFT = 0.6, 1.5
MOST_WORDS, MOST_TITLES = 2, 2
# Letters of a title in a suggested name, and of a name that users give.
LONGEST_TITLE, LONGEST_NAME = 30, 200
_WORD = re.compile(r"[^\W\d_]{3,}")


def suggest_names(apart: Sequence[Sequence[str]], titles: Sequence[str]) -> list[str]:
    """Return a name for each cluster, from the titles that set it apart, best first, and the titles of all items.

    It is the words that most of those titles share and others do not, with the first title if several clusters have
    the same words; without such words the first two titles.

    >>> titles = ["red skirt 1", "blue skirt 2", "gray skirt 3", "red shoe", "blue shoe", "hat"]
    >>> suggest_names([titles[:3], titles[3:5], titles[5:]], titles)
    ['skirt', 'shoe', 'hat']
    """
    everywhere = Counter(word for title in titles for word in _words(title))
    by_words = [_shared_words(own, everywhere, len(titles)) for own in apart]
    uses = Counter(by_words)
    names = []
    for words, own in zip(by_words, apart, strict=True):
        first = [_shortened(title) for title in own[:MOST_TITLES]]
        names.append((words if uses[words] == 1 else f"{words}: {first[0]}") if words else " + ".join(first))
    return names


def _words(title: str) -> list[str]:
    """Return the different words of a title, in their order."""
    return list(dict.fromkeys(word.casefold() for word in _WORD.findall(title)))


def _shared_words(own: Sequence[str], everywhere: Counter[str], n_titles: int) -> str:
    counts = Counter(word for title in own for word in _words(title))
    lift = {word: (n / len(own)) / (everywhere[word] / n_titles) for word, n in counts.items()}
    good = [word for word, n in counts.items() if n >= LEAST_SHARE * len(own) and lift[word] >= LEAST_LIFT]
    best = sorted(good, key=lambda word: -lift[word])[:MOST_WORDS]
    return " ".join(word for word in good if word in best)


def _shortened(title: str) -> str:
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"


def checked_names(names: object, n_clusters: int) -> dict[int, str]:
    """Return names by cluster number, or an error that describes what is wrong with them.

    >>> checked_names({2: " sale "}, 3)
    {2: 'sale'}
    """
    if not isinstance(names, Mapping):
        raise InputError(f"names must be a dict such as {{1: 'skirts'}}, but it is {shown(names)}.")
    found = {}
    for number, name in names.items():
        if isinstance(number, bool) or not hasattr(number, "__index__") or not 1 <= int(number) <= n_clusters:
            raise InputError(
                f"there is no cluster {shown(number)}: they are numbered from 1 to {n_clusters}, as in clusters_."
            )
        if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable():
            raise InputError(
                f"the name of cluster {number} must be one line of text, at most {LONGEST_NAME} letters, but it is "
                f"{shown(name)}."
            )
        found[int(number)] = name.strip()
    return found


# Percentiles: all intervals hold 90 % of the draws.
INTERVAL = (5, 95)
# How many items of a summary are the best, and how many set the cluster apart.
TOP, APART = 10, 5


@dataclass(frozen=True)
class RankedItem:
    """An item and its consensus rank in a cluster, with an interval that holds 90 % of the draws."""

    item: Any
    title: str
    rank: float
    low: float
    high: float
    elsewhere: float
    """Its mean rank in the other clusters, weighted by their size."""


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster; `print` it for a short report."""

    cluster: int
    """1 is the largest."""
    n_users: float
    n_users_interval: tuple[float, float]
    share: float
    alpha: float
    """How closely its users follow the consensus; 0 is not at all."""
    alpha_interval: tuple[float, float]
    top: tuple[RankedItem, ...]
    """The best items of the consensus, best first."""
    apart: tuple[RankedItem, ...]
    """Items that are ranked much higher here than in the other clusters."""
    agreement: float
    """How well the chains agree on the consensus; 1 is the same in all, 0 no more alike than by chance."""
    kind: Literal["cluster", "taste"] = "cluster"
    """A user belongs to one cluster, and has several tastes: users of a taste are then shares of users added up."""
    name: str | None = None
    """The name it was given; see `name_clusters` of the model."""
    suggested_name: str = ""
    """What it could be called, by the titles of the items that set it apart."""

    @property
    def title(self) -> str:
        """Its number, and its name if it has one, such as: Cluster 1 (skirts)."""
        return f"{self.kind.capitalize()} {self.cluster}" + (f" ({self.name})" if self.name else "")

    def __str__(self) -> str:
        lines = [
            f"{self.title}: {self.n_users:,.0f} users ({self.share:.1%}; "
            f"{self.n_users_interval[0]:,.0f} to {self.n_users_interval[1]:,.0f}), alpha {self.alpha:.2f} "
            f"({self.alpha_interval[0]:.2f} to {self.alpha_interval[1]:.2f}), chains agree {self.agreement:.0%}"
        ]
        lines += [f"  {i.rank:5.1f} ({i.low:.0f} to {i.high:.0f})  {i.title}" for i in self.top]
        lines += [f"  set apart by: {', '.join(i.title for i in self.apart)}"] if self.apart else []
        return "\n".join(lines)


class ClusterSummaries(tuple[ClusterSummary, ...]):
    """All clusters, the largest first. `print` it, or take `to_frame()`."""

    library: Library

    def __new__(cls, clusters: Iterable[ClusterSummary], library: Library = "pandas") -> Self:
        """Return the summaries; frames are made with this library."""
        found = super().__new__(cls, clusters)
        found.library = library
        return found

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self))

    def _repr_html_(self) -> str:
        kind = self[0].kind if self else "cluster"
        rows = [
            (
                c.cluster,
                f"{c.n_users:,.0f} ({c.share:.1%})",
                f"{c.alpha:.2f} ({c.alpha_interval[0]:.2f} to {c.alpha_interval[1]:.2f})",
                f"{c.agreement:.0%}",
                ", ".join(short_title(i.title) for i in c.top),
                ", ".join(short_title(i.title) for i in c.apart),
            )
            for c in self
        ]
        return table((kind, "users", "alpha", "chains agree", "best items, best first", "set apart by"), rows)

    def named(self, names: Mapping[int, str]) -> ClusterSummaries:
        """Return the same with these names, by cluster number."""
        named = [replace(c, name=names.get(c.cluster) or None) for c in self]
        return ClusterSummaries(named, self.library)

    def to_frame(self) -> Any:
        """Return a frame with a row for each cluster and each of its items, in `top` and then in `apart`.

        The column name has the name of a cluster, or, if it has none, the suggested one.
        """
        import narwhals as nw

        rows = [
            {
                "cluster": c.cluster,
                "name": c.name or c.suggested_name,
                **_with_ends("n_users", c.n_users, c.n_users_interval),
                "share": c.share,
                **_with_ends("alpha", c.alpha, c.alpha_interval),
                "agreement": c.agreement,
                "item": i.item,
                "title": i.title,
                **_with_ends("rank", i.rank, (i.low, i.high)),
                "rank_elsewhere": i.elsewhere,
                "sets_apart": i in c.apart,
            }
            for c in self
            for i in dict.fromkeys((*c.top, *c.apart))
        ]
        data = {name: [row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(data, backend=self.library).to_native()


def _with_ends(name: str, value: float, ends: tuple[float, float]) -> dict[str, float]:
    return {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}


def summarise(
    clicks: Clicks,
    kind: Literal["cluster", "taste"],
    *,
    alpha: NDArray[np.float64],
    rho: NDArray[Any],
    sizes: NDArray[np.float64],
    share: NDArray[np.float64],
    agreement: NDArray[np.float64],
) -> ClusterSummaries:
    """Return a summary of each group from arrays [chain, draw, group, ...], groups in the order of their numbers.

    ``sizes`` are numbers of users; ``share`` and ``agreement`` are by group; ``clicks`` has the items.
    """
    rank = rho.mean(axis=(0, 1))
    low, high = np.percentile(rho, INTERVAL, axis=(0, 1))
    titles = [str(title) for title in (clicks.items if clicks.titles is None else clicks.titles).tolist()]
    summaries = []
    for c in range(len(rank)):
        others = np.arange(len(rank)) != c
        elsewhere = np.average(rank[others], axis=0, weights=share[others]) if others.any() else rank[c]
        numbers = np.column_stack([rank[c], low[c], high[c], elsewhere]).tolist()
        items = [
            RankedItem(item, title, *row)
            for item, title, row in zip(clicks.items.tolist(), titles, numbers, strict=True)
        ]
        # How many times higher: a step from 40 to 4 sets apart, one from 190 to 150 does not.
        times = elsewhere / rank[c]
        apart = [i for i in np.argsort(-times, kind="stable")[:APART] if times[i] > 1.0]
        summaries.append(
            ClusterSummary(
                cluster=c + 1,
                n_users=float(sizes[:, :, c].mean()),
                n_users_interval=_interval(sizes[:, :, c]),
                share=float(share[c]),
                alpha=float(alpha[:, :, c].mean()),
                alpha_interval=_interval(alpha[:, :, c]),
                top=tuple(items[i] for i in np.argsort(rank[c], kind="stable")[:TOP]),
                apart=tuple(items[i] for i in apart),
                agreement=float(agreement[c]),
                kind=kind,
            )
        )
    suggested = suggest_names([[item.title for item in c.apart or c.top] for c in summaries], titles)
    summaries = [replace(c, suggested_name=name) for c, name in zip(summaries, suggested, strict=True)]
    return ClusterSummaries(summaries, clicks.library)


def _interval(values: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(values, INTERVAL)
    return float(low), float(high)
