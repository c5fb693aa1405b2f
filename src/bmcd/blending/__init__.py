"""From the scores of any recommenders to rates that come true. Knows scores and races, no models."""
