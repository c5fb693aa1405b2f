import math

import pytest

from bmcd.models.choose import end_of_fall, falls, find_elbow

# MWCD a user of the simulated data set with seed 0, three true clusters.
SIMULATED = {1: 687.2, 2: 558.9, 3: 509.5, 4: 505.6, 5: 501.1, 6: 502.9, 7: 493.1, 8: 494.2}


@pytest.mark.parametrize(
    ("curve", "elbow"),
    [
        ({2: 10.0, 3: 4.0, 4: 3.0, 5: 2.0}, 3),
        ({2: 10.0, 4: 8.0, 8: 2.0, 9: 1.0}, 8),
        ({1: 3.0, 2: 2.0, 3: 1.0}, None),  # a straight line
        ({1: 3.0, 2: 2.9, 3: 1.0}, None),  # bent the other way
        ({1: 0.0, 2: 0.0, 3: 0.0}, None),
        ({1: 5.0, 2: 1.0}, None),
        ({1: 5.0}, None),
    ],
)
def test_the_elbow_is_farthest_below_the_chord(curve, elbow):
    assert find_elbow(curve) == elbow
    assert find_elbow({c: 1000 * value for c, value in reversed(curve.items())}) == elbow


def test_a_fall_is_the_share_lost_when_the_number_doubles():
    # 100, 90, 81, ... for 1, 2, 4, ...: a tenth each time, also where 4 is left out.
    assert falls({1: 100.0, 2: 90.0, 8: 72.9})[2] == pytest.approx(0.1)
    assert falls({8: 72.9, 2: 90.0, 1: 100.0})[8] == pytest.approx(0.1)
    by_step = falls({3: 10.0, 6: 11.0})
    assert math.isnan(by_step[3])
    assert by_step[6] == pytest.approx(-0.1)


@pytest.mark.parametrize(
    ("curve", "end"),
    [
        ({1: 100.0, 2: 80.0, 4: 78.0, 8: 50.0}, 2),  # what comes after the first small step does not count
        ({1: 100.0, 2: 80.0, 4: 81.0, 8: 80.0}, 2),  # rises
        ({2: 100.0, 4: 96.0, 8: 95.0}, 2),  # has hardly fallen from the first on
        ({1: 100.0, 2: 80.0, 4: 64.0, 8: 51.2}, 8),  # falls to the end
        ({1: 100.0, 2: 94.9, 4: 94.0}, 2),  # just enough
        ({1: 100.0, 2: 95.1, 4: 80.0}, 1),  # just not enough
        ({10: 100.0, 11: 99.2, 12: 98.9}, 11),  # 0.8 % for a tenth more clusters is 5.7 % a doubling
        ({1: 100.0, 2: 60.0, 4: 54.5, 8: 54.0}, 2),  # 9 % is less than a quarter of 40 %
        ({1: 100.0, 2: 60.0, 4: 53.5, 8: 53.0}, 4),  # 11 % is more
        ({1: 100.0, 2: 90.0, 4: 54.0, 8: 49.0}, 4),  # the largest so far need not be the first
        ({5: 7.0}, 5),
        ({1: 0.0, 2: 0.0}, 1),  # one item: all distances are 0
        ({1: 9.0, 2: 0.0, 3: 0.0}, 2),
        (SIMULATED, 3),
        ({c: value for c, value in SIMULATED.items() if c > 1}, 3),
        ({c: value for c, value in SIMULATED.items() if c > 2}, 3),
        ({c: SIMULATED[c] for c in (1, 2, 4, 8)}, 4),
    ],
)
def test_the_fall_ends_where_the_next_step_is_small(curve, end):
    assert end_of_fall(curve) == end
    assert end_of_fall({c: 1000 * value for c, value in reversed(curve.items())}) == end
