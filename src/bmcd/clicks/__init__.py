"""Who clicked what: the table, and how it is read from files and frames. Knows nothing of models."""

from bmcd.clicks.log import Clicks
from bmcd.errors import ClicksError

__all__ = ["Clicks", "ClicksError"]
