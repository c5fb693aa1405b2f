"""From the scores of any recommenders to rates that come true. Knows scores and races, no models."""

import bmcd.system.compiling  # noqa: F401  (must stand before the first kernel)
