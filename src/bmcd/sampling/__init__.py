"""From clicks to draws: states, moves, chains, checkpoints, diagnostics. Knows no recommendations."""

import bmcd.system.compiling  # noqa: F401  (must stand before the first kernel)
