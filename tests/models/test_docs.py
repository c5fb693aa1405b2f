import doctest
from pathlib import Path

import pytest


@pytest.mark.parametrize(("page", "n"), [("tastes.md", 6), ("blend.md", 25)])
def test_the_examples_of_the_docs_run(page, n):
    file = Path(__file__).parents[2] / "docs" / page
    result = doctest.testfile(str(file), module_relative=False, raise_on_error=True)
    assert result.attempted == n
