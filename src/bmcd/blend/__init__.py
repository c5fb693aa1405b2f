"""Blend: the next clicks of a user, out of counts and any recommenders, with calibrated probabilities."""
