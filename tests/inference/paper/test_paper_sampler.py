"""The paper's sampler: exact small posteriors, kept distances, the same bits however it is run."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import sparse, stats
from tests.reference.mallows import enumerate_rankings, log_partition_enumerated, slow_distance

from bmcd.inference.mixture import ChainState, Priors, make_data
from bmcd.inference.paper.sampler import PaperSampler
from bmcd.mallows.distances import DISTANCES
from bmcd.mallows.distances import distance as distance_between
from bmcd.mallows.rank_scale import scale_values

pytestmark = pytest.mark.chance(0)

# Quantities are compared within 4.5 MCSE. The MCSE comes from the means of 100 batches, so the bound is that of
# the t law with 99 degrees of freedom that has the tails of 4.5 in the normal law, 4.8: one comparison fails by
# chance 7 times in a million. This file makes some 120, hence a false alarm in less than 1 of 1,000 runs.
BATCHES = 100
BOUND = float(stats.t.isf(stats.norm.sf(4.5), BATCHES - 1))


def clicks_of(rows, n_items):
    matrix = np.zeros((len(rows), n_items), np.int8)
    for j, row in enumerate(rows):
        matrix[j, row] = 1
    return sparse.csr_array(matrix)


def random_state(data, n_clusters, seed, alpha=2.0):
    rng = np.random.default_rng(seed)
    n_users, n_items = data.user_start.size - 1, data.scale.size
    ranks = np.empty((n_users, n_items), np.int64)
    for j in range(n_users):
        clicked = data.user_items[data.user_start[j] : data.user_start[j + 1]]
        others = np.setdiff1d(np.arange(n_items), clicked)
        ranks[j, np.concatenate([rng.permutation(clicked), rng.permutation(others)])] = np.arange(1, n_items + 1)
    return ChainState(
        alpha=np.full(n_clusters, alpha),
        tau=np.full(n_clusters, 1 / n_clusters),
        rho=np.stack([rng.permutation(n_items) + 1 for _ in range(n_clusters)]),
        labels=rng.integers(0, n_clusters, n_users),
        ranks=ranks,
        alpha_step=np.full(n_clusters, 0.5),
    )


def random_problem(seed, n_users=40, n_items=9, rank_scale="linear"):
    rng = np.random.default_rng(seed)
    rows = [rng.choice(n_items, rng.integers(0, n_items + 1), replace=False) for _ in range(n_users)]
    return make_data(clicks_of(rows, n_items), rank_scale)


def copy_of(state):
    return ChainState(*(array.copy() for array in state))


def assert_same(left, right):
    for name, a, b in zip(ChainState._fields, left, right, strict=True):
        assert a.tobytes() == b.tobytes(), name


# ------------------------------------------------------------------------------------ exact small posteriors


class ExactPosterior:
    """The posterior by enumeration; tau integrated on paper, alpha by quadrature.

    Given the labels, clusters are independent: a cluster with users S has the weight
    sum_rho int p(alpha) prod_{j in S} [sum_{R compatible} exp(-alpha / n d(R, rho)) / Z(alpha)] d alpha.
    """

    def __init__(self, rows, n_items, n_clusters, priors, distance, rank_scale="linear"):
        self.rows, self.n, self.n_clusters, self.priors = rows, n_items, n_clusters, priors
        g = None if rank_scale == "linear" else scale_values(n_items, rank_scale).tolist()
        # Gauss-Legendre in 1,500 points on four stretches; the prior has 1e-17 of its mass beyond the last.
        ends = np.array([0, 2, 10, 20, 40]) / priors.rate
        nodes, weights = np.polynomial.legendre.leggauss(375)
        self.alpha = np.concatenate([a + (b - a) * (nodes + 1) / 2 for a, b in pairwise(ends)])
        width = np.concatenate([(b - a) / 2 * weights for a, b in pairwise(ends)])
        self.prior = width * priors.rate * np.exp(-priors.rate * self.alpha)
        log_z = np.array([log_partition_enumerated(n_items, a, distance, g) for a in self.alpha])
        rankings = list(enumerate_rankings(n_items))
        self.compatible = [[r for r in rankings if all(r[i] <= len(row) for i in row)] for row in rows]
        # terms[user][ranking] is an array [rho, alpha]
        self.terms = [
            {
                r: np.stack(
                    [np.exp(-self.alpha / n_items * slow_distance(r, rho, distance, g) - log_z) for rho in rankings]
                )
                for r in some
            }
            for some in self.compatible
        ]
        self.sums = [sum(terms.values()) for terms in self.terms]

    def cluster(self, users, replaced=None, power=0):
        """Weight of a cluster, with one user's sum replaced, times alpha^power."""
        inner = np.ones((math.factorial(self.n), self.alpha.size))
        for j in users:
            inner = inner * (replaced[1] if replaced and replaced[0] == j else self.sums[j])
        return float((inner.mean(axis=0) * self.prior * self.alpha**power).sum())

    def over_labels(self):
        """(labels, users per cluster, weight of the labels under the prior) for each labelling."""
        psi, c = self.priors.concentration, self.n_clusters
        for labels in product(range(c), repeat=len(self.rows)):
            users = [[j for j, z in enumerate(labels) if z == k] for k in range(c)]
            log_weight = sum(math.lgamma(psi + len(some)) - math.lgamma(psi) for some in users)
            yield labels, users, math.exp(log_weight)

    def expectations(self):
        """Label-free quantities: shared clusters, latent rankings, sum of alphas, sum of squared shares."""
        psi, n_users = self.priors.concentration, len(self.rows)
        total, out = 0.0, {}

        def add(name, value):
            out[name] = out.get(name, 0.0) + value

        for labels, users, weight in self.over_labels():
            parts = [self.cluster(some) for some in users]
            w = weight * math.prod(parts)
            total += w
            for j in range(1, n_users):
                add(f"users 0 and {j} together", w * (labels[0] == labels[j]))
            for c, some in enumerate(users):
                add("sum of alphas", w / parts[c] * self.cluster(some, power=1))
                a = psi + len(some)
                total_psi = self.n_clusters * psi + n_users
                add("sum of squared shares", w * a * (a + 1) / (total_psi * (total_psi + 1)))
            for j in (0, n_users - 1):
                label = labels[j]
                for r in self.compatible[j][:6]:
                    replaced = self.cluster(users[label], replaced=(j, self.terms[j][r]))
                    add(f"ranking of {j} is {r}", w / parts[label] * replaced)
        return {name: value / total for name, value in out.items()}


def observe(state, posterior):
    seen = {}
    n_users = state.labels.size
    for j in range(1, n_users):
        seen[f"users 0 and {j} together"] = float(state.labels[0] == state.labels[j])
    seen["sum of alphas"] = float(state.alpha.sum())
    seen["sum of squared shares"] = float((state.tau**2).sum())
    for j in (0, n_users - 1):
        ranks = tuple(state.ranks[j].tolist())
        for r in posterior.compatible[j][:6]:
            seen[f"ranking of {j} is {r}"] = float(ranks == r)
    return seen


def scores(expected, draws):
    """(mean - truth) / MCSE by batch means, for each quantity; those that never change must be exact."""
    out = {}
    for name, truth in expected.items():
        values = np.array([draw[name] for draw in draws])
        batches = values[: len(values) // BATCHES * BATCHES].reshape(BATCHES, -1).mean(axis=1)
        error = batches.std(ddof=1) / math.sqrt(BATCHES)
        out[name] = (
            (values.mean() - truth) / error if error > 0 else (0.0 if abs(values.mean() - truth) < 1e-9 else np.inf)
        )
    return out


def sample_and_score(posterior, data, seed, n_draws, thin, **options):
    sampler = PaperSampler(data, posterior.n_clusters, posterior.priors, seed=seed, alpha_update=1, **options)
    state = random_state(data, posterior.n_clusters, seed)
    sampler.stretch(state, 0, 0, 500, True)
    draws = []
    for k in range(n_draws):
        sampler.stretch(state, 0, 500 + thin * k, thin, False)
        draws.append(observe(state, posterior))
    return scores(posterior.expectations(), draws)


# Three users alike and one apart, so that clusters differ in size; a weak pull (psi = 0.8) lets it show.
ROWS = [[0, 1], [0], [0, 1, 2], [3]]
PRIORS = Priors(rate=0.25, concentration=0.8)


@pytest.mark.chance(2e-4)
@pytest.mark.parametrize(
    ("distance", "ranks_move", "leap_size", "rank_scale"),
    [
        ("footrule", "swap", 2, "linear"),
        ("footrule", "leap_and_shift", 2, "sqrt"),
        ("kendall", "leap_and_shift", 2, "linear"),
        ("spearman", "swap", 1, "linear"),
    ],
)
def test_exact_posterior(distance, ranks_move, leap_size, rank_scale, rotating_seed, deep, times):
    posterior = ExactPosterior(ROWS, 4, 2, PRIORS, distance, rank_scale)
    data = make_data(clicks_of(ROWS, 4), rank_scale)
    n_draws = times * (200_000 if deep else 20_000)
    z_scores = sample_and_score(
        posterior, data, rotating_seed, n_draws, 10, distance=distance, ranks_move=ranks_move, leap_size=leap_size
    )
    assert max(map(abs, z_scores.values())) < BOUND, z_scores


@pytest.mark.chance(2e-4)
@pytest.mark.parametrize("distance", ["cayley", "hamming", "ulam"])
def test_exact_posterior_of_the_other_distances(distance, rotating_seed, times):
    posterior = ExactPosterior([[0], [1, 2], [2]], 3, 2, PRIORS, distance)
    data = make_data(clicks_of(posterior.rows, 3))
    z_scores = sample_and_score(posterior, data, rotating_seed, 8000 * times, 10, distance=distance)
    assert max(map(abs, z_scores.values())) < BOUND, z_scores


@pytest.mark.chance(2e-4)
def test_no_clicks_gives_the_prior(rotating_seed, times):
    """Without clicks alpha, labels and tau have their prior law, and every ranking is as likely as any other."""
    posterior = ExactPosterior([[], []], 3, 2, PRIORS, "footrule")
    expected = posterior.expectations()
    psi = PRIORS.concentration
    assert expected["sum of alphas"] == pytest.approx(2 / PRIORS.rate, rel=1e-9)
    assert expected["users 0 and 1 together"] == pytest.approx((psi + 1) / (2 * psi + 1), rel=1e-9)
    assert expected["ranking of 0 is (1, 2, 3)"] == pytest.approx(1 / 6, rel=1e-9)
    data = make_data(clicks_of(posterior.rows, 3))
    z_scores = sample_and_score(posterior, data, rotating_seed, 10_000 * times, 20)
    assert max(map(abs, z_scores.values())) < BOUND, z_scores


# ------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize("ranks_move", ["swap", "leap_and_shift"])
@pytest.mark.parametrize("name", [*DISTANCES, "stretched"])
def test_distances_are_kept_and_runs_resume(name, ranks_move, rotating_seed):
    distance, rank_scale = ("footrule", "sqrt") if name == "stretched" else (name, "linear")
    data = random_problem(rotating_seed, rank_scale=rank_scale)
    options = {"distance": distance, "seed": rotating_seed, "alpha_update": 3, "ranks_move": ranks_move}
    state = random_state(data, 3, rotating_seed)
    one_by_one, resumed = copy_of(state), copy_of(state)

    sampler = PaperSampler(data, 3, PRIORS, **options)
    last = sampler.stretch(state, 1, 0, 60, True)[-1]
    wanted = np.stack([distance_between(state.ranks, rho, distance, rank_scale) for rho in state.rho], axis=1)
    kept = sampler.distances(1)
    assert (kept == wanted).all() if name != "stretched" else np.allclose(kept, wanted, rtol=1e-9, atol=0)
    within = wanted[np.arange(state.labels.size), state.labels].sum()
    assert last.within_distance == pytest.approx(within, rel=1e-9)
    for j in range(data.user_start.size - 1):  # clicked items stay on top
        clicked = data.user_items[data.user_start[j] : data.user_start[j + 1]]
        assert (state.ranks[j, clicked] <= clicked.size).all()

    sampler = PaperSampler(data, 3, PRIORS, **options)
    for sweep in range(60):
        info = sampler.sweep(one_by_one, 1, sweep, True)
    assert_same(one_by_one, state)
    assert info.log_joint == last.log_joint
    assert info.within_distance == last.within_distance

    PaperSampler(data, 3, PRIORS, **options).stretch(resumed, 1, 0, 25, True)
    resumed = copy_of(resumed)
    info = PaperSampler(data, 3, PRIORS, **options).stretch(resumed, 1, 25, 35, True)[-1]
    assert_same(resumed, state)
    assert info.log_joint == last.log_joint


@pytest.mark.parametrize("ranks_move", ["swap", "leap_and_shift"])
def test_a_stretch_tells_what_its_sweeps_would_have_told(ranks_move, rotating_seed):
    data = random_problem(rotating_seed)
    options = {"seed": rotating_seed, "alpha_update": 3, "ranks_move": ranks_move}
    single, several = (PaperSampler(data, 3, PRIORS, **options) for _ in range(2))
    state = random_state(data, 3, rotating_seed)
    stretched = copy_of(state)
    wanted = [single.sweep(state, 1, sweep, sweep < 20) for sweep in range(50)]
    infos = several.stretch(stretched, 1, 0, 20, True) + several.stretch(stretched, 1, 20, 30, False)
    assert_same(state, stretched)
    for left, right in zip(wanted, infos, strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_array_equal(a, b)  # nan where nothing was proposed


def test_a_changed_state_is_noticed(rotating_seed):
    data = random_problem(rotating_seed)
    states = [random_state(data, 2, rotating_seed + k, alpha=1.0 + k) for k in range(2)]
    fresh = copy_of(states[1])
    PaperSampler(data, 2, PRIORS, seed=1).stretch(fresh, 0, 7, 20, False)
    sampler = PaperSampler(data, 2, PRIORS, seed=1)
    sampler.stretch(states[0], 0, 0, 7, False)
    sampler.stretch(states[1], 0, 7, 20, False)
    assert_same(states[1], fresh)


@pytest.mark.chance(1e-6)
def test_chains_differ_and_the_seed_decides(rotating_seed):
    data = random_problem(rotating_seed)
    states = [random_state(data, 2, rotating_seed) for _ in range(3)]
    sampler = PaperSampler(data, 2, PRIORS, seed=3)
    for state, chain in zip(states, (0, 1, 0), strict=True):
        sampler.stretch(state, chain, 0, 30, False)
    assert_same(states[0], states[2])
    assert (states[0].ranks != states[1].ranks).any()


def test_log_joint_by_its_formula(rotating_seed):
    data = random_problem(rotating_seed, n_users=7, n_items=5)
    state = random_state(data, 2, rotating_seed)
    info = PaperSampler(data, 2, PRIORS, seed=1, distance="kendall").stretch(state, 0, 0, 11, False)[-1]
    wanted = -PRIORS.rate * state.alpha.sum() + (PRIORS.concentration - 1) * np.log(state.tau).sum()
    for ranks, z in zip(state.ranks.tolist(), state.labels, strict=True):
        wanted += math.log(state.tau[z]) - log_partition_enumerated(5, state.alpha[z], "kendall")
        wanted -= state.alpha[z] / 5 * slow_distance(ranks, state.rho[z].tolist(), "kendall")
    assert info.log_joint == pytest.approx(wanted, rel=1e-12)
    assert info.label_counts.tolist() == np.bincount(state.labels, minlength=2).tolist()


@pytest.mark.chance(1e-3)
def test_steps_are_tuned_in_warm_up_only(rotating_seed, times):
    """Alpha and the consensus move together: of 400 seeds the farthest accepted 0.22 where 0.44 is wanted.

    Of untuned steps of 0.1 some 0.9 are accepted.
    """
    data = random_problem(rotating_seed)
    state = random_state(data, 1, rotating_seed)  # one cluster: it is never empty
    sampler = PaperSampler(data, 1, PRIORS, alpha_update=1)
    sampler.stretch(state, 0, 0, 3000 * times, True)
    tuned = state.alpha_step.copy()
    infos = sampler.stretch(state, 0, 3000 * times, 6000 * times, False)
    assert (state.alpha_step == tuned).all()
    assert abs(np.mean([info.alpha_accepted for info in infos]) - 0.44) < 0.32


def test_shares_of_accepted_proposals():
    data = random_problem(1)
    state = random_state(data, 2, 1)
    sampler = PaperSampler(data, 2, PRIORS, alpha_update=5)
    info = sampler.sweep(state, 0, 3, False)
    assert np.isnan(info.alpha_accepted).all()  # none proposed
    assert 0 <= info.rho_accepted <= 1
    assert 0 < info.ranks_accepted <= 1


@pytest.mark.parametrize("ranks_move", ["swap", "leap_and_shift"])
def test_one_item_and_no_users(ranks_move):
    for rows, n_items in (([[0], []], 1), ([], 4)):
        data = make_data(sparse.csr_array(clicks_of(rows, n_items)))
        state = random_state(data, 2, 0)
        PaperSampler(data, 2, PRIORS, ranks_move=ranks_move).stretch(state, 0, 0, 20, True)
        assert np.isfinite(state.alpha).all()


@pytest.mark.chance(1e-4)
def test_alpha_above_the_end_is_rejected(rotating_seed):
    data = random_problem(rotating_seed, n_users=3, n_items=4)
    state = random_state(data, 2, rotating_seed, alpha=1.9)
    sampler = PaperSampler(data, 2, PRIORS, alpha_update=1)
    sampler._log_z = sampler._log_z._replace(max_alpha=2.0)  # where the table of another distance would end
    for sweep in range(200):
        sampler.sweep(state, 0, sweep, False)
        assert (state.alpha <= 2.0).all()
    for alpha in (3.0, 0.0):
        wrong = state._replace(alpha=np.array([1.0, alpha]))
        with pytest.raises(ValueError, match=rf"alpha of cluster 1 is {alpha:g}: .* not above max_alpha=2"):
            sampler.sweep(wrong, 0, 200, False)


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks_move": "jump"}, "choose one of swap, leap_and_shift"),
        ({"alpha_update": 0}, "alpha_update must be at least 1"),
    ],
)
def test_refused_settings(options, message):
    with pytest.raises(ValueError, match=message):
        PaperSampler(random_problem(0), 2, PRIORS, **options)
