"""The arithmetic by which the simulation study is compared with the paper's."""

import numpy as np
import pytest
from experiments.simulation.summary import differences, summarize, unit_error


def test_standard_errors_of_statistics():
    """Of 20 normal draws; the known ones: mean 1/sqrt(n), sd 1/sqrt(2(n-1)) nearly, median 1.25/sqrt(n) nearly."""
    assert unit_error("mean", 20) == pytest.approx(20**-0.5)
    assert unit_error("sd", 20) == pytest.approx(38**-0.5, rel=0.05)
    assert unit_error("median", 20) == pytest.approx(1.2533 * 20**-0.5, rel=0.06)
    assert unit_error("max", 20) == pytest.approx(unit_error("min", 20), rel=0.05)
    assert unit_error("max", 20) > unit_error("75 %", 20) > unit_error("mean", 20)


@pytest.mark.chance(1e-5)
def test_differences_in_standard_errors_scatter_as_they_should(rotating_seed, times):
    """Two samples of the same distribution: each difference has mean 0 and standard deviation 1 or a little more.

    400 pairs give the standard deviation to 3.5 %; 5 such errors, and 10 % for estimated sds, are allowed.
    """
    rng = np.random.default_rng(rotating_seed)
    in_errors = []
    for _ in range(400 * times):
        ours, theirs = (summarize(rng.normal(0.3, 0.01, 20)) for _ in range(2))
        in_errors.append(list(differences(ours, 20, theirs, 20).values()))
    z = np.array(in_errors)
    assert (np.abs(z.mean(axis=0)) < 5 / np.sqrt(len(z)) * 1.2).all()
    assert (np.abs(z.std(axis=0) - 1) < 0.3).all()
