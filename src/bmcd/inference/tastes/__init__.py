"""The sampler of the model with several tastes per user. Knows clicks and laws of first items; no full rankings."""
