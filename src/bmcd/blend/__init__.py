"""Blend: the next clicks of a user, out of counts and any recommenders, with calibrated probabilities."""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
