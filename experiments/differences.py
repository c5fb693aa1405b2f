"""A difference between two methods with its interval, and how pages write it."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """How much more of something a method has than another, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 if it has more, -1 if less, 0 if that cannot be told."""
        return 1 if self.low > 0 else -1 if self.high < 0 else 0


def points(gap: Difference, *, signed: bool = False) -> str:
    """Return a difference in points with its interval; without a sign where the sentence says who is ahead.

    >>> points(Difference(-0.02, -0.03, -0.01)), points(Difference(0.02, -0.01, 0.05), signed=True)
    ('2.00 points (1.00 to 3.00)', '+2.00 points (-1.00 to +5.00)')
    """
    value, low, high = (100 * number for number in gap)
    if signed:
        return f"{value:+.2f} points ({low:+.2f} to {high:+.2f})"
    low, high = sorted((abs(low), abs(high)))
    return f"{abs(value):.2f} points ({low:.2f} to {high:.2f})"


def against(gap: Difference, other: str) -> str:
    """Return whether a method is ahead of another, and by how much.

    >>> against(Difference(-0.02, -0.03, -0.01), "EASE"), against(Difference(0.0, -0.01, 0.01), "EASE")
    ('behind EASE by 2.00 points (1.00 to 3.00)', 'level with EASE: +0.00 points (-1.00 to +1.00)')
    """
    if gap.sign == 0:
        return f"level with {other}: {points(gap, signed=True)}"
    return f"{'ahead of' if gap.sign > 0 else 'behind'} {other} by {points(gap)}"
