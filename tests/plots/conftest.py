import pytest


@pytest.fixture
def lines_labelled():
    """Find the lines of a panel by the label that the legend gives them."""

    def find(ax, label):
        return [line for line in ax.get_lines() if line.get_label() == label]

    return find
