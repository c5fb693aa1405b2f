"""Moves between modes: detailed balance by enumeration, the joint law of parameters and clicks, and mutants."""

from itertools import permutations

import numpy as np
import pytest
from experiments.modes import split_merge as splitting
from experiments.modes.clusters import Clusters
from experiments.modes.exchange import exchange, exchanged, log_ratio, proposal
from experiments.modes.split_merge import Choice, SplitMerge, plackett_luce
from experiments.modes.study import ModesStudy
from scipy import sparse, stats

from bmcd.inference.priors import Priors
from bmcd.mallows import log_likelihood

pytestmark = pytest.mark.chance(0)


def clusters_of(rho, alpha, weight, clicks):
    rho, alpha, weight = np.array(rho), np.array(alpha, float), np.array(weight, float)
    return Clusters(rho, alpha, weight, log_likelihood(clicks, rho, alpha))


def summed_out(clusters, clicks):
    """The log-likelihood of all clicks, by its definition: over all labels and all rankings."""
    n = clusters.rho.shape[1]
    rankings = np.array(list(permutations(range(1, n + 1))))
    total, tau = 0.0, clusters.weight / clusters.weight.sum()
    for row in clicks:
        agrees = (rankings[:, row > 0] <= row.sum()).all(axis=1)
        likelihood = 0.0
        for c in range(len(tau)):
            law = np.exp(-clusters.alpha[c] / n * np.abs(rankings - clusters.rho[c]).sum(axis=1))
            likelihood += tau[c] * law[agrees].sum() / law.sum()
        total += np.log(likelihood)
    return total


CLICKS = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1], [0, 1, 0, 0]])
PACKAGES = [([1, 2, 3, 4], 3.0, 1.0), ([4, 3, 2, 1], 5.0, 0.5), ([2, 1, 4, 3], 2.0, 2.0), ([3, 1, 2, 4], 8.0, 0.2)]


def transitions(ratio):
    """All ways to give four clusters to two chains: log target, and probability of every exchange, [from, to]."""
    orders = list(permutations(range(4)))
    law, log_target = np.zeros((24, 24)), np.zeros(24)
    for i, order in enumerate(orders):
        packages = [PACKAGES[p] for p in order]
        chains = tuple(clusters_of(*zip(*part, strict=True), CLICKS) for part in (packages[:2], packages[2:]))
        log_target[i] = sum(summed_out(chain, CLICKS) for chain in chains)
        proposed = proposal(chains)
        np.testing.assert_allclose(proposed.sum(), 1.0)
        for c, d in np.ndindex(2, 2):
            after = list(order)
            after[c], after[2 + d] = after[2 + d], after[c]
            j, new = orders.index(tuple(after)), exchanged(chains, (c, d))
            assert new[0].rho[c].tolist() == PACKAGES[order[2 + d]][0]
            law[i, j] += proposed[c, d] * min(1.0, np.exp(ratio(chains, new, (c, d))))
    return log_target, law


def imbalance(ratio):
    log_target, law = transitions(ratio)
    flow = np.exp(log_target - log_target.max())[:, None] * law
    return np.abs(flow - flow.T).max() / flow.max()


def test_exchanges_are_in_detailed_balance():
    assert imbalance(log_ratio) < 1e-12


def test_the_test_of_balance_notices_mutants():
    def without_proposal(before, after, places):
        return sum(chain.shares()[0] for chain in after) - sum(chain.shares()[0] for chain in before)

    def of_one_chain(before, after, places):
        return log_ratio(before, after, places) - after[1].shares()[0] + before[1].shares()[0]

    def upside_down(before, after, places):
        return -log_ratio(before, after, places)

    assert min(imbalance(mutant) for mutant in (without_proposal, of_one_chain, upside_down)) > 1e-3


@pytest.mark.chance(1e-5)
def test_exchanges_come_as_often_as_they_should(rotating_seed, times):
    rng = np.random.default_rng(rotating_seed)
    chains = tuple(clusters_of(*zip(*part, strict=True), CLICKS) for part in (PACKAGES[:2], PACKAGES[2:]))
    law = proposal(chains)
    expected = {}
    for c, d in np.ndindex(2, 2):
        expected[c, d] = law[c, d] * min(1.0, np.exp(log_ratio(chains, exchanged(chains, (c, d)), (c, d))))
    seen = dict.fromkeys([*expected, None], 0)
    for _ in range(4000 * times):
        (first, second), _ = exchange(chains, rng)
        changed = [
            np.flatnonzero((new.rho != old.rho).any(axis=1))
            for new, old in zip((first, second), chains, strict=True)
        ]
        seen[(int(changed[0][0]), int(changed[1][0])) if changed[0].size else None] += 1
    stays = 1.0 - sum(expected.values())
    wanted = 4000 * times * np.array([*expected.values(), stays])
    assert stats.chisquare(list(seen.values()), wanted).pvalue > 1e-6


@pytest.mark.chance(1e-5)
def test_plackett_luce_is_a_law_and_is_what_is_drawn(rotating_seed, times):
    scores, rng = np.array([0.3, -1.0, 1.2, 0.0]), np.random.default_rng(rotating_seed)
    law = {ranks: np.exp(plackett_luce(scores, np.array(ranks))) for ranks in permutations(range(1, 5))}
    assert sum(law.values()) == pytest.approx(1.0)
    first = np.exp(scores) / np.exp(scores).sum()
    for item in range(4):
        assert sum(p for ranks, p in law.items() if ranks[item] == 1) == pytest.approx(first[item])
    seen = dict.fromkeys(law, 0)
    for _ in range(5000 * times):
        seen[tuple(splitting._drawn(scores, rng).tolist())] += 1
    assert stats.chisquare(list(seen.values()), 5000 * times * np.array(list(law.values()))).pvalue > 1e-6


PRIORS = Priors(rate=0.5, concentration=2.0)


def joint_draw(rng, n_users=4, n_items=4, n_clusters=3):
    """Parameters from the prior and clicks given them."""
    rho = np.array([rng.permutation(n_items) + 1 for _ in range(n_clusters)])
    alpha, weight = (
        rng.exponential(1 / PRIORS.rate, n_clusters) + 1e-9,
        rng.gamma(PRIORS.concentration, size=n_clusters),
    )
    rankings = np.array(list(permutations(range(1, n_items + 1))))
    labels = rng.choice(n_clusters, n_users, p=weight / weight.sum())
    clicks = np.zeros((n_users, n_items))
    for user, label in enumerate(labels):
        law = np.exp(-alpha[label] / n_items * np.abs(rankings - rho[label]).sum(axis=1))
        ranks = rankings[rng.choice(len(law), p=law / law.sum())]
        clicks[user] = ranks <= rng.integers(1, n_items)
    return clusters_of(rho, alpha, weight, clicks), sparse.csr_array(clicks)


def statistics(clusters, matrix):
    """Numbers that depend on parameters and clicks, and on which cluster is which as little as can be."""
    likelihood, share = clusters.shares()
    first = np.take_along_axis(clusters.rho, matrix.toarray().argmax(axis=1)[None], axis=1)
    tau = clusters.weight / clusters.weight.sum()
    distance = np.abs(clusters.rho[0] - clusters.rho[1]).sum()
    return np.array([
        likelihood, np.log(clusters.alpha).mean(), np.log(clusters.alpha).std(), (tau**2).sum(), np.log(tau).sum(),
        (share.T * first).sum() / len(share), (share**2).sum(), distance, clusters.alpha @ tau,
    ])  # fmt: skip


def z_scores(seed, n_draws):
    """How far a move carries the statistics from their law under prior and model, in standard errors."""
    rng, changes, n_accepted = np.random.default_rng(seed), [], 0
    for _ in range(n_draws):
        clusters, matrix = joint_draw(rng)
        move = SplitMerge(matrix, PRIORS, sharpness=0.7, nearness=2.0)
        after, _ = move.propose(clusters, rng)
        n_accepted += after is not clusters
        changes.append(statistics(after, matrix) - statistics(clusters, matrix))
    assert n_accepted > 0.05 * n_draws
    mean, error = np.mean(changes, axis=0), np.std(changes, axis=0) / np.sqrt(n_draws)
    return mean / error


@pytest.mark.chance(1e-4)
def test_split_and_merge_leaves_the_joint_law_of_parameters_and_clicks(rotating_seed, deep, times):
    """Parameters from the prior, clicks from the model: the move must leave their law as it is.

    Nine z-scores beyond 5 by chance: 5e-6.
    """
    assert np.abs(z_scores(rotating_seed, times * (20_000 if deep else 1000))).max() < 5.0


@pytest.mark.deep
@pytest.mark.parametrize("mutant", ["no Jacobian", "no way back", "prior of alpha", "prior of weights"])
def test_the_joint_law_notices_mutants(mutant, monkeypatch):
    ratio, target = SplitMerge.log_ratio, SplitMerge.log_target

    def without_jacobian(self, before, after, choice):
        a, b, _ = choice.slots
        return ratio(self, before, after, choice) - np.log(before.weight[a] / after.weight[b])

    def without_way_back(self, before, after, choice):
        return ratio(self, before, after, choice) - self.log_proposal(after, before, choice.back(before))

    name, wrong = {
        "no Jacobian": ("log_ratio", without_jacobian),
        "no way back": ("log_ratio", without_way_back),
        "prior of alpha": ("log_target", lambda self, x: target(self, x) + 0.4 * x.alpha.sum()),
        "prior of weights": ("log_target", lambda self, x: target(self, x) - np.log(x.weight).sum()),
    }[mutant]
    monkeypatch.setattr(SplitMerge, name, wrong)
    assert np.abs(z_scores(1, 3000)).max() > 5.0


def test_the_way_back_is_the_way(rotating_seed):
    rng = np.random.default_rng(rotating_seed)
    for _ in range(30):
        clusters, matrix = joint_draw(rng, n_users=6, n_items=5, n_clusters=4)
        move = SplitMerge(matrix, PRIORS)
        a, b, c = rng.permutation(4)[:3].tolist()
        choice = Choice((a, b, c), rng.random(), rng.normal(), (rng.integers(6, size=2), rng.integers(6, size=2)))
        after = move.applied(clusters, choice, np.array([rng.permutation(5) + 1 for _ in range(3)]))
        back = choice.back(clusters)
        again = move.applied(after, back, clusters.rho[list(back.slots)])
        for name in ("rho", "alpha", "weight", "log_p"):
            np.testing.assert_allclose(getattr(again, name), getattr(clusters, name), rtol=1e-9)
        forth = move.log_ratio(clusters, after, choice)
        assert move.log_ratio(after, again, back) == pytest.approx(-forth, abs=1e-6)


def test_the_likelihood_is_summed_over_labels_and_rankings(rotating_seed):
    clusters, matrix = joint_draw(np.random.default_rng(rotating_seed))
    assert clusters.shares()[0] == pytest.approx(summed_out(clusters, matrix.toarray()), abs=1e-9)


def test_the_quick_study_writes_its_page(tmp_path):
    page = ModesStudy(quick=True).reproduce(tmp_path, n_workers=1).read_text()
    for form in ("plain chains", "exchange of clusters", "split and merge"):
        assert f"| {form} |" in page
