"""What each cluster is like, for a person to read: size, alpha, its best items, and those that set it apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks, Library
from bmcd.clusters.matching import ClusterNames
from bmcd.sampling.draws import Draws

INTERVAL = (5, 95)  # percentiles: all intervals hold 90 % of the draws
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
    """Its rank in the other clusters, mean weighted by their size."""


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster. `str()` of it reads as a short report."""

    cluster: int
    """1 is the largest."""
    n_users: float
    n_users_interval: tuple[float, float]
    share: float
    alpha: float
    """How closely its users follow the consensus: 0 not at all."""
    alpha_interval: tuple[float, float]
    top: tuple[RankedItem, ...]
    """The best of the consensus."""
    apart: tuple[RankedItem, ...]
    """Items that stand much higher here than elsewhere."""
    agreement: float
    """Do the chains agree on the consensus? 1: the same; 0: no more alike than by chance."""

    def __str__(self) -> str:
        lines = [
            f"Cluster {self.cluster}: {self.n_users:,.0f} users ({self.share:.1%}; "
            f"{self.n_users_interval[0]:,.0f} to {self.n_users_interval[1]:,.0f}), alpha {self.alpha:.2f} "
            f"({self.alpha_interval[0]:.2f} to {self.alpha_interval[1]:.2f}), chains agree {self.agreement:.0%}"
        ]
        lines += [f"  {i.rank:5.1f} ({i.low:.0f} to {i.high:.0f})  {i.title}" for i in self.top]
        lines += [f"  set apart by: {', '.join(i.title for i in self.apart)}"] if self.apart else []
        return "\n".join(lines)


class ClusterSummaries(Sequence[ClusterSummary]):
    """All clusters, the largest first. `print` it, or take `to_frame()`."""

    def __init__(self, clusters: Sequence[ClusterSummary], library: Library = "pandas") -> None:
        self._clusters, self._library = tuple(clusters), library

    @overload
    def __getitem__(self, index: int) -> ClusterSummary: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ClusterSummary]: ...
    def __getitem__(self, index: int | slice) -> ClusterSummary | Sequence[ClusterSummary]:
        return self._clusters[index]

    def __len__(self) -> int:
        return len(self._clusters)

    def __iter__(self) -> Iterator[ClusterSummary]:
        return iter(self._clusters)

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self._clusters))

    def to_frame(self) -> Any:
        """One row for each cluster and each of its top items."""
        import narwhals as nw

        rows = [
            {
                "cluster": c.cluster,
                "n_users": c.n_users,
                "n_users_low": c.n_users_interval[0],
                "n_users_high": c.n_users_interval[1],
                "share": c.share,
                "alpha": c.alpha,
                "alpha_low": c.alpha_interval[0],
                "alpha_high": c.alpha_interval[1],
                "agreement": c.agreement,
                "item": i.item,
                "title": i.title,
                "rank": i.rank,
                "rank_low": i.low,
                "rank_high": i.high,
                "rank_elsewhere": i.elsewhere,
                "sets_apart": i in c.apart,
            }
            for c in self._clusters
            for i in (*c.top, *(i for i in c.apart if i not in c.top))
        ]
        data = {name: [row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(data, backend=self._library).to_native()


def summarise_clusters(draws: Draws, names: ClusterNames, clicks: Clicks) -> ClusterSummaries:
    """Summarise the draws; ``clicks`` gives the items their names."""
    alpha, tau = names.sort(draws.alpha), names.sort(draws.tau)
    sizes = names.sort(draws.label_counts.astype(np.float64))
    rho = names.sort(draws.rho)
    rank = rho.mean(axis=(0, 1))
    low, high = np.percentile(rho, INTERVAL, axis=(0, 1))
    n_clusters, n_items = rank.shape
    weight = tau.mean(axis=(0, 1))
    titles = clicks.items.astype(str) if clicks.titles is None else clicks.titles
    own = clicks.items.tolist()

    def interval(values: NDArray[np.float64]) -> tuple[float, float]:
        first, last = np.percentile(values, INTERVAL)
        return float(first), float(last)

    found = []
    for c in range(n_clusters):
        others = np.arange(n_clusters) != c
        elsewhere = np.average(rank[others], axis=0, weights=weight[others]) if others.any() else rank[c]

        def ranked(
            order: NDArray[np.int64], c: int = c, elsewhere: NDArray[Any] = elsewhere
        ) -> tuple[RankedItem, ...]:
            return tuple(
                RankedItem(
                    own[i],
                    str(titles[i]),
                    float(rank[c, i]),
                    float(low[c, i]),
                    float(high[c, i]),
                    float(elsewhere[i]),
                )
                for i in order
            )

        # How many times higher: a step from 40 to 4 sets apart, one from 190 to 150 does not.
        times = elsewhere / rank[c]
        apart = np.argsort(-times, kind="stable")[:APART]
        found.append(
            ClusterSummary(
                cluster=c + 1,
                n_users=float(sizes[:, :, c].mean()),
                n_users_interval=interval(sizes[:, :, c]),
                share=float(weight[c]),
                alpha=float(alpha[:, :, c].mean()),
                alpha_interval=interval(alpha[:, :, c]),
                top=ranked(np.argsort(rank[c], kind="stable")[: min(TOP, n_items)]),
                apart=ranked(apart[times[apart] > 1.0]) if others.any() else (),
                agreement=float(names.agreement[c]),
            )
        )
    return ClusterSummaries(found, clicks.library)
