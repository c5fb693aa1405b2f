"""The models BMCD and Tastes, and what all models share: probabilities, lists, reasons, clusters, model files."""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
