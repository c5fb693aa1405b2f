"""Move the labels z_j with R_j summed out, so that no user sticks to the cluster that R_j has adapted to."""

# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import math

import numba
import numpy as np

from bmcd.inference.rng_streams import LABELS
from bmcd.inference.variates import draw_from_logs
from bmcd.mallows.latent.top import top_probabilities_user
from bmcd.mallows.latent.users import log_likelihoods, make_workspace
from bmcd.rng import STREAM_SIZE, open_stream, uniform

# Click counts are rounded to powers of this for the scores.
GRID = 1.4
# Share of label proposals that are uniform.
ANYWHERE = 0.05
TINY = 1e-9


@numba.njit(cache=True, nogil=True)
def power_of(count):
    """Return the power of GRID that is nearest to a click count."""
    return round(math.log(count) / math.log(GRID))


@numba.njit(cache=True, nogil=True)
def clicks_at(power, n_items):
    """Return the click count that stands for those near a power of GRID."""
    return min(max(round(GRID**power), 1), n_items - 1)


@numba.njit(cache=True, nogil=True)
def score_table(power, shared, cluster, work, log_odds):
    """Set log_odds[t] to what a click on consensus position t + 1 adds to the score; return the score of no click.

    For the click counts near GRID^power: the score pretends that each item is clicked independently, with the
    probability that it is among that number of best items of a ranking from the cluster.
    """
    n = shared.gaps.size
    top_probabilities_user(np.empty(0, np.int64), clicks_at(power, n), shared, cluster, work)
    base = 0.0
    for t in range(n):
        p = min(max(work.probability[t], TINY), 1.0 - TINY)
        log_odds[t] = math.log(p / (1.0 - p))
        base += math.log1p(-p)
    return base


@numba.njit(cache=True, nogil=True)
def label_scores(data, rho, shared, tables, out):
    """Set out[c, j] to a cheap stand-in for log P(A_j | rho_c, alpha_c), good enough to propose labels from.

    It is a sum over the clicks, from a handful of tables for each cluster (`score_table`).
    """
    n_clusters, n = rho.shape
    n_clicked = np.diff(data.user_start)
    powers = np.array([power_of(count) if 0 < count < n else -1 for count in n_clicked])
    used = np.unique(powers[powers >= 0])
    work = make_workspace(shared, n + 1, n + 1)
    n_powers = used[-1] + 1 if used.size else 0
    log_odds, base = np.empty((n_powers, n)), np.zeros(n_powers)
    for c in range(n_clusters):
        for power in used:
            base[power] = score_table(power, shared, tables[c], work, log_odds[power])
        for user in range(powers.size):
            power = powers[user]
            if power < 0:
                out[c, user] = 0.0  # nothing or everything clicked: no cluster is likelier than another
                continue
            score = base[power]
            for i in range(data.user_start[user], data.user_start[user + 1]):
                score += log_odds[power, rho[c, data.user_items[i]] - 1]
            out[c, user] = score


@numba.njit(cache=True, nogil=True)
def scores_to_log_q(log_tau, scores, out):
    """Set out[c] to the log probability of proposing label c: tau_c exp(score), and a little for every label."""
    n_clusters = scores.size
    largest = -math.inf
    for c in range(n_clusters):
        out[c] = log_tau[c] + scores[c]
        largest = max(largest, out[c])
    total = 0.0
    for c in range(n_clusters):
        total += math.exp(out[c] - largest)
    for c in range(n_clusters):
        out[c] = math.log((1.0 - ANYWHERE) * math.exp(out[c] - largest) / total + ANYWHERE / n_clusters)


@numba.njit(cache=True, nogil=True)
def label_log_ratio(log_tau, log_p, log_p_proposal, log_q, label, proposal):
    """Return the log acceptance ratio of an independence proposal: target over proposal, new against old."""
    return (log_tau[proposal] + log_p_proposal - log_q[proposal]) - (log_tau[label] + log_p - log_q[label])


@numba.njit(cache=True, nogil=True)
def update_labels(state, data, shared, tables, key, chain, sweep):
    """Move every z_j by a Metropolis step; return log P(A_j | rho, alpha of the user's cluster).

    The target is tau_c P(A_j | rho_c, alpha_c), with R_j summed out. A Gibbs draw would need the likelihood of
    every user in every cluster. Labels are proposed from the scores instead, which come so close that 95 % of the
    proposals are accepted on real clicks, at one likelihood for each user and one more for each user who is to
    move.
    """
    n_users, n_clusters = state.labels.size, state.alpha.size
    log_p = np.empty(n_users)
    users, start = group_by_label(state.labels, n_clusters)
    values = np.empty(n_users)
    for c in range(n_clusters):
        members = users[start[c] : start[c + 1]]
        log_likelihoods(members, data, state.rho[c], shared, tables[c], values)
        for i in range(members.size):
            log_p[members[i]] = values[i]
    if n_clusters == 1:
        return log_p
    log_tau = np.log(state.tau)
    scores = np.empty((n_clusters, n_users))
    label_scores(data, state.rho, shared, tables, scores)
    log_q = np.empty((n_users, n_clusters))
    proposals, accept = np.empty(n_users, np.int64), np.empty(n_users)
    stream = np.empty(STREAM_SIZE, np.uint64)
    for user in range(n_users):
        scores_to_log_q(log_tau, scores[:, user], log_q[user])
        open_stream(stream, key, chain, sweep, user, LABELS)
        proposals[user] = draw_from_logs(stream, log_q[user])
        accept[user] = uniform(stream)
    users, start = group_by_label(proposals, n_clusters)
    moving = np.empty(n_users, np.int64)
    for c in range(n_clusters):
        size = 0
        for i in range(start[c], start[c + 1]):
            if state.labels[users[i]] != c:
                moving[size] = users[i]
                size += 1
        log_likelihoods(moving[:size], data, state.rho[c], shared, tables[c], values)
        for i in range(size):
            user = moving[i]
            ratio = label_log_ratio(log_tau, log_p[user], values[i], log_q[user], state.labels[user], c)
            if accept[user] < math.exp(min(ratio, 0.0)):
                state.labels[user] = c
                log_p[user] = values[i]
    return log_p


@numba.njit(cache=True, nogil=True)
def group_by_label(labels, n_clusters):
    """Return users sorted by cluster, and ``start``: the members of c are users[start[c] : start[c + 1]]."""
    start = np.zeros(n_clusters + 1, np.int64)
    for user in range(labels.size):
        start[labels[user] + 1] += 1
    for c in range(n_clusters):
        start[c + 1] += start[c]
    users, place = np.empty(labels.size, np.int64), start.copy()
    for user in range(labels.size):
        users[place[labels[user]]] = user
        place[labels[user]] += 1
    return users, start
