"""From draws to probabilities, lists of the best k and reasons. Knows draws and clusters, no models."""

import bmcd.system.compiling  # noqa: F401  (must stand before the first kernel)
