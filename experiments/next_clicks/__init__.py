"""Next clicks: every method on the clicks that really came next, on the shop's visits or on your own files."""
