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
    for _ in range(90):
        middle = (low + high) / 2
        if expected_by(math.exp(middle), rates, mult, outside) < k:
            low = middle
        else:
            high = middle
    t = math.exp((low + high) / 2)
    return np.where(competing, -np.expm1(-rates * t), 0.0), outside * t, t


def moment_loss(w, ex, e):
    """The loss of one moment: every candidate and every item of a cell on its own, and the clicks outside."""
    of = w @ ex.z[e]
    n_features, n_dense = ex.x.shape[1], ex.cells.shape[2]
    rows = ex.x[ex.start[e] : ex.start[e + 1]].astype(float)
    scores = [*(rows @ of[:n_features]), *(ex.cells[ex.block[e]].astype(float) @ of[:n_dense])]
    mult = [1.0] * len(rows) + ex.mult[e].tolist()
    outside = of[n_features] + of[n_features + 1] * ex.outside[e] if ex.has_outside else -math.inf
    clicked, clicked_outside = np.zeros(len(scores)), 0
    for target in ex.targets[ex.target_start[e] : ex.target_start[e + 1]]:
        if target >= 0:
            clicked[target] += 1
        elif target < -1_000:
            clicked_outside += 1
        else:
            clicked[len(rows) - 1 - target] += 1
    probability, elsewhere, t = race(scores, mult, outside, ex.g[e])
    if t == math.inf:
        return 0.0
    loss = elsewhere - (clicked_outside * math.log(elsewhere) if elsewhere > 0 and clicked_outside else 0.0)
    largest = max([outside, *(s for s, m in zip(scores, mult, strict=True) if m)])
    for s, p, m, y in zip(scores, probability, mult, clicked, strict=True):
        if y:
            loss -= y * math.log(ex.phi[e] * p)
        if m > y:
            u = math.exp(s - largest) * t
            # With phi = 1 the logarithm is that of exp(-u), which may be too small for a number.
            loss -= (m - y) * (-u if ex.phi[e] == 1 else math.log(1 - ex.phi[e] + ex.phi[e] * math.exp(-u)))
    return loss


def loss(w, ex):
    """The sum of the losses of all moments."""
    return sum(moment_loss(w, ex, e) for e in range(len(ex.g)))


def dense_of(csr, n):
    """A sparse table as a full one."""
    table = np.zeros((n, n))
    for a in range(n):
        for place in range(csr.start[a], csr.start[a + 1]):
            table[a, csr.item[place]] += csr.value[place]
    return table


def latest_known(clicks, known, most):
    """The last clicks on items that are modelled, the latest first."""
    return [int(a) for a in clicks[::-1] if a >= 0 and known[a]][:most]


def features(tables, everything, running, near, extra, repeats):
    """All features of every item for one user, [item, feature], out of full tables.

    ``everything`` and ``running`` are clicks, ``near`` is what similar sessions contain, [item], and ``extra`` what
    models say, [item, feature].
    """
    n = len(tables.share)
    share, mu = tables.share.astype(float), tables.smoothing
    names = ("follows", "follows_recent", "two_steps", "later", "goes_with", "ease")
    one, several, walk, later, together, ease = (dense_of(getattr(tables, name), n) for name in names)
    x = np.zeros((n, 17))
    session, recent = latest_known(running, tables.known, 20), latest_known(everything, tables.known, 20)
    if session:
        last = session[0]
        after, long_after, beside = np.zeros(n), np.zeros(n), np.zeros(n)
        total_after, total_long_after, total_beside = 0.0, 0.0, 0.0
        for place, a in enumerate(session):
            for_after = 0.7**place / (tables.follows_recent.total[a] + mu)
            for_long_after = 0.7**place / (tables.later.total[a] + mu)
            for_beside = 0.7**place / (tables.goes_with.total[a] + mu)
            after, beside = after + for_after * several[a], beside + for_beside * together[a]
            long_after, total_long_after = long_after + for_long_after * later[a], total_long_after + for_long_after
            total_after, total_beside = total_after + for_after, total_beside + for_beside
            x[:, 12] += ease[a]
        x[:, 0] = np.log1p(one[last] / mu / share)
        x[:, 1] = x[:, 0] ** 2 / 5
        x[:, 2], x[:, 3] = np.log1p(after / (mu * total_after) / share), np.log1p(after / 1e-3)
        x[:, 4] = np.log1p(walk[last] / (1 - min(tables.two_steps.total[last], 0.9)) / share)
        x[:, 5] = np.log1p(walk[last] / 1e-3)
        x[:, 6] = np.log1p(long_after / (mu * total_long_after) / share)
        x[:, 7], x[:, 9] = np.log1p(beside / (mu * total_beside) / share), np.log1p(beside / 1e-3)
        x[:, 8] = x[:, 7] ** 2 / 5
    x[:, 10], x[:, 11] = np.log1p(near / 1e-2), np.sqrt(near)
    for place, a in enumerate(recent):
        x[:, 13] += 0.5**place * ease[a]
    x[:, 12:14] = np.sign(x[:, 12:14]) * np.sqrt(np.abs(x[:, 12:14]))
    if repeats:
        for place, a in reversed(list(enumerate(recent))):
            x[a, 14:] = 1.0, place == 0, 1 / (1 + place)
    return np.concatenate([tables.popularity, x, extra], axis=1)
