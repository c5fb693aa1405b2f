from types import SimpleNamespace

import pytest

from bmcd.reporting import sentences
from bmcd.reporting.settled import convergence
from bmcd.sampling.diagnostics import Verdict


def test_shares_have_the_digits_that_a_reader_needs():
    shares = (0, 0.0004, 0.0996, 0.5, 0.996, 0.9999, 1)
    texts = ["0 %", "under 0.1 %", "10 %", "50 %", "99.6 %", "100 %", "100 %"]
    assert [sentences.percent(share) for share in shares] == texts


@pytest.mark.parametrize(
    ("state", "n_chains", "n_draws", "start"),
    [
        ("converged", 2, 100, "The calculation has settled: its 2 independent runs agree."),
        ("converged", 1, 100, "The calculation has settled, but in one run only"),
        ("too short", 2, 3, "Whether the calculation has settled cannot be judged"),
        ("stopped", 2, 3, "Whether the calculation has settled cannot be judged"),
        ("too short", 2, 100, "The calculation has nearly settled"),
        ("stopped", 2, 100, "The calculation was stopped before it had settled"),
        ("not converged", 1, 100, "The calculation has not settled: its one run still moves"),
        ("not converged", 2, 100, "The calculation has not settled: its 2 independent runs do not agree"),
    ],
)
def test_every_state_of_the_chains_has_its_words(state, n_chains, n_draws, start):
    draws = SimpleNamespace(n_chains=n_chains, n_draws=n_draws)
    model = SimpleNamespace(verdict_=Verdict(state, "In numbers."), draws_=draws)
    assert convergence(SimpleNamespace(model=model)).startswith(start)


@pytest.mark.parametrize(
    ("mean_probability", "judgement"), [(0.1, "cautious"), (0.3, "about right"), (0.5, "too high")]
)
def test_probabilities_are_judged_by_the_interval_of_the_hit_rate(mean_probability, judgement):
    calibration = SimpleNamespace(mean_probability=mean_probability, hit_rate=0.28)
    for_k = SimpleNamespace(calibration=calibration, accuracy=SimpleNamespace(low=0.25, high=0.32))
    assert sentences.judgement(for_k) == judgement
    assert bool(sentences.why(for_k)) == (judgement != "about right")


def test_rivals_are_sorted_by_what_the_intervals_say():
    def gap(low, high):
        return {"accuracy": SimpleNamespace(difference=(low + high) / 2, low=low, high=high)}

    def for_k(**differences):
        return SimpleNamespace(name="BMCD", tested=SimpleNamespace(differences=differences))

    text = sentences.rivals(for_k(A=gap(0.01, 0.03), B=gap(-0.04, -0.02), C=gap(-0.01, 0.01), D=gap(-0.02, 0.02)))
    assert text == (
        "A (2.0 points; 1.0 to 3.0) hits more often than BMCD; B (3.0 points; 2.0 to 4.0) hits less often; between "
        "BMCD and C and D there is no clear difference."
    )
    assert sentences.rivals(for_k(B=gap(-0.04, -0.02))) == "B (3.0 points; 2.0 to 4.0) hits less often than BMCD."
