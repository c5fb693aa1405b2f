"""Slow, obvious references of the blend: the race by bisection, its loss, and features out of dense matrices."""

import math

import numpy as np


def expected_by(t, rates, mult, outside):
    """How many clicks have arrived by a time, those outside included."""
    return float((mult * -np.expm1(-rates * t)).sum() + outside * t)


def race(scores, mult, outside_score, k):
    """Probability of each item to be among the next k, clicks outside, and the time; by bisection in log t."""
    scores, mult = np.asarray(scores, float), np.asarray(mult, float)
    competing = mult > 0
    largest = max([outside_score, *scores[competing].tolist()])
    rates = np.where(competing, np.exp(np.minimum(scores - largest, 0)), 0.0)
    outside = math.exp(outside_score - largest) if outside_score > -math.inf else 0.0
    if outside == 0 and k >= mult.sum():
        return competing.astype(float), 0.0, math.inf
    low = math.log(k / ((mult * rates).sum() + outside)) - 1.0
    high = low + 2.0
    while expected_by(math.exp(high), rates, mult, outside) < k:
        high += 5.0
    for _ in range(200):
        middle = (low + high) / 2
        if expected_by(math.exp(middle), rates, mult, outside) < k:
            low = middle
        else:
            high = middle
    t = math.exp((low + high) / 2)
    return np.where(competing, -np.expm1(-rates * t), 0.0), outside * t, t
