"""Why an item was recommended: the user's clusters, where the item stands in each, and what each contributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from bmcd.markup import paragraphs, table, tag
from bmcd.models.bmcd_predictor import Predictor, standard_error
from bmcd.models.clusters import INTERVAL, ClusterNames

SHOWN = 0.005  # clusters to which the user belongs with less are not printed


@dataclass(frozen=True)
class Contribution:
    """One cluster's part in a probability."""

    cluster: int
    """As in `BMCD.clusters_`: 1 is the largest."""
    membership: float
    """Probability that the user belongs to it."""
    rank: float
    """Where its consensus has the item (1 is best), mean over draws."""
    rank_interval: tuple[float, float]
    """Holds 90 % of the draws."""
    probability: float
    """That the item is among the user's next k, if the user belongs to this cluster."""
    contribution: float
    """What it adds to the probability: the mean over draws of membership times probability."""
    name: str | None = None
    """What people call it."""


@dataclass(frozen=True)
class Explanation:
    """Why `probability` is what it is; `print` it. The contributions add up to it."""

    user: Any
    item: Any
    title: str
    k: int
    n_clicked: int
    probability: float
    mcse: float
    clusters: tuple[Contribution, ...]
    """The largest contribution first; clusters that the user does not belong to are left out."""

    def __str__(self) -> str:
        lines = _opening(self)
        for c in [c for c in self.clusters if c.membership >= SHOWN]:
            low, high = c.rank_interval
            lines.append(
                f"- {c.membership:.0%} cluster {c.cluster}{_named(c)}, whose consensus has it at rank {c.rank:.0f} "
                f"({low:.0f} to {high:.0f}): {c.probability:.1%} there, adds {c.contribution:.1%}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (c.cluster, f"{c.membership:.1%}", f"{c.rank:.0f}", f"{c.probability:.1%}", f"{c.contribution:.1%}")
            for c in self.clusters
            if c.membership >= SHOWN
        ]
        heads = ("cluster", "belongs to it", "rank there", "probability there", "adds")
        return tag("div", paragraphs(*_opening(self)), table(heads, rows))


def explain(
    predictor: Predictor,
    names: ClusterNames,
    clicks: sparse.csr_array,
    item: int,
    k: int,
    *,
    user: Any,
    item_id: Any,
    title: str,
    called: Mapping[int, str],
) -> Explanation:
    """Explain one probability for the one user of ``clicks``; clusters are ``called`` so, by number."""
    weight, given = predictor.by_cluster(clicks, item, k)
    by_draw = weight * given
    name = names.name[:, predictor.chosen].reshape(weight.shape)
    order, rank = np.argsort(name, axis=1), predictor.rho[:, :, item].astype(np.float64)
    weight, given, parts, rank = (
        np.take_along_axis(values, order, axis=1) for values in (weight, given, by_draw, rank)
    )
    found = []
    for c in np.argsort(-parts.mean(axis=0), kind="stable").tolist():
        member = float(weight[:, c].mean())
        if member > 0:
            low, high = np.percentile(rank[:, c], INTERVAL)
            inside = float(parts[:, c].mean())
            found.append(
                Contribution(
                    c + 1,
                    member,
                    float(rank[:, c].mean()),
                    (float(low), float(high)),
                    inside / member,
                    inside,
                    called.get(c + 1),
                )
            )
    batches = np.array([by_draw[draws].sum(axis=1).mean() for draws in predictor.batches])
    return Explanation(
        user=user,
        item=item_id,
        title=title,
        k=k,
        n_clicked=int(clicks.nnz),
        probability=float(by_draw.sum(axis=1).mean()),
        mcse=float(standard_error(batches.reshape(predictor.n_chains, -1))),
        clusters=tuple(found),
    )


@dataclass(frozen=True)
class TasteContribution:
    """One taste's part in a probability."""

    taste: int
    """As in `Tastes.clusters_`: 1 has the most visits."""
    share: float
    """Of the user's visits that go to it."""
    rank: float
    """Where its consensus has the item (1 is best), mean over draws."""
    click_probability: float
    """That a visit to it clicks the item."""
    contribution: float
    """What it adds to the probability: its share in the rate at which the item arrives, times the probability."""
    name: str | None = None
    """What people call it."""


@dataclass(frozen=True)
class TasteExplanation:
    """Why `probability` is what it is; `print` it. The contributions add up to it.

    The probability is that of all chains; tastes and their shares are those of the chain in `Tastes.clusters_`.
    """

    user: Any
    item: Any
    title: str
    k: int
    n_clicked: int
    probability: float
    mcse: float
    tastes: tuple[TasteContribution, ...]
    """The largest contribution first."""

    def __str__(self) -> str:
        lines = _opening(self)
        for t in self.tastes:
            if t.contribution >= SHOWN:
                lines.append(
                    f"- {t.share:.0%} of the visits go to taste {t.taste}{_named(t)}, which has it at rank "
                    f"{t.rank:.0f} and clicks it in {t.click_probability:.1%} of its visits: adds "
                    f"{t.contribution:.1%}"
                )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (t.taste, f"{t.share:.1%}", f"{t.rank:.0f}", f"{t.click_probability:.1%}", f"{t.contribution:.1%}")
            for t in self.tastes
            if t.contribution >= SHOWN
        ]
        heads = ("taste", "share of visits", "rank there", "clicked in a visit", "adds")
        return tag("div", paragraphs(*_opening(self)), table(heads, rows))


def _named(part: Contribution | TasteContribution) -> str:
    return f" ({part.name})" if part.name else ""


def _opening(explained: Explanation | TasteExplanation) -> list[str]:
    """Return the first lines of an explanation: the probability, and how many clicks the user has."""
    who = "Someone" if explained.user is None else f"User {explained.user}"
    what = explained.title[:1].upper() + explained.title[1:]
    return [
        f"{what} is among the next {explained.k} of {who[0].lower() + who[1:]} with probability "
        f"{explained.probability:.1%} (+- {explained.mcse:.1%}).",
        f"{who} has {explained.n_clicked} click{'' if explained.n_clicked == 1 else 's'}.",
    ]
