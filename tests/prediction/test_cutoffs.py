"""Cut-offs against numbers worked out by hand, and against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmcd.evaluation.calibration import Calibration
from bmcd.prediction.cutoffs import cutoff_for, cutoff_table

P = np.repeat([0.1, 0.2, 0.3, 0.6], 10)
HIT = np.concatenate([np.arange(10) < hits for hits in (2, 2, 4, 5)])

probabilities = st.one_of(st.floats(0, 1), st.integers(0, 100).map(lambda i: i / 100))
outcomes = st.lists(st.tuples(probabilities, st.booleans()), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("p", "hit", "message"),
    [
        ([0.5], [True, False], r"shapes are \(1,\) and \(2,\)"),
        ([], [], "not empty"),
        ([1.5], [True], "between 0 and 1, but there is 1.5"),
        ([float("nan")], [True], "between 0 and 1, but there is nan"),
        ([0.5], [2], "True or False"),
    ],
)
def test_bad_arrays_are_refused(p, hit, message):
    for function in (Calibration.of, cutoff_table, lambda a, b: cutoff_for(a, b, 0.5, min_kept=1)):
        with pytest.raises(ValueError, match=message):
            function(p, hit)


def test_cutoff_table_by_hand():
    table = cutoff_table(P, HIT, [0.0, 0.2, 0.25, 0.6, 0.7])
    assert table["cutoff"].tolist() == [0.0, 0.2, 0.25, 0.6, 0.7]
    assert table["n"].tolist() == [40, 30, 20, 10, 0]  # 0.2 itself is kept by the cut-off 0.2
    assert table["share"].tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert table["accuracy"].tolist()[:4] == pytest.approx([13 / 40, 11 / 30, 9 / 20, 1 / 2])
    assert np.isnan(table["accuracy"].iloc[4])
    polars = cutoff_table(P, HIT, [0.2, 0.7], library="polars")
    assert polars["accuracy"].to_list() == [pytest.approx(11 / 30), None]


def test_cutoffs_without_being_given_are_those_of_the_papers_tables():
    """Multiples of 0.05, from the last that keeps everything to the last that keeps anything."""
    assert cutoff_table([0.11, 0.27], [0, 1])["cutoff"].tolist() == [0.1, 0.15, 0.2, 0.25]
    assert cutoff_table([0.01], [0])["cutoff"].tolist() == [0]
    assert cutoff_table([1.0], [1])["cutoff"].tolist() == [1]
    assert cutoff_table([0.3, 0.35], [0, 1])["n"].tolist() == [2, 1]


def test_cutoffs_must_be_numbers():
    with pytest.raises(ValueError, match="cutoffs must be numbers"):
        cutoff_table(P, HIT, [0.1, float("nan")])


def test_cutoff_for_by_hand():
    assert cutoff_for(P, HIT, 0.3, min_kept=1) == 0.0  # all of them reach 0.325
    assert cutoff_for(P, HIT, 0.36, min_kept=1) == 0.2
    assert cutoff_for(P, HIT, 0.45, min_kept=1) == 0.3
    assert cutoff_for(P, HIT, 0.5, min_kept=10) == 0.6
    with pytest.raises(ValueError, match=r"best is 0.4500, with cut-off 0.3000, which keeps 20 of 40"):
        cutoff_for(P, HIT, 0.5, min_kept=11)
    with pytest.raises(ValueError, match=r"no cut-off reaches a hit rate of 0.9: the best is 0.5"):
        cutoff_for(P, HIT, 0.9, min_kept=1)
    with pytest.raises(ValueError, match="hit_rate must be between 0 and 1"):
        cutoff_for(P, HIT, 30)
    with pytest.raises(ValueError, match="min_kept must be 1 to 40"):
        cutoff_for(P, HIT, 0.3, min_kept=41)


@given(outcomes, st.floats(0, 1), st.integers(1, 5))
def test_cutoff_for_is_the_smallest_that_will_do(pairs, wanted, min_kept):
    p, hit = (np.array(side) for side in zip(*pairs, strict=True))
    min_kept = min(min_kept, len(p))
    kept = {cut: hit[p >= cut] for cut in np.unique(p)}
    good = [cut for cut, own in kept.items() if len(own) >= min_kept and own.sum() / len(own) >= wanted]
    if not good:
        with pytest.raises(ValueError, match="no cut-off reaches"):
            cutoff_for(p, hit, wanted, min_kept=min_kept)
        return
    cut = cutoff_for(p, hit, wanted, min_kept=min_kept)
    assert cut == (0 if good[0] == p.min() else good[0])
