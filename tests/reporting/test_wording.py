from types import SimpleNamespace

import numpy as np
import pytest

from bmcd.inference.diagnostics import Verdict
from bmcd.reporting import page, wording
from bmcd.reporting.wording import convergence, headlines, judgement


def test_shares_have_the_digits_that_a_reader_needs():
    shares = (0, 0.0004, 0.0996, 0.5, 0.996, 0.9999, 1)
    texts = ["0 %", "under 0.1 %", "10 %", "50 %", "99.6 %", "100 %", "100 %"]
    assert [page.percent(share) for share in shares] == texts


@pytest.mark.parametrize(
    ("state", "n_chains", "n_draws", "start"),
    [
        ("converged", 2, 100, "The calculation has converged: its 2 independent runs agree."),
        ("converged", 1, 100, "The calculation has converged, but in one run only"),
        ("too short", 2, 3, "Whether the calculation has converged cannot be assessed"),
        ("stopped", 2, 3, "Whether the calculation has converged cannot be assessed"),
        ("too short", 2, 100, "The calculation has nearly converged"),
        ("stopped", 2, 100, "The calculation was stopped before it had converged"),
        ("not converged", 1, 100, "The calculation has not converged: its one run is still changing"),
        ("not converged", 2, 100, "The calculation has not converged: its 2 independent runs do not agree"),
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
    for_k = SimpleNamespace(
        calibration=calibration,
        accuracy=SimpleNamespace(low=0.25, high=0.32),
        evaluation=SimpleNamespace(horizon=None),
    )
    assert wording.judgement(for_k) == judgement
    assert bool(wording.why(SimpleNamespace(model=None), for_k)) == (judgement != "about right")


def test_rivals_are_sorted_by_what_the_intervals_say():
    def gap(low, high):
        return {"accuracy": SimpleNamespace(difference=(low + high) / 2, low=low, high=high)}

    def for_k(**differences):
        return SimpleNamespace(name="BMCD", tested=SimpleNamespace(differences=differences))

    text = wording.against_baselines(
        for_k(A=gap(0.01, 0.03), B=gap(-0.04, -0.02), C=gap(-0.01, 0.01), D=gap(-0.02, 0.02))
    )
    assert text == (
        "A (2.0 points; 1.0 to 3.0) hits more often than BMCD; B (3.0 points; 2.0 to 4.0) hits less often; between "
        "BMCD and C and D there is no clear difference."
    )
    assert (
        wording.against_baselines(for_k(B=gap(-0.04, -0.02)))
        == "B (3.0 points; 2.0 to 4.0) hits less often than BMCD."
    )


@pytest.mark.parametrize(
    ("kept_aside", "hit_rate", "text"),
    [
        (5, 0.3, ""),
        (3, 0.1, "fewer can hit than with 5, which explains the difference, or a part of it."),
        (3, 0.3, "fewer can hit than with 5, and still more did than predicted."),
        (7, 0.3, "more can hit than with 5, which explains the difference, or a part of it."),
        (7, 0.1, "more can hit than with 5, and still fewer did than predicted."),
    ],
)
def test_other_numbers_kept_aside_are_told_with_what_came_of_them(kept_aside, hit_rate, text):
    results = SimpleNamespace(test_clicks=np.full(4, kept_aside))
    for_k = SimpleNamespace(
        k=5,
        calibration=SimpleNamespace(mean_probability=0.2, hit_rate=hit_rate),
        evaluation=SimpleNamespace(horizon=None),
    )
    assert wording.mismatch(results, for_k).endswith(text)
    assert bool(wording.mismatch(results, for_k)) == bool(text)


def gap_of(low, high):
    return {"accuracy": SimpleNamespace(difference=(low + high) / 2, low=low, high=high)}


def compared(rates, **differences):
    entries = {
        name: SimpleNamespace(evaluation=SimpleNamespace(accuracy=rate, horizon=None))
        for name, rate in rates.items()
    }
    rivals = {name: rate for name, rate in rates.items() if name != "Blend"}
    tested = SimpleNamespace(entries=entries, differences=differences, value=lambda name, measure: 0.5)
    items = SimpleNamespace(recommended=np.array([1, 1, 0, 3]))
    evaluation = entries["Blend"].evaluation
    calibration = SimpleNamespace(mean_probability=0.29, hit_rate=rates["Blend"])
    accuracy = SimpleNamespace(low=rates["Blend"] - 0.01, high=rates["Blend"] + 0.01)
    return SimpleNamespace(
        k=5, name="Blend", tested=tested, comparison=tested, baseline_accuracies=rivals, evaluation=evaluation,
        items=items, calibration=calibration, accuracy=accuracy,
    )  # fmt: skip


def test_the_first_sentence_says_what_works_best_and_how_sure_that_is():
    rates = {"Blend": 0.3, "A": 0.29, "B": 0.2}
    near = compared(rates, A=gap_of(-0.02, 0.01), B=gap_of(-0.12, -0.08))
    assert wording.best(near) == (
        "Blend works best here: it hits most often of 3 methods, though not clearly more often than A."
    )
    clear = compared(rates, A=gap_of(-0.02, -0.01), B=gap_of(-0.12, -0.08))
    assert wording.best(clear) == "Blend works best here: it hits most often of 3 methods, and clearly so."
    behind = {"Blend": 0.3, "A": 0.4}
    assert wording.best(compared(behind, A=gap_of(0.05, 0.15))) == (
        "A works best here: 40 in 100 are hits, 30 in 100 with Blend."
    )
    assert wording.best(compared(behind, A=gap_of(-0.05, 0.25))).endswith("within what chance explains.")


@pytest.mark.parametrize(
    ("other", "gap", "light"),
    [(0.2, (-0.12, -0.08), "good"), (0.31, (-0.02, 0.04), "look"), (0.4, (0.05, 0.15), "bad")],
)
def test_the_light_of_the_hits_follows_the_best_other_method(other, gap, light):
    model = SimpleNamespace(verdict_=Verdict("too short", ""))
    clicks = SimpleNamespace(n_items=4)
    results = SimpleNamespace(model=model, clicks=clicks, test_clicks=np.full(3, 5), chance=0.1)
    found = {each.label: each for each in headlines(results, compared({"Blend": 0.3, "A": other}, A=gap_of(*gap)))}
    assert found["Hits"].light == light
    assert found["Calibration"].light == "good"  # 29 % predicted, 30 % observed, within the interval
    assert (found["Shown"].value, found["Shown"].light) == ("3 of 4 items", "good")
    assert (found["Converged"].value, found["Converged"].light) == ("not sure", "look")
    results.test_clicks = np.full(3, 2)
    predicted = headlines(results, compared({"Blend": 0.3, "A": other}, A=gap_of(*gap)))[0]
    assert predicted.light == "none"  # other numbers of clicks cannot be compared


@pytest.mark.parametrize(
    ("hit_rate", "start"),
    [(1.0, "Even all hits can be reached here"), (0.8, "More than 80 % cannot be reached here")],
)
def test_what_can_be_reached_at_most(hit_rate, start):
    calibration = SimpleNamespace(hit=np.zeros(100))
    for_k = SimpleNamespace(best_cutoff=SimpleNamespace(hit_rate=hit_rate), calibration=calibration)
    assert wording.reach(for_k).startswith(f"{start} (at least 30 recommendations must remain")


@pytest.mark.parametrize(
    ("predicted", "judged"),
    [(0.30, "about right"), (0.314, "about right"), (0.32, "too high"), (0.286, "about right"), (0.28, "cautious")],
)
def test_predictions_near_the_hits_are_about_right_however_narrow_the_interval(predicted, judged):
    calibration = SimpleNamespace(mean_probability=predicted, hit_rate=0.30)
    assert (
        judgement(SimpleNamespace(calibration=calibration, accuracy=SimpleNamespace(low=0.299, high=0.301)))
        == judged
    )
