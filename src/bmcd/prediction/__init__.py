"""From draws to probabilities, lists of the best k and reasons. Knows draws and clusters, no models."""
