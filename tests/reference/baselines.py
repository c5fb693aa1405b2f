"""Slow, obvious references of the baselines that use order: scores of one session, from lists of sessions."""

import numpy as np
from tests.reference import counting


def share(events, half_life):
    """The share of each item, plus half a click of the clicks that a decayed sum is made of on average."""
    counts = counting.decayed_counts(events, half_life)
    volume = len(events.item)
    if half_life is not None and events.age is not None and volume:
        hours = max(events.age.max() - events.age.min(), half_life)
        volume *= min(half_life / (np.log(2) * hours), 1)
    return counts / (counts.sum() or 1) + 0.5 / max(volume, 1)


def mixture(session, counts, totals, p, decay, smoothing):
    """The average of (counts[a] + smoothing p) / (totals[a] + smoothing) over the session, the last click first."""
    if not session:
        return p
    weights = [decay**back for back in range(len(session))]
    rows = [(counts[a] + smoothing * p) / (totals[a] + smoothing) for a in session[::-1]]
    return np.average(rows, axis=0, weights=weights)


def recent(events, window):
    """The events of the last hours, one tuple each; ties are kept by the number of a run of them."""
    return events if window is None or events.age is None else events.keep(events.age <= window)


def transitions(events, session, *, decay, gaps, smoothing, half_life, window, followers, steps, share_half_life):
    p = share(events, share_half_life)
    events = recent(events, window)
    clocked = half_life is not None and events.age is not None
    weights = 0.5 ** (events.age / half_life) if clocked else np.ones(len(events.item))
    after = counting.directed_pairs(events, weights, gaps)
    scores = mixture(session, counting.keep_largest(after, followers), after.sum(axis=1), p, decay, smoothing)
    if steps == 2 and session:
        walk = counting.two_steps(counting.directed_pairs(events, weights, 1), smoothing)
        scores = scores + counting.keep_largest(walk, followers)[session[-1]]
    return scores


def recent_cooccurrence(events, session, *, memory, gaps, decay, smoothing, window, partners, share_half_life):
    p = share(events, share_half_life)
    pairs = counting.recent_pairs(recent(events, window), memory, gaps)
    return mixture(session, counting.keep_largest(pairs, partners), pairs.sum(axis=1), p, decay, smoothing)


def session_knn(events, session, *, neighbours, candidates, decay, half_life):
    """Sessions of two or more items; the latest that share an item; the nearest of these; their items."""
    sessions = {}
    for place, number in enumerate(events.session.tolist()):
        sessions.setdefault(number, []).append(place)
    age = {n: 0.0 if events.age is None else events.age[places[-1]] for n, places in sessions.items()}
    items = {n: set(events.item[places].tolist()) for n, places in sessions.items()}
    kept = sorted((n for n in sessions if len(items[n]) > 1), key=lambda n: (-age[n], n))  # the oldest first
    recency = dict(zip(kept, 0.5 + 0.5 * np.arange(1, len(kept) + 1) / max(len(kept), 1), strict=True))
    if events.age is not None:
        recency = {n: 1.0 if half_life is None else 0.5 ** (age[n] / half_life) for n in kept}
    weight = {item: decay**back for back, item in enumerate(dict.fromkeys(session[::-1])) if decay**back > 0}
    found = [n for n in kept[::-1] if items[n] & set(weight)][:candidates]
    similarity = {n: sum(weight.get(i, 0) for i in items[n]) / np.sqrt(len(items[n])) * recency[n] for n in found}
    scores = np.zeros(events.n_items)
    for n in sorted(found, key=lambda n: -similarity[n])[:neighbours]:
        for item in items[n]:
            scores[item] += similarity[n]
    return scores


def ease_scores(weights, history, decay):
    """The sum of rows of the weights of a user's distinct items, the last clicked first."""
    asked = list(dict.fromkeys(history[::-1]))
    rows = [decay**back * weights[item] for back, item in enumerate(asked)]
    return np.sum(rows, axis=0) if rows else np.zeros(len(weights))
