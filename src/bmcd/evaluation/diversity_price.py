"""What a model gives up or gains in diversity against others, and at which price in accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from bmcd.evaluation.compare import Comparison
from bmcd.evaluation.intervals import PairedDifference

if TYPE_CHECKING:
    import pandas as pd

# Models whose accuracies are no further apart than this are called nearly equal.
NEARLY = 0.01
# Measures with intervals; more of each is more diverse.
DIVERSITY = ("novelty", "rare_share")


class Gap(NamedTuple):
    """How far a model is ahead of another in one measure; low and high are None where there is no interval."""

    difference: float
    low: float | None = None
    high: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves no doubt which is ahead; never without one."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Price(NamedTuple):
    """A model minus one other."""

    other: str
    accuracy: Gap
    coverage: Gap
    novelty: Gap
    rare_share: Gap

    @property
    def nearly_equal(self) -> bool:
        """Whether both hit about as often: no clear difference, or one of at most a hundredth."""
        return not self.accuracy.clear or abs(self.accuracy.difference) <= NEARLY


def diversity_price(comparison: Comparison) -> tuple[Price, ...]:
    """Return what the model `Comparison.against` gives up or gains against each of the others."""
    name, prices = comparison.against, []
    for other, differences in comparison.differences.items():
        shown = comparison.value(name, "coverage") - comparison.value(other, "coverage")
        accuracy, *diversity = (_turned(differences[measure]) for measure in ("accuracy", *DIVERSITY))
        prices.append(Price(other, accuracy, Gap(shown), *diversity))
    return tuple(prices)


def price_table(prices: tuple[Price, ...]) -> pd.DataFrame:
    """Return the same as a frame, a row for each other model; coverage has no interval."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for price in prices:
        row: dict[str, Any] = {"against": price.other, "nearly_equal": price.nearly_equal}
        for measure in ("accuracy", "coverage", *DIVERSITY):
            gap: Gap = getattr(price, measure)
            row[measure] = gap.difference
            if gap.low is not None:
                row |= {f"{measure}_low": gap.low, f"{measure}_high": gap.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _turned(gap: PairedDifference) -> Gap:
    """Return a difference from the other side: a comparison has those of the others minus the model."""
    return Gap(-gap.difference, -gap.high, -gap.low)
