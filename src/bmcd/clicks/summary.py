"""The size and shape of clicks, as numbers and as a short report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClicksSummary:
    """The size and shape of a `Clicks`; `str()` of it reads as a short report."""

    n_users: int
    n_items: int
    n_clicks: int
    density: float
    clicks_per_user: tuple[int, float, int]
    """Smallest, median and largest."""
    clicks_per_item: tuple[int, float, int]
    """Smallest, median and largest."""
    n_users_without_clicks: int
    n_items_without_clicks: int
    n_titles: int
    n_repeated: int
    history: tuple[str, ...]
    n_dropped: int = 0
    """Rows that lacked a user, an item or a time."""
    times: tuple[Any, Any] | None = None
    """The first and the last, if the clicks have any."""
    order: str | None = None
    """Where the order of the clicks comes from: "time", "rows", or None."""
    n_sessions: int = 0
    """The number of sessions; 0 if the log has no order."""

    def __str__(self) -> str:
        n_users, n_items, n_clicks = f"{self.n_users:,}", f"{self.n_items:,}", f"{self.n_clicks:,}"

        def spread(three: tuple[int, float, int], none: int) -> str:
            return f"{three[0]:,} to {three[2]:,}, median {three[1]:,.1f} ({none:,} with none)"

        return "\n".join(
            [
                f"{n_users} users x {n_items} items, {n_clicks} clicks ({self.density:.2%})",
                f"clicks per user: {spread(self.clicks_per_user, self.n_users_without_clicks)}",
                f"clicks per item: {spread(self.clicks_per_item, self.n_items_without_clicks)}",
                f"items with a title: {self.n_titles:,}",
                f"repeated clicks{'' if self.order else ' collapsed'}: {self.n_repeated:,}",
                f"rows dropped: {self.n_dropped:,}",
                *([] if self.order is None else [f"order: by {self.order}, {self.n_sessions:,} sessions"]),
                *([] if self.times is None else [f"times: {self.times[0]} to {self.times[1]}"]),
                *(f"- {step}" for step in self.history),
            ]
        )
