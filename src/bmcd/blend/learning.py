"""Learn the rule of a blend: examples of moments, members worth keeping, weights for a ladder of horizons."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from bmcd.blend.features import Asked, Settings, Tables, rows_of
from bmcd.blend.moments import LATEST, Moments
from bmcd.blend.weights import (
    N_OUTSIDE,
    OUTSIDE,
    Examples,
    Weights,
    learn,
    losses,
    reported,
    tempering,
    without,
)
from bmcd.utils import Floats

if TYPE_CHECKING:
    import pandas as pd

Ints = NDArray[np.int64]

# Weights are learnt for these numbers of next clicks; between them they follow the logarithm of the horizon.
LADDER = (1, 3, 10, 30)
# Moments for each, in all; and the number of candidates of all moments together.
BUDGET = {1: 8_000, 3: 4_000, 10: 4_000, 30: 2_000}
MOST_ROWS = 2_000_000
# Fewer moments say too little: the weights of the next smaller horizon are used.
FEWEST = 100
# Moments that decide which members are worth their cost.
DECIDING = 4_000
# To decide, losses (nats, of all these moments) need not be lower than within this of the lowest.
ROUGHLY = 0.3
# Past windows are predicted with weights learnt from at least this share of all moments.
LEAST_SHARE = 0.2
# The list by which predicted and observed hits are compared, and the windows that tempering looks at.
LIST = 10
FEWEST_FOR_TEMPERING = 300


class Block(NamedTuple):
    """Moments after one cut, and what the members know up to it."""

    tables: Tables
    asked: Asked
    moments: Moments
    g: Floats
    phi: Floats
    window: int


class Layout(NamedTuple):
    """Which features are used, and how the length of the running session enters."""

    names: tuple[tuple[str, str], ...]
    """Feature and member, of the columns in use."""
    columns: Ints
    width: int
    """The number of all columns."""
    n_dense: int
    """How many of the columns in use every item has."""
    centre: float
    least: float
    most: float

    def z(self, n_running: NDArray[np.int64]) -> Floats:
        """Return what weights depend on: 1, log(1 + clicks of the running session), and whether it is empty."""
        length = np.clip(np.log1p(n_running), self.least, self.most) - self.centre
        return np.stack([np.ones(len(n_running)), length, n_running == 0], axis=1).astype(np.float64)


class Scaling(NamedTuple):
    """How features were standardised: (x - mean) / deviation."""

    mean: Floats
    deviation: Floats

    def to_raw(self, w: Floats) -> Floats:
        """Return weights of features as they are, from weights of standardised ones."""
        raw = w.copy()
        n = len(self.mean)
        raw[:n] = w[:n] / self.deviation[:, None]
        raw[n] += (raw[:n] * self.mean[:, None]).sum(axis=0)  # only differences to the outside option matter
        return raw

    def from_raw(self, raw: Floats) -> Floats:
        """Undo `to_raw`."""
        w = raw.copy()
        n = len(self.mean)
        w[n] -= (raw[:n] * self.mean[:, None]).sum(axis=0)
        w[:n] = raw[:n] * self.deviation[:, None]
        return w


def n_running(items: NDArray[np.int32], histories: Ints, known: NDArray[np.bool_]) -> Ints:
    """Return the number of clicks of each running session on items that are modelled: others tell nothing."""
    lengths = histories[:, 2] - histories[:, 1]
    owner = np.repeat(np.arange(len(histories)), lengths)
    clicked = items[np.arange(len(owner)) + np.repeat(histories[:, 1] - np.cumsum(lengths) + lengths, lengths)]
    return np.bincount(owner[(clicked >= 0) & known[clicked]], minlength=len(histories)).astype(np.int64)


@numba.njit(cache=True, nogil=True)
def _locate(item, start, targets, target_start, cell, known, out):
    """Write the row of each target among the candidates of its moment, or its cell, or OUTSIDE."""
    for e in range(start.size - 1):
        for place in range(target_start[e], target_start[e + 1]):
            j = targets[place]
            code = OUTSIDE
            if j >= 0 and known[j]:
                if cell[j] >= 0:
                    code = -1 - cell[j]
                for row in range(start[e], start[e + 1]):
                    if item[row] == j:
                        code = row - start[e]
                        break
            out[place] = code


def examples_of(
    blocks: Sequence[Block], layout: Layout, settings: Settings, has_outside: bool, n_threads: int | None,
    scaling: Scaling | None = None,
) -> Examples:  # fmt: skip
    """Return the moments of all blocks with the features in use, standardised if their scales are given."""
    n_cells = max(len(block.tables.n_cell) for block in blocks)
    cells = np.zeros((len(blocks), n_cells, layout.n_dense), np.float32)
    parts = []
    for number, block in enumerate(blocks):
        tables, moments = block.tables, block.moments
        rows = rows_of(block.asked, tables, settings, layout.columns, n_threads)
        targets = np.empty(len(moments.targets), np.int64)
        _locate(rows.item, rows.start, moments.targets, moments.target_start, tables.cell, tables.known, targets)
        dense = layout.columns[layout.columns < tables.n_dense]
        cells[number, : len(tables.n_cell)] = tables.cells[:, dense]
        mult = np.zeros((moments.n, n_cells), np.float32)
        mult[:, : len(tables.n_cell)] = rows.mult
        z = layout.z(n_running(block.asked.items, block.asked.histories, tables.known))
        parts.append((
            rows.x, np.diff(rows.start), np.full(moments.n, number), mult, np.full(moments.n, tables.outside + 4.0),
            targets, np.diff(moments.target_start), z, block.g, block.phi, moments.user,
            np.full(moments.n, block.window),
        ))  # fmt: skip
    x, rows_each, block_of, mult, outside, targets, targets_each, z, g, phi, user, window = (
        np.concatenate([part[i] for part in parts]) for i in range(12)
    )
    start, target_start = (
        np.concatenate(([0], np.cumsum(lengths))).astype(np.int64) for lengths in (rows_each, targets_each)
    )
    examples = Examples(
        x, start, block_of.astype(np.int64), cells, mult, outside, targets, target_start, z, g, phi,
        user.astype(np.int64), window.astype(np.int64), has_outside,
    )  # fmt: skip
    return examples if scaling is None else standardise(examples, scaling)


def scaling_of(examples: Examples, n_dense: int) -> Scaling:
    """Return how to standardise: only dense features are centred, so that untouched items stay at 0."""
    n = examples.x.shape[1]
    if not len(examples.x):
        return Scaling(np.zeros(n), np.ones(n))
    mean, deviation = np.zeros(n), np.empty(n)
    for f in range(n):
        column = examples.x[:, f].astype(np.float64)
        deviation[f] = column.std()
        if f < n_dense:
            mean[f] = column.mean()
    return Scaling(mean, np.where(deviation > 1e-9, deviation, 1.0))


def standardise(examples: Examples, scaling: Scaling) -> Examples:
    """Return standardised features; the arrays of the argument are changed."""
    n_dense = examples.cells.shape[2]
    np.subtract(examples.x, scaling.mean.astype(np.float32), out=examples.x)
    np.divide(examples.x, scaling.deviation.astype(np.float32), out=examples.x)
    cells = (examples.cells - scaling.mean[:n_dense]) / scaling.deviation[:n_dense]
    return examples._replace(cells=cells.astype(np.float32))


class Rule(NamedTuple):
    """What was learnt: the weights for each number of next clicks."""

    layout: Layout
    ks: Ints
    weights: Floats
    """Of features as they are, [k, column in use and outside, z]; tempered."""
    errors: Floats
    """Standard errors of the same."""
    temper: Floats
    """The factor in the weights of each k that makes predicted hits those observed of late."""
    has_outside: bool
    n_moments: Ints
    n_users: int
    scaling: Scaling

    def at(self, horizon: float) -> Floats:
        """Return the weights for a number of next clicks, [column in use and outside, z]."""
        place = float(np.interp(np.log(min(horizon, 1e9)), np.log(self.ks), np.arange(len(self.ks))))
        low = int(place)
        high, part = min(low + 1, len(self.ks) - 1), place - low
        found: Floats = (1 - part) * self.weights[low] + part * self.weights[high]
        return found

    def table(self) -> pd.DataFrame:
        """Return the weights with their standard errors: a row for each k, feature and what it depends on."""
        import pandas as pd

        names = [*self.layout.names, ("outside", "outside the model"), ("outside", "recent share outside")]
        rows = []
        for number, k in enumerate(self.ks.tolist()):
            for f, (feature, member) in enumerate(names):
                member, feature = (
                    (feature, member) if member.startswith(("outside the", "recent share")) else (member, feature)
                )
                for q, depends in enumerate(("", "length of the session", "empty session")):
                    rows.append({
                        "k": k, "member": member, "feature": feature, "times": depends,
                        "weight": self.weights[number, f, q], "standard_error": self.errors[number, f, q],
                    })  # fmt: skip
        return pd.DataFrame(rows)


def start_weights(layout: Layout, scaling: Scaling) -> Floats:
    """Return where learning begins, and to where weights are drawn.

    That is the first member with probabilities as it is; without one, rates proportional to popularity; without
    that, the first score.
    """
    raw = np.zeros((len(layout.columns) + N_OUTSIDE, 3))
    features = [name for name, _ in layout.names]
    plain = [f for f, name in enumerate(features[: layout.n_dense]) if "squared" not in name]
    if "log probability" in features:
        raw[features.index("log probability"), 0] = 1.0
    elif plain:
        raw[plain[min(2, len(plain) - 1)], 0] = 1.0
    else:
        first = layout.names[0][1]
        raw[[f for f, (_, member) in enumerate(layout.names) if member == first], 0] = 0.5
    return scaling.from_raw(raw)


def rising(weights: Floats, layout: Layout) -> Floats:
    """Return weights with which a single score never lowers a rate, so that the order of one model is kept."""
    if len({member for _, member in layout.names}) > 1 or layout.n_dense or "log probability" in layout.names[0]:
        return weights
    out, n = weights.copy(), len(layout.names)
    ends = [
        np.array([1.0, length - layout.centre, empty]) for length in (layout.least, layout.most) for empty in (0, 1)
    ]
    falls = np.min([out[:n] @ end for end in ends], axis=0) < 0
    out[:n][falls, 1:] = 0.0
    out[:n][falls, 0] = np.maximum(out[:n][falls, 0], 1e-6)
    return out


def worth_keeping(
    examples: Examples, layout: Layout, start: Floats, centre: Floats, members: Sequence[str], n_threads: int | None
) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """Return the members that lower the loss by more than its standard error, and the gains with these errors.

    The member that gains least is left out first, and the others are looked at again. How the weights of the others
    change without a member is estimated by one Newton step. What weights gain by having been learnt on the same
    moments, about one nat each, does not count.
    """
    n = examples.n_moments
    if n > DECIDING:
        examples = examples.of(np.unique(np.linspace(0, n - 1, DECIDING).round().astype(np.int64)))
    member_of = np.array([member for _, member in layout.names])
    kept = list(members)
    gains: dict[str, tuple[float, float]] = {}

    def off(names: Sequence[str]) -> NDArray[np.bool_]:
        return np.array([member in members and member not in names for member in member_of], np.bool_)

    def fit(names: Sequence[str], begin: Floats) -> tuple[Floats, Floats]:
        options: dict[str, Any] = {"most_steps": 5, "enough": ROUGHLY, "n_threads": n_threads}
        found = learn(examples, begin, centre, fixed=off(names), **options)
        return found.w, losses(examples, found.w, n_threads)

    w, full = fit(kept, start)
    users = np.unique(examples.user, return_inverse=True)[1]
    while kept:
        found = {}
        sets = [off([name for name in kept if name != member]) for member in kept]
        for member, less in zip(kept, without(examples, w, centre, sets, n_threads), strict=True):
            loss = losses(examples, less, n_threads)
            by_user = np.bincount(users, loss - full)
            n_weights = int((member_of == member).sum()) * examples.z.shape[1]
            gain = float(by_user.sum()) - n_weights
            found[member] = (gain, float(np.sqrt((by_user**2).sum())), less)
        gains |= {name: value[:2] for name, value in found.items()}
        worst = min(found, key=lambda name: found[name][0] / max(found[name][1], 1e-12))
        if found[worst][0] > found[worst][1]:
            break
        kept.remove(worst)
        w, full = fit(kept, found[worst][2])
    return kept, gains


class PastWindow(NamedTuple):
    """What was predicted for a past window by members and weights from before it, and what happened."""

    label: str
    n: int
    predicted: float
    observed: float
    error: float
    """Standard error of the difference."""
    outside_predicted: float
    outside_observed: float


def past_windows(
    examples: Examples,
    labels: Sequence[str],
    start: Floats,
    centre: Floats,
    k: int,
    temper: bool,
    n_threads: int | None,
) -> list[PastWindow]:
    """Return predicted and observed hits of windows, each by weights from the windows before it.

    The first windows have too few moments before them; they are left out.
    """
    found: list[PastWindow] = []
    w, least = start, max(FEWEST, LEAST_SHARE * examples.n_moments)
    for window in range(1, int(examples.window.max(initial=0)) + 1):
        before, now = np.flatnonzero(examples.window < window), np.flatnonzero(examples.window == window)
        if len(before) < least or not len(now):
            continue
        earlier, inside = examples.of(before), examples.of(now)
        w = learn(earlier, w, centre, most_steps=6, n_threads=n_threads).w
        factor = _temper(earlier, w, k) if temper else 1.0
        found.append(compare_window(inside, labels[window], w * factor, k))
    return found


def compare_window(examples: Examples, label: str, w: Floats, k: int) -> PastWindow:
    """Return what lists of k items predicted for the next click in a window, and what happened."""
    said, n = reported(examples, w, k), examples.n_moments
    error = float((said.predicted - said.hits).std() / np.sqrt(n))
    sums = (said.predicted, said.hits)
    predicted, observed = (float(each.mean()) for each in sums)
    outside, observed_outside = (float(each.mean()) for each in (said.outside, said.observed_outside))
    return PastWindow(label, n, predicted, observed, error, outside, observed_outside)


def _temper(examples: Examples, w: Floats, k: int) -> float:
    """Return the factor on the weights by the latest windows, or 1 where there are too few moments."""
    latest = examples.window > examples.window.max(initial=0) - LATEST
    if latest.sum() < FEWEST_FOR_TEMPERING:
        return 1.0
    return tempering(examples.of(np.flatnonzero(latest)), w, k)


def learn_rung(
    examples: Examples,
    start: Floats,
    centre: Floats,
    temper: bool,
    n_threads: int | None,
    precision: Floats | None = None,
) -> tuple[Weights, float]:
    """Return the weights for one horizon, not tempered, and the factor that tempers them."""
    found = learn(examples, start, centre, precision=precision, errors=True, n_threads=n_threads)
    return found, (_temper(examples, found.w, LIST) if temper else 1.0)
