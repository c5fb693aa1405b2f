from xml.etree import ElementTree

from bmcd import plots
from bmcd.reporting.figures import inline_svg


def test_ids_begin_with_the_name_and_references_lead_to_them():
    root = ElementTree.fromstring(inline_svg(plots.item_popularity([5, 1, 3], 1), "clicks", "Clicks"))
    ids = {part.get("id") for part in root.iter() if part.get("id")}
    used = {part.get("href")[1:] for part in root.iter() if part.get("href")}
    assert ids
    assert all(name.startswith("clicks-") for name in ids)
    assert used <= ids


def test_tips_lie_over_the_figure_and_say_their_text():
    figure = plots.cluster_sizes([30.0, 20.0])
    root = ElementTree.fromstring(inline_svg(figure, "sizes", "Sizes"))
    rectangles = [part for part in root.iter("rect") if part.get("data-tip")]
    assert [part.get("data-tip") for part in rectangles] == [tip.text for tip in figure.tips]
    assert [part.find("title").text for part in rectangles] == [tip.text for tip in figure.tips]
    width, height = map(float, root.get("viewBox").split()[2:])
    for part in rectangles:
        left, top, across, down = (float(part.get(name)) for name in ("x", "y", "width", "height"))
        assert 0 <= left < left + across <= width
        assert 0 <= top < top + down <= height


def test_text_stays_text_in_the_font_of_the_page():
    svg = inline_svg(plots.cluster_sizes([3.0], names=["a & b"]), "sizes", "Sizes")
    assert "a &amp; b" in svg
    assert "font-family" not in svg
    assert "DejaVu" not in svg
