"""From clicks to draws: states, moves, chains, checkpoints, diagnostics. Knows no recommendations."""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
