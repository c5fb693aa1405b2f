"""From clicks to draws: states, moves, chains, checkpoints, diagnostics."""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
