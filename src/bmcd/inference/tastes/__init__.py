"""The sampler of the model with several tastes per user: clicks and first items, no full rankings."""
