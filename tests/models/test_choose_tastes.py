"""How `choose_tastes` searches, with made-up scores in place of fits; and what it holds out."""

import numpy as np
import pytest

import bmcd
from bmcd.errors import InputError
from bmcd.inference.run import Run
from bmcd.inference.tastes.priors import TastePriors
from bmcd.models import choose as module
from bmcd.models.choose import Scores, choose_tastes, hold_out_clicks

RUN = Run(chains=2, progress=False)


@pytest.fixture(scope="module")
def clicks():
    rng = np.random.default_rng(0)
    return bmcd.Clicks.from_matrix(rng.random((60, 200)) < 0.1)


def choose(monkeypatch, clicks, gain_of, *, best_concentration=4.0, priors=None, noise=0.0):
    """Choose where the mean gain of a candidate is given and log probability falls away from a concentration."""
    asked = []

    def score(clicks, kept, pairs, n_tastes, concentration, priors, run, model):
        asked.append((n_tastes, concentration))
        log_probability = -abs(np.log(concentration / best_concentration))
        wave = noise * np.resize([1.0, -1.0], len(pairs)) * (n_tastes % 3 - 1)  # of no mean, or nearly none
        return Scores(np.full(len(pairs), log_probability), gain_of(n_tastes) + wave)

    monkeypatch.setattr(module, "_score", score)
    return choose_tastes(clicks, RUN, priors=priors), asked


@pytest.mark.parametrize("best", [5, 10, 20, 40, 80, 160])
def test_a_clear_best_number_is_found(monkeypatch, clicks, best):
    choice, _ = choose(monkeypatch, clicks, lambda n: 0.3 - 0.01 * abs(np.log2(n / best)))
    assert choice.n_tastes == best
    assert choice.priors.a == 4.0 / best
    assert ("the end of what was tried" in choice.reason) == (best == 5)


@pytest.mark.parametrize("better", [10, 20, 80])
def test_without_a_clear_difference_the_number_is_the_default(monkeypatch, clicks, better):
    choice, _ = choose(monkeypatch, clicks, lambda n: 0.3 + 1e-4 * (n == better), noise=0.2)
    assert choice.n_tastes == 40
    assert choice.table["behind"].min() <= 0.0


@pytest.mark.parametrize("best", [0.25, 0.5, 1.0, 2.0, 8.0, 32.0])
def test_the_concentration_goes_by_log_probability(monkeypatch, clicks, best):
    choice, asked = choose(monkeypatch, clicks, lambda n: 0.3, best_concentration=best)
    assert choice.priors.a == best / choice.n_tastes
    assert len(asked) == len(set(asked))


def test_a_fixed_shape_is_kept(monkeypatch, clicks):
    choice, asked = choose(monkeypatch, clicks, lambda n: 0.3, priors=TastePriors(a=0.7))
    assert choice.priors.a == 0.7
    assert len({concentration for _, concentration in asked}) == 1


def test_few_items_mean_few_tastes(monkeypatch):
    few = bmcd.Clicks.from_matrix(np.tril(np.ones((12, 12), bool)))
    choice, asked = choose(monkeypatch, few, lambda n: 0.3 + n / 1000)
    assert choice.n_tastes == max(n for n, _ in asked) == 12


def test_errors_take_the_clicks_of_a_user_together():
    """Ten clicks of each of 100 users that say the same are worth 100, not 1,000."""
    by_user = np.random.default_rng(1).normal(size=100)
    users, one = np.repeat(np.arange(100), 10), np.repeat(by_user, 10)
    mean, error = module._difference(one, np.zeros(1000), users)
    assert mean == pytest.approx(by_user.mean())
    assert error == pytest.approx(by_user.std() / 10)


def test_what_is_held_out(clicks):
    kept, pairs = hold_out_clicks(clicks, 3)
    whole, left = clicks.matrix.toarray(), kept.matrix.toarray()
    assert whole[tuple(pairs.T)].all()
    assert not left[tuple(pairs.T)].any()
    assert left.sum() + len(pairs) == whole.sum()
    assert (left.sum(axis=1) >= np.minimum(whole.sum(axis=1), 2)).all()
    assert len(pairs) == pytest.approx(0.2 * whole.sum(), rel=0.1)
    with pytest.raises(InputError, match="give n_tastes a number"):
        hold_out_clicks(bmcd.Clicks.from_matrix(np.eye(4, dtype=bool)), 0)
