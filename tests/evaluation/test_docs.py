import doctest
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_the_example_of_the_docs_runs():
    file = Path(__file__).parents[2] / "docs" / "evaluation.md"
    result = doctest.testfile(str(file), module_relative=False, raise_on_error=True)
    assert result.attempted >= 10
