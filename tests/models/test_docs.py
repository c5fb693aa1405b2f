import doctest
from pathlib import Path


def test_the_examples_of_the_docs_run():
    file = Path(__file__).parents[2] / "docs" / "tastes.md"
    result = doctest.testfile(str(file), module_relative=False, raise_on_error=True)
    assert result.attempted == 6
