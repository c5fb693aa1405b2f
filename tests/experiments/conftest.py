"""The quick case study, run once for the tests of its numbers and those of its probabilities."""

import warnings

import pytest
from experiments.case_study import CaseStudy

from bmcd.errors import FitWarning


@pytest.fixture(scope="session")
def page(tmp_path_factory):
    """All three data sets, a small part of each."""
    folder = tmp_path_factory.mktemp("case-study")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # on so few clicks the largest number of tastes may be the best
        return CaseStudy(quick=True).reproduce(folder, n_workers=1, progress=False)


@pytest.fixture(scope="session")
def data_sets(page):
    """What the page was made from, by data set: everything is done, so this only reads."""
    study = CaseStudy(quick=True)
    by_task = study.run(page.parent / "results", n_workers=1, progress=False)
    return {results.name: results for results in study.data_sets(by_task)}
