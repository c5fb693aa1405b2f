"""The log-likelihood of one user's clicks, with the latent ranking summed out. See `scan.py` for the recursion."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba

from bmcd.mallows.latent.scan import (
    CHUNK,
    ROOM,
    count_up_to,
    fit_window,
    lone_falls,
    lone_grows,
    pair,
    several_pairs,
)


@numba.njit(cache=True)
def _first_block(clicked, shared, cluster, x, y):
    """Scan the clicked block up to t = c. Returns its log weight, the excess, and the sum of gap_t e_t so far."""
    c, gaps = clicked.size, shared.gaps
    root, off, decay_row, decay = shared.root, shared.off, shared.decay_row, cluster.decay
    log_weight, aged = 0.0, 0.0
    excess, next_click = 0, 0
    size = min(c // 2 + 6, x.size)
    x[:size] = 0.0
    y[:size] = 0.0
    x[1] = 1.0
    high = 0
    for t in range(1, c + 1):
        high = min(high + 1, c - t)
        if next_click < c and clicked[next_click] == t:
            next_click += 1
            pair(x, y, off[excess + 1], decay[decay_row[t]], excess, 0, high)
        else:
            excess += 1
            lone_grows(x, y, root, decay[decay_row[t]], excess, 0, high)
        y[high + 2] = 0.0
        x, y = y, x
        aged += gaps[t - 1] * excess
        if not (1.0 / ROOM < x[1] < ROOM):
            log_weight += math.log(x[1])
            scale = 1.0 / x[1]
            for m in range(high + 1):
                x[m + 1] *= scale
    return log_weight + math.log(x[1]), excess, aged


@numba.njit(cache=True)
def _second_block(clicked, excess, shared, cluster, x, y, windows):
    """Scan the unclicked block from t = c to the last click, and sum over all that can follow.

    Returns the log weight and the sum of gap_t e_t. Notes in windows[:, t] the first and the last cell that were
    kept after step t, unless ``windows`` has no room.
    """
    n, c, age = shared.gaps.size, clicked.size, shared.age
    noted = windows.shape[1] > 0
    log_weight, aged = 0.0, 0.0
    next_click = c - excess
    x[1] = 1.0
    low, high, t = 0, 0, c
    if noted:
        windows[0, c], windows[1, c] = 0, 0
    while excess > 0:
        left = clicked[next_click] - t - 1
        while left > 0:
            steps = min(left, CHUNK)
            # Over the chunk the window may grow by one cell a step on either side; start them at zero.
            new_low, new_high = max(low - steps, 0), min(high + steps, n // 2)
            x[new_low : low + 1] = 0.0
            x[high + 2 : new_high + 3] = 0.0
            y[new_low] = 0.0
            y[new_high + 2] = 0.0
            several_pairs(x, y, shared.off[excess + 1], shared, cluster, excess, t, steps, new_low, new_high)
            if steps % 2 == 1:
                x, y = y, x
            before, low_before, high_before = t, low, high
            aged += excess * (age[t + steps] - age[t])
            t += steps
            left -= steps
            can_close = max(min(new_high, n - t - excess), new_low)
            low, high, weight = fit_window(x, cluster.finish[t], excess, new_low, can_close)
            if noted:  # what leaves the window on the way must be back at its end: half the chunk each way
                windows[0, before + 1 : t + 1] = max(min(low, low_before) - steps // 2, 0)
                windows[1, before + 1 : t + 1] = min(max(high, high_before) + steps // 2, n // 2)
            if not (1.0 / ROOM < weight < ROOM):
                log_weight += math.log(weight)
                scale = 1.0 / weight
                for i in range(low + 1, high + 2):
                    x[i] *= scale
        t += 1
        x[low] = 0.0
        x[high + 2] = 0.0
        high = min(high + 1, n // 2)
        lone_falls(x, y, shared.root, cluster.decay[shared.decay_row[t]], excess, low, high)
        if noted:
            windows[0, t], windows[1, t] = low, high
        x, y = y, x
        excess -= 1
        next_click += 1
        aged += excess * shared.gaps[t - 1]
    # No click is left: what follows is the same for all users.
    total = x[1]
    if t < n:
        follow = cluster.finish[t + 1]
        total = 0.0
        for m in range(low, high + 1):
            total += x[m + 1] * ((2 * m + 1) * follow[m + 1] + m * follow[m] + (m + 1) * follow[m + 2])
        log_weight += cluster.finish_scale[t + 1]
    return log_weight + math.log(total), aged


@numba.njit(cache=True)
def log_likelihood_user(clicked, shared, cluster, x, y, windows):
    """Return log P(clicks | rho, alpha); ``clicked`` holds the consensus positions of the clicked items, sorted.

    ``x`` and ``y`` hold the messages of a workspace. (Handing over the workspace would cost a few per cent.)
    ``windows`` may take down which states matter, for the scans that come after.
    """
    c = clicked.size
    if c == 0 or c == shared.gaps.size:
        return 0.0
    log_weight, excess, aged = _first_block(clicked, shared, cluster, x, y)
    # Clicked items will take the e open ranks of block 1 in e! ways. Block 2 starts at sqrt(e!), and block 1 ended
    # at 1 / sqrt(e!), which cancels.
    log_weight += shared.log_factorial[excess]
    log_weight_2, aged_2 = _second_block(clicked, excess, shared, cluster, x, y, windows)
    return log_weight + log_weight_2 - 2.0 * cluster.beta * (aged + aged_2) - cluster.log_z


@numba.njit(cache=True)
def note_windows(clicked, shared, cluster, x, y, windows):
    """Fill windows[:, t], t = c, ..., last click, as `log_likelihood_user` does, without block 1."""
    excess = clicked.size - count_up_to(clicked, clicked.size)
    _second_block(clicked, excess, shared, cluster, x, y, windows)
