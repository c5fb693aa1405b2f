"""Everything the samplers compile: arrays in, arrays out; no checks, no input or output, no Python objects."""

import bmcd.compiling  # noqa: F401  (must stand before the first kernel)
