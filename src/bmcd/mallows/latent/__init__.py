"""Sum out a user's latent ranking, exactly, given the clicks, for the footrule."""

from bmcd.mallows.latent.exact import click_matrix, log_likelihood, sample_latent, top_probabilities

__all__ = ["click_matrix", "log_likelihood", "sample_latent", "top_probabilities"]
