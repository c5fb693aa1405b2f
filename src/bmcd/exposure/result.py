"""Reranking: the recommendations after limits on exposure, and what the limits cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.clicks.table import Clicks, Library
from bmcd.exposure.limits import Limits
from bmcd.exposure.weights import Value


@dataclass(frozen=True, eq=False)
class Shown:
    """What some recommendations are worth, and how often they show each item."""

    total: float
    """Sum of the probabilities of all recommendations, the expected number of hits; or sum of their scores."""
    exposure: NDArray[np.int64]
    """[item]: users to whom it is shown, in the order of the clicks."""

    @property
    def n_recommendations(self) -> int:
        """How many recommendations there are."""
        return int(self.exposure.sum())

    @property
    def n_shown(self) -> int:
        """How many different items are shown to somebody."""
        return int((self.exposure > 0).sum())

    @property
    def coverage(self) -> float:
        """`n_shown` over the number of items, as in `bmcd.evaluate`."""
        return self.n_shown / len(self.exposure)

    @property
    def gini(self) -> float:
        """Gini coefficient of the exposure: 0 if all items are shown equally often, near 1 if one is shown alone.

        >>> Shown(1.0, np.array([5, 5])).gini, Shown(1.0, np.array([0, 0, 0, 8])).gini
        (0.0, 0.75)
        """
        sorted_, n = np.sort(self.exposure), len(self.exposure)
        total = int(sorted_.sum())
        return float(((2 * np.arange(1, n + 1) - n - 1) * sorted_).sum() / (n * total)) if total else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers but those of single items, ready for JSON."""
        return {
            "total": self.total,
            "n_recommendations": self.n_recommendations,
            "n_shown": self.n_shown,
            "coverage": self.coverage,
            "gini": self.gini,
            "least_shown": int(self.exposure.min()),
            "most_shown": int(self.exposure.max()),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Reranking:
    """What `bmcd.rerank` found; `print` it for the price."""

    recommendations: Any
    """The frame, with the columns of `recommend`."""
    k: int
    value: Value
    """What was summed: "probability" or "score"."""
    before: Shown
    """The plain recommendations, those of `recommend`."""
    after: Shown
    """These recommendations."""
    limits: Limits
    """Floors, caps and the number of items asked for, as counts."""
    n_changed: int
    """Recommendations that are not among the plain ones."""
    n_users_changed: int
    """Users whose list is another one."""
    largest_error: float
    """`after.total` is below the greatest total possible within the limits by this at most, by rounding."""
    clicks: Clicks

    @property
    def price(self) -> float:
        """What is given up: expected hits (or sum of scores, without probabilities) before, less those after."""
        # To the plain lists scores within 1e-6 are equal, so they can be that much worse than the best ones.
        return max(0.0, self.before.total - self.after.total)

    @property
    def price_per_item(self) -> float | None:
        """The price over the number of items gained, those shown to nobody before; None if none was gained."""
        gained = self.after.n_shown - self.before.n_shown
        return self.price / gained if gained > 0 else None

    def exposure(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each item: item, title (if there are any), before, after, floor, cap."""
        import narwhals as nw

        data: dict[str, list[Any]] = {"item": self.clicks.items.tolist()}
        if self.clicks.titles is not None:
            data["title"] = self.clicks.titles.tolist()
        of = {"before": self.before.exposure, "after": self.after.exposure}
        data |= {name: values.tolist() for name, values in of.items()}
        data |= {"floor": self.limits.low.tolist(), "cap": self.limits.high.tolist()}
        return nw.from_dict(data, backend=library or self.clicks.library).to_native()

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON; without what there is for each user and item."""
        return {
            "k": self.k,
            "value": self.value,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "price": self.price,
            "price_per_item": self.price_per_item,
            "n_changed": self.n_changed,
            "n_users_changed": self.n_users_changed,
            "largest_error": self.largest_error,
        }

    def __repr__(self) -> str:
        one, two = self.before, self.after
        what = "expected hits" if self.value == "probability" else "sum of scores"
        share = f" ({self.price / abs(one.total):.2%})" if one.total else ""
        each = "" if self.price_per_item is None else f", {self.price_per_item:,.4g} for each item gained"
        rows = [
            (what, f"{one.total:,.2f}", f"{two.total:,.2f}"),
            ("items shown", f"{one.n_shown:,}", f"{two.n_shown:,}"),
            ("coverage", f"{one.coverage:.4f}", f"{two.coverage:.4f}"),
            ("least shown", f"{one.exposure.min():,}", f"{two.exposure.min():,}"),
            ("most shown", f"{one.exposure.max():,}", f"{two.exposure.max():,}"),
            ("Gini of exposure", f"{one.gini:.4f}", f"{two.gini:.4f}"),
        ]
        title = f"{two.n_recommendations:,} recommendations to {self.clicks.n_users:,} users, k={self.k}"
        return "\n".join(
            [
                f"Reranking({title})",
                f"  {'':<17}{'before':>12}{'after':>12}",
                *(f"  {name:<17}{before:>12}{after:>12}" for name, before, after in rows),
                f"  price: {self.price:,.2f} {what}{share}{each}",
                f"  ({self.n_changed:,} recommendations changed, of {self.n_users_changed:,} users)",
            ]
        )
