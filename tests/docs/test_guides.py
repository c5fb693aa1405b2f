"""The examples of the guides that belong to no single room run, and print what the page says."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("page", "n"), [("reading_data.md", 9), ("tuning.md", 6)])
def test_the_examples_of_a_guide_run(page, n, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testfile(str(DOCS / page), module_relative=False, raise_on_error=True)
    assert result.attempted == n
