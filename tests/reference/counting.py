"""Slow, obvious references of the counting kernels: lists of events, and sums over pairs of them."""

import numpy as np


def same_time(events, first, last):
    """Whether all clicks from one place to a later one have the same time."""
    return all(events.tied[place] for place in range(first + 1, last + 1))


def neighbours(events, gaps):
    """Yield (earlier place, later place) of the clicks of a session at most ``gaps`` apart that form a pair."""
    for later in range(len(events.item)):
        for earlier in range(max(later - gaps, 0), later):
            in_session = events.session[earlier] == events.session[later]
            other_item = events.item[earlier] != events.item[later]
            if in_session and other_item and not same_time(events, earlier, later):
                yield earlier, later


def directed_pairs(events, weights, gaps):
    table = np.zeros((events.n_items, events.n_items))
    for earlier, later in neighbours(events, gaps):
        table[events.item[earlier], events.item[later]] += weights[later] / (later - earlier)
    return table


def later_occurrences(events):
    """How often the item of each click was clicked after it: more recently, or at the same age further down."""
    n = len(events.item)
    age = np.zeros(n) if events.age is None else events.age
    return [
        sum(
            events.item[other] == events.item[place] and (-age[other], other) > (-age[place], place)
            for other in range(n)
        )
        for place in range(n)
    ]


def recent_pairs(events, memory, gaps):
    table = np.zeros((events.n_items, events.n_items))
    weights = [0.5 ** (later / memory) for later in later_occurrences(events)]
    for one, other in neighbours(events, gaps):
        table[events.item[one], events.item[other]] += weights[one]
        table[events.item[other], events.item[one]] += weights[other]
    return table


def keep_largest(table, n):
    kept = np.zeros_like(table)
    for a, row in enumerate(table):
        for b in sorted(range(len(row)), key=lambda b: (-abs(row[b]), b))[:n]:
            kept[a, b] = row[b]
    return kept


def two_steps(followers, smoothing):
    rates = followers / (followers.sum(axis=1, keepdims=True) + smoothing)
    walk = rates @ rates
    np.fill_diagonal(walk, 0.0)
    return walk


def decayed_counts(events, half_life):
    counts = np.zeros(events.n_items)
    for place, item in enumerate(events.item):
        counts[item] += 1.0 if half_life is None or events.age is None else 0.5 ** (events.age[place] / half_life)
    return counts
