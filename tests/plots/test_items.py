import numpy as np
import pytest

from bmcd import plots
from bmcd.evaluation import ItemCounts


@pytest.fixture(scope="module")
def counts():
    """Four items, recommended by two methods; one item is popular."""
    items, clicks = np.array(list("abcd")), np.array([1, 2, 5, 9])
    return {
        "BMCD": ItemCounts(items, clicks, np.array([0, 3, 4, 8]), np.array([0, 1, 0, 6]), n_popular=1),
        "EASE": ItemCounts(items, clicks, np.array([0, 0, 0, 15]), np.array([0, 0, 0, 2]), n_popular=1),
    }


def test_exposure_has_a_panel_for_each_method_on_one_scale(counts, lines_labelled):
    figure = plots.exposure(counts, titles={"d": "$x^2$ <b>"})
    assert [ax.get_title("left") for ax in figure.axes] == ["BMCD: 3 of 4 items", "EASE: 1 of 4 items"]
    for ax, expected in zip(figure.axes, counts.values(), strict=True):
        light, dark = ax.patches[:2]
        assert light.get_data().values.tolist() == expected.recommended.tolist()
        assert dark.get_data().values.tolist() == expected.hits.tolist()
        assert lines_labelled(ax, "rare | popular")[0].get_xdata() == [3, 3]
        assert ax.get_ylim()[1] >= 15
        assert ax.get_yscale() == "function"
    assert plots.exposure(counts, most=100).axes[0].get_ylim()[1] >= 100
    assert len(plots.exposure(counts, hits=False).axes[0].patches) == len(figure.axes[0].patches) - 1


def test_titles_of_items_are_told_but_not_drawn(counts):
    figure = plots.exposure(counts, titles={"d": "$x^2$ <b>"})
    assert figure.tips[3].text == "BMCD, $x^2$ <b> (9 clicks): recommended 8 times, 6 hits"
    assert figure.tips[2].text == "BMCD, item c (5 clicks): recommended 4 times, 0 hits"
    texts = [text.get_text() for text in figure.findobj(lambda part: hasattr(part, "get_text"))]
    assert not [text for text in texts if "x^2" in text]


def test_many_items_share_places_to_point_at():
    n = 130
    counts = ItemCounts(np.arange(n), np.arange(n), np.ones(n, int), np.zeros(n, int), n_popular=26)
    figure = plots.exposure(counts)
    assert figure.tips[0].text == "BMCD, items 1 to 3 (0 to 2 clicks): recommended 3 times, 0 hits"
    assert figure.tips[-1].text == "BMCD, item 129 (129 clicks): recommended 1 times, 0 hits"
    assert sum(int(tip.text.split("recommended ")[1].split()[0]) for tip in figure.tips) == n


def test_item_popularity_is_sorted_and_parted():
    figure = plots.item_popularity({"one": [5, 1, 3], "two": [2, 2, 9]}, n_popular=1)
    assert [[patch.get_data().values.tolist() for patch in ax.patches[:2]] for ax in figure.axes] == [
        [[1, 3], [5]],
        [[2, 2], [9]],
    ]
    assert [ax.get_title("left") for ax in figure.axes] == ["one", "two"]
    assert plots.item_popularity([4, 2], n_popular=2).axes[0].patches[0].get_data().values.tolist() == [2, 4]
    with pytest.raises(ValueError, match="1 to 2"):
        plots.item_popularity([4, 2], n_popular=3)


def test_what_has_no_counts_is_refused():
    with pytest.raises(ValueError, match="nothing to draw"):
        plots.exposure({})
    with pytest.raises(TypeError, match="BMCD must be ItemCounts, not int"):
        plots.exposure(3)
