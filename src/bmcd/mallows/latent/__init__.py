"""Exact sums over the rankings that agree with a user's clicks. Knows the footrule and click sets, no sampler."""

from bmcd.mallows.latent.exact import click_matrix, log_likelihood, sample_latent, top_probabilities

__all__ = ["click_matrix", "log_likelihood", "sample_latent", "top_probabilities"]
