"""The weights of a blend: learnt from moments by the log loss of exactly the probabilities that are reported.

The log rate of item i for a user is sum over features f of w_f(z) x_f(i), where w_f(z) = sum over z of W_fz z:
every weight may depend on the length of the running session. The last two features belong to the outside option
alone: a constant, and the logarithm of the share of recent clicks on items that were unknown at the time.

Given a moment and the g clicks that followed, the loss is

    - sum over items i that were clicked of log(phi pi_i) - sum over the others of log(1 - phi pi_i)

with pi_i from the race for the next g (see `next_k`), plus the Poisson loss of the clicks outside. phi is 1 where
the log has an order. Without order, m clicks were held out at random of the m + k that come next: the race runs for
g = m + k, and phi = m / g.

The loss is minimised by Newton's method: its Hessian is cheap, and it also gives the standard errors.
"""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.blend.next_k import rates_of, time_of_next_k
from bmcd.mallows.latent.scan import REORDER
from bmcd.utils import Floats, thread_count

Ints = NDArray[np.int64]

# Moments that a thread takes at a time; the sums of the pieces are added in order, whatever the number of threads.
PIECE = 128
# Standard deviations of the prior: of the weights of standardised features around where learning begins, of what
# they gain with the length of the session, of what they gain where the session is empty (only popularity counts
# there, and it counts for much more), and of the outside option.
PRIOR_SD, PRIOR_SD_OF_LENGTH, PRIOR_SD_OF_EMPTY, PRIOR_SD_OUTSIDE = 0.3, 0.1, 0.7, 1.0
# From this horizon on, weights do not depend on the length: long sessions that still have ten clicks to come are
# rare, and more predictable than those of the same length that end sooner.
LONG_HORIZON, NO_LENGTH_SD = 10, 1e-3
MOST_STEPS = 30
# Newton stops when a step is expected to lower the loss, in all, by less than this (nats).
ENOUGH = 1e-3
N_OUTSIDE = 2


class Examples(NamedTuple):
    """Moments as the loss needs them: candidates and cells with features, and what was clicked.

    Features are standardised (see `standardise`); the candidates of moment e are the rows
    ``start[e]`` to ``start[e + 1]``.
    """

    x: NDArray[np.float32]  # [row, feature]
    start: Ints
    block: Ints  # which table of cells a moment uses
    cells: NDArray[np.float32]  # [block, cell, dense feature]
    mult: NDArray[np.float32]  # items of each cell that compete, [moment, cell]
    outside: NDArray[np.float64]  # log share of recent clicks outside, [moment]
    targets: Ints  # row of the moment, or -1 - cell, or OUTSIDE
    target_start: Ints
    z: Floats  # [moment, z]
    g: Floats  # how many clicks the race runs for, [moment]
    phi: Floats  # [moment]
    user: Ints  # of each moment, for standard errors
    window: Ints  # of each moment, in order of time
    has_outside: bool  # whether clicks can go to items outside the model

    @property
    def n_moments(self) -> int:
        """The number of moments."""
        return len(self.g)

    def of(self, moments: NDArray[Any]) -> Examples:
        """Return some moments alone, given by number."""
        lengths, counts = np.diff(self.start)[moments], np.diff(self.target_start)[moments]
        rows, targets = _ranges(self.start[moments], lengths), _ranges(self.target_start[moments], counts)
        start, target_start = (
            np.concatenate(([0], np.cumsum(each))).astype(np.int64) for each in (lengths, counts)
        )
        own = {name: getattr(self, name)[moments] for name in ("block", "mult", "outside", "z", "g", "phi")}
        own |= {name: getattr(self, name)[moments] for name in ("user", "window")}
        changes: dict[str, Any] = {**own, "x": self.x[rows], "start": start, "target_start": target_start}
        return self._replace(targets=self.targets[targets], **changes)


OUTSIDE = -(10**9)


class Weights(NamedTuple):
    """What was learnt for one number of next clicks."""

    w: Floats  # [feature and outside, z]
    covariance: Floats  # of w.ravel(), over samples of users (sandwich); empty if not asked for
    loss: float  # mean over moments, without the prior


def _ranges(starts: Ints, lengths: Ints) -> Ints:
    if not len(starts):
        return np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths), np.int64)


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def _scores(x, first, last, cells, mult, w, n_cells, scores, m):
    """Write the log rates of candidates and of cells with items, and their multiplicities; return how many."""
    n_features, n_dense = x.shape[1], cells.shape[1]
    n = 0
    for row in range(first, last):
        value = 0.0
        for f in range(n_features):
            value += w[f] * x[row, f]
        scores[n] = value
        m[n] = 1.0
        n += 1
    for c in range(n_cells):
        value = 0.0
        for f in range(n_dense):
            value += w[f] * cells[c, f]
        scores[n] = value
        m[n] = max(mult[c], 0.0)
        n += 1
    return n


@numba.njit(cache=True, nogil=True, fastmath=REORDER)
def _squares(columns, weights, n, size, weighted, into):
    """Write the sum over the first n columns x of weights x x' into the lower triangle."""
    for f in range(size):
        for i in range(n):
            weighted[i] = weights[i] * columns[f, i]
        for h in range(f + 1):
            value = 0.0
            for i in range(n):
                value += weighted[i] * columns[h, i]
            into[f, h] = value


@numba.njit(cache=True, nogil=True)
def loss_of(
    first, last, w, x, start, block, cells, mult, outside, targets, target_start, z, g, phi, has_outside, second,
    times, losses, gradients, hessian,
):  # fmt: skip
    """Write the loss and the gradient of some moments; with ``second`` also add up the Hessian of the piece.

    ``gradients`` is [moment, feature] (the gradient by W is its product with z); ``times`` keeps the time of each
    race, where the next search begins.
    """
    n_features, n_dense = x.shape[1], cells.shape[2]
    size, n_z, n_cells = n_features + N_OUTSIDE, z.shape[1], cells.shape[1]
    most = 0
    for e in range(first, last):
        most = max(most, start[e + 1] - start[e])
    most += n_cells
    scores, m, rates, stays = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    y, da, db = np.empty(most), np.empty(most), np.empty(most + 1)
    of, mean = np.empty(size), np.empty(size)
    square, weighted = np.zeros((size, size)), np.empty(most + 1)
    jac = np.empty(
        (size, most + 1 if second else 0)
    )  # how each log rate times t changes with each feature's weight
    for e in range(first, last):
        for f in range(size):
            value = 0.0
            for q in range(n_z):
                value += w[f, q] * z[e, q]
            of[f] = value
        a, b = start[e], start[e + 1]
        n = _scores(x, a, b, cells[block[e]], mult[e], of, n_cells, scores, m)
        n_rows = b - a
        y[:n] = 0.0
        y_outside = 0.0
        for place in range(target_start[e], target_start[e + 1]):
            target = targets[place]
            if target == OUTSIDE:
                y_outside += 1.0
            elif target >= 0:
                y[target] += 1.0
            else:
                y[n_rows - 1 - target] += 1.0
        outside_score = of[n_features] + of[n_features + 1] * outside[e] if has_outside else -math.inf
        r_outside, _ = rates_of(scores, n, m, outside_score, rates)
        gradients[e] = 0.0
        losses[e] = 0.0
        t = time_of_next_k(rates, m, n, r_outside, g[e], times[e], stays)
        if t == math.inf:
            continue  # everything that is left comes next: nothing to learn
        times[e] = t
        share = phi[e]
        loss, total, slope = 0.0, 0.0, 0.0
        for i in range(n):
            u, stay = rates[i] * t, stays[i]
            slope += m[i] * u * stay
            free = m[i] - y[i]
            rest = 1.0 - share + share * stay  # 1 - phi pi
            lost = share * u * stay / rest
            d = free * lost
            d2 = free * (lost * (1.0 - u) + lost * lost)
            loss -= free * (-u if share == 1.0 else math.log(rest))
            if y[i] > 0.0:
                pi = max(-math.expm1(-u), 1e-300)
                h = u * stay / pi if u > 1e-12 else 1.0
                d -= y[i] * h
                d2 -= y[i] * h * (1.0 - h - u)
                loss -= y[i] * math.log(share * pi)
            da[i], db[i] = d, d2
            total += d
        u0 = r_outside * t
        if r_outside > 0.0:
            loss += u0 - (y_outside * math.log(max(u0, 1e-300)) if y_outside > 0.0 else 0.0)
            total += u0 - y_outside
            slope += u0
        slope = max(slope, 1e-300)
        ratio = total / slope
        losses[e] = loss
        mean[:] = 0.0
        for i in range(n):
            if m[i] <= 0.0:
                continue
            u = rates[i] * t
            weight = m[i] * u * stays[i]
            da[i] -= ratio * weight
            db[i] -= ratio * weight * (1.0 - u)
            if i < n_rows:
                for f in range(n_features):
                    gradients[e, f] += da[i] * x[a + i, f]
                    mean[f] += weight * x[a + i, f]
            else:
                for f in range(n_dense):
                    gradients[e, f] += da[i] * cells[block[e], i - n_rows, f]
                    mean[f] += weight * cells[block[e], i - n_rows, f]
        if r_outside > 0.0:
            d0 = u0 - y_outside - ratio * u0
            gradients[e, n_features] = d0
            gradients[e, n_features + 1] = d0 * outside[e]
            mean[n_features] += u0
            mean[n_features + 1] += u0 * outside[e]
        if not second:
            continue
        for f in range(size):
            mean[f] /= slope
        n_kept = 0
        for i in range(n):
            if m[i] <= 0.0:
                continue
            for f in range(n_features):
                if i < n_rows:
                    jac[f, n_kept] = x[a + i, f] - mean[f]
                else:
                    jac[f, n_kept] = (cells[block[e], i - n_rows, f] if f < n_dense else 0.0) - mean[f]
            jac[n_features, n_kept], jac[n_features + 1, n_kept] = -mean[n_features], -mean[n_features + 1]
            db[n_kept] = db[i]
            n_kept += 1
        if r_outside > 0.0:
            for f in range(n_features):
                jac[f, n_kept] = -mean[f]
            jac[n_features, n_kept] = 1.0 - mean[n_features]
            jac[n_features + 1, n_kept] = outside[e] - mean[n_features + 1]
            db[n_kept] = u0 - ratio * u0
            n_kept += 1
        _squares(jac, db, n_kept, size, weighted, square)
        for f in range(size):
            for h in range(f + 1):
                for q in range(n_z):
                    for p in range(n_z):
                        hessian[f * n_z + q, h * n_z + p] += square[f, h] * z[e, q] * z[e, p]


class _Loss:
    """Loss, gradient and Hessian of all moments at given weights, in pieces on several threads."""

    def __init__(self, examples: Examples, n_threads: int | None) -> None:
        ex = examples
        self.size = (ex.x.shape[1] + N_OUTSIDE) * ex.z.shape[1]
        self.shape = (ex.x.shape[1] + N_OUTSIDE, ex.z.shape[1])
        self.fixed = (
            ex.x, ex.start, ex.block, ex.cells, ex.mult, ex.outside, ex.targets, ex.target_start, ex.z, ex.g,
            ex.phi,
        )  # fmt: skip
        self.z, self.has_outside, self.threads = ex.z, ex.has_outside, thread_count(n_threads)
        n = ex.n_moments
        self.times, self.losses = np.zeros(n), np.zeros(n)
        self.gradients = np.zeros((n, self.shape[0]))
        self.pieces = [(a, min(a + PIECE, n)) for a in range(0, n, PIECE)]

    def __call__(self, w: Floats, second: bool) -> tuple[float, Floats, Floats]:
        """Return the sum of the losses, its gradient and (with ``second``) its Hessian by W.ravel()."""

        def piece(ends: tuple[int, int]) -> Floats:
            hessian = np.zeros((self.size, self.size) if second else (1, 1))
            loss_of(
                *ends, w, *self.fixed, self.has_outside, second, self.times, self.losses, self.gradients, hessian
            )
            return hessian

        hessian = np.zeros((self.size, self.size) if second else (1, 1))
        if self.threads == 1 or len(self.pieces) == 1:
            for ends in self.pieces:
                hessian += piece(ends)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                for part in pool.map(piece, self.pieces):
                    hessian += part
        if second:  # the kernel fills the blocks of features h <= f
            n_z = self.shape[1]
            feature = np.arange(self.size) // n_z
            upper = feature[:, None] < feature[None, :]
            hessian = np.where(upper, hessian.T, hessian)
        gradient = np.einsum("ef,ez->fz", self.gradients, self.z)
        return float(self.losses.sum()), gradient.ravel(), hessian

    def by_user(self, user: Ints) -> Floats:
        """Return the gradient of the last call for each user, [user, W.ravel()]."""
        rows = (self.gradients[:, :, None] * self.z[:, None, :]).reshape(len(self.z), -1)
        numbers = np.unique(user, return_inverse=True)[1]
        out = np.zeros((int(numbers.max(initial=-1)) + 1, rows.shape[1]))
        np.add.at(out, numbers, rows)
        return out


def learn(
    examples: Examples,
    start: Floats,
    centre: Floats,
    *,
    precision: Floats | None = None,
    fixed: NDArray[np.bool_] | None = None,
    most_steps: int = MOST_STEPS,
    enough: float = ENOUGH,
    errors: bool = False,
    n_threads: int | None = None,
) -> Weights:
    """Return the weights with the smallest loss, from ``start`` on, drawn a little to ``centre``.

    The weights of features marked ``fixed`` are 0. ``precision`` says how strongly each is drawn; see `prior_of`.
    Learning ends when a step is expected to lower the loss by less than ``enough``.
    """
    loss = _Loss(examples, n_threads)
    n_features, n_z = loss.shape
    held = np.zeros(n_features, np.bool_) if fixed is None else np.append(fixed, [False] * N_OUTSIDE)
    free = ~np.repeat(held, n_z)
    w = np.where(held[:, None], 0.0, start)
    centre = np.where(held[:, None], 0.0, centre)
    prior = prior_of(*loss.shape) if precision is None else precision
    value, gradient, hessian = loss(w, True)
    value += float((prior * (w - centre) ** 2).sum()) / 2
    for _ in range(most_steps):
        slope = (gradient + (prior * (w - centre)).ravel())[free]
        curve = hessian[np.ix_(free, free)] + np.diag(prior.ravel()[free])
        step, gain = _step(curve, slope)
        if gain < enough:
            break
        length = 1.0
        while length > 1e-4:
            following = w.copy()
            following.ravel()[free] -= length * step
            new = loss(following, False)[0] + float((prior * (following - centre) ** 2).sum()) / 2
            if new <= value - 0.1 * length * gain:
                break
            length /= 2
        else:
            break
        done, w = value - new < enough, following
        value, gradient, hessian = loss(w, True)
        value += float((prior * (w - centre) ** 2).sum()) / 2
        if done:
            break
    covariance = np.zeros((0, 0))
    if errors:
        loss(w, False)
        scores = loss.by_user(examples.user)[:, free]
        curve = hessian[np.ix_(free, free)] + np.diag(prior.ravel()[free])
        inverse = np.linalg.pinv(curve, hermitian=True)
        n = len(scores)
        meat = scores.T @ scores * (n / max(n - 1, 1))
        covariance = np.zeros((loss.size, loss.size))
        covariance[np.ix_(free, free)] = inverse @ meat @ inverse
    plain = (value - float((prior * (w - centre) ** 2).sum()) / 2) / max(examples.n_moments, 1)
    return Weights(w, covariance, plain)


def prior_of(n_features: int, n_z: int, horizon: int = 1) -> Floats:
    """Return the precision of the prior of each weight for a horizon, [feature and outside, z].

    >>> prior_of(4, 3).round().tolist()
    [[11.0, 100.0, 2.0], [11.0, 100.0, 2.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    """
    deviation = np.empty((n_features, n_z))
    deviation[:] = (PRIOR_SD, PRIOR_SD_OF_LENGTH, PRIOR_SD_OF_EMPTY)[:n_z]
    deviation[n_features - N_OUTSIDE :] = PRIOR_SD_OUTSIDE
    if horizon >= LONG_HORIZON:
        deviation[:, 1] = NO_LENGTH_SD
    return 1.0 / deviation**2


def _step(curve: Floats, slope: Floats) -> tuple[Floats, float]:
    """Return a step and by how much it should lower the loss: Newton's, with curvature taken as positive."""
    size, axes = np.linalg.eigh(curve)
    along = axes.T @ slope
    size = np.maximum(np.abs(size), 1e-6 * max(float(np.abs(size).max(initial=0.0)), 1e-12))
    return axes @ (along / size), float((along**2 / size).sum()) / 2


def without(
    examples: Examples, w: Floats, centre: Floats, sets: Sequence[NDArray[np.bool_]], n_threads: int | None = None
) -> list[Floats]:
    """Return, for each set of features, the weights of the others once these are 0: one Newton step from ``w``."""
    loss = _Loss(examples, n_threads)
    prior = prior_of(*loss.shape)
    _, gradient, hessian = loss(w, True)
    slope, curve = gradient + (prior * (w - centre)).ravel(), hessian + np.diag(prior.ravel())
    found = []
    for features in sets:
        fixed = np.repeat(np.append(features, [False] * N_OUTSIDE), loss.shape[1])
        change = np.where(fixed, -w.ravel(), 0.0)
        step, _ = _step(curve[np.ix_(~fixed, ~fixed)], (slope + curve @ change)[~fixed])
        change[~fixed] = -step
        found.append(w + change.reshape(w.shape))
    return found


def losses(examples: Examples, w: Floats, n_threads: int | None = None) -> Floats:
    """Return the loss of each moment at these weights."""
    loss = _Loss(examples, n_threads)
    loss(w, False)
    return loss.losses


class Reported(NamedTuple):
    """What a list of the k most probable items would have said at each moment, and what happened."""

    predicted: Floats
    """The sum of the probabilities."""
    hits: Floats
    outside: Floats
    """The expected number of clicks outside the model."""
    observed_outside: Floats
    best: Floats
    """The probability of each item of the list, [moment, place]."""
    hit: NDArray[np.bool_]


@numba.njit(cache=True, nogil=True)
def _report(
    first,
    last,
    w,
    x,
    start,
    block,
    cells,
    mult,
    outside,
    targets,
    target_start,
    z,
    g,
    has_outside,
    k,
    out,
    best,
    hit,
):
    n_features = x.shape[1]
    size, n_z, n_cells = n_features + N_OUTSIDE, z.shape[1], cells.shape[1]
    most = n_cells
    for e in range(first, last):
        most = max(most, start[e + 1] - start[e] + n_cells)
    scores, m, rates, stays = np.empty(most), np.empty(most), np.empty(most), np.empty(most)
    of = np.empty(size)
    for e in range(first, last):
        for f in range(size):
            value = 0.0
            for q in range(n_z):
                value += w[f, q] * z[e, q]
            of[f] = value
        a, b = start[e], start[e + 1]
        n = _scores(x, a, b, cells[block[e]], mult[e], of, n_cells, scores, m)
        outside_score = of[n_features] + of[n_features + 1] * outside[e] if has_outside else -math.inf
        r_outside, _ = rates_of(scores, n, m, outside_score, rates)
        t = time_of_next_k(rates, m, n, r_outside, g[e], 0.0, stays)
        out[e, 2] = r_outside * t if r_outside > 0.0 else 0.0
        for place in range(target_start[e], target_start[e + 1]):
            out[e, 3] += targets[place] == OUTSIDE
        order = np.argsort(-scores[: b - a], kind="mergesort")
        for q in range(min(k, b - a)):
            row = order[q]
            best[e, q] = 1.0 - stays[row]
            for place in range(target_start[e], target_start[e + 1]):
                if targets[place] == row:
                    hit[e, q] = True
            out[e, 0] += best[e, q]
            out[e, 1] += hit[e, q]


def reported(examples: Examples, w: Floats, k: int) -> Reported:
    """Return what lists of k items would have reported at these weights."""
    ex, n = examples, examples.n_moments
    out, best, hit = np.zeros((n, 4)), np.zeros((n, k)), np.zeros((n, k), np.bool_)
    _report(
        0, n, w, ex.x, ex.start, ex.block, ex.cells, ex.mult, ex.outside, ex.targets, ex.target_start, ex.z, ex.g,
        ex.has_outside, k, out, best, hit,
    )  # fmt: skip
    predicted, hits, expected, observed = out.T
    return Reported(predicted, hits, expected, observed, best, hit)


def tempering(examples: Examples, w: Floats, k: int, low: float = 0.75, high: float = 1.2) -> float:
    """Return the factor on all weights with which lists of k items predict as many hits as were observed.

    A difference that may be chance is not corrected, and a larger one less the part that chance has on average.
    """
    said = reported(examples, w, k)
    gap, chance = float((said.hits - said.predicted).sum()), float(((said.hits - said.predicted) ** 2).sum())
    if gap**2 <= chance:
        return 1.0
    wanted = float(said.predicted.sum()) + gap * (1.0 - chance / gap**2)

    def excess(factor: float) -> float:
        return float(reported(examples, w * factor, k).predicted.sum() - wanted)

    below, above = excess(low), excess(high)
    if below >= 0 or above <= 0:
        return low if abs(below) < abs(above) else high
    for _ in range(6):  # false position, with the end that stays halved (Illinois)
        middle = high - above * (high - low) / (above - below)
        found = excess(middle)
        if abs(found) < 1e-3 * max(wanted, 1.0):
            return middle
        if found < 0:
            low, below, above = middle, found, above / 2
        else:
            high, above, below = middle, found, below / 2
    return middle
