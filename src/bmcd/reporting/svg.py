"""Figures as SVG inside the page: small, the same bytes every time, and with texts to point at."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from bmcd.markup import Html
from bmcd.plots import Figure
from bmcd.utils import plain

_NAMESPACE = re.compile(r"^\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
# The page sets the font family. Some versions of matplotlib write it together with the size, some apart from it.
_FONT = re.compile(r"font: (?:(?:bold|\d{3}) )?(?P<size>[\d.]+px) [^;]*|; font-family: [^;]*|font-family: [^;]*; ")
_LONG_NUMBER = re.compile(r"(\d\.\d{2})\d+")
_SPACES = re.compile(r"\s+")


def inline_svg(figure: Figure, name: str, label: str) -> Html:
    """Return a figure as an SVG element; ``label`` tells what it shows to readers who cannot see it.

    Text stays text, in the font of the page. All ids begin with ``name``, which must be unique in the page. The
    texts to point at (`Figure.tips`) are in data-tip, and in titles for browsers without scripts.
    """
    root = ElementTree.fromstring(figure.page_svg())
    used: set[str] = set()
    for part in root.iter():
        for child in list(part):
            # Metadata name other sites; a style would hold for the whole page, and report.css has it already.
            if _NAMESPACE.sub("", str(child.tag)) in ("metadata", "style"):
                part.remove(child)
        part.tag = _NAMESPACE.sub("", str(part.tag))
        part.attrib = {_NAMESPACE.sub("", key): value for key, value in part.attrib.items()}
        for value in part.attrib.values():
            used.update(_REFERENCE.findall(value))
        if part.get("href", "").startswith("#"):
            used.add(part.attrib["href"][1:])
    for part in root.iter():
        part_id = part.attrib.pop("id", None)
        part.attrib = {key: _attribute(key, value, name) for key, value in part.attrib.items()}
        part.tail = None
        if part.tag not in ("text", "tspan", "title"):
            part.text = None
        if part_id in used:
            part.set("id", f"{name}-{part_id}")
    for tip in figure.tips:
        left, top, width, height = (f"{value:.1f}" for value in tip.box())
        box = {"x": left, "y": top, "width": width, "height": height, "data-tip": plain(tip.text)}
        ElementTree.SubElement(ElementTree.SubElement(root, "rect", box), "title").text = plain(tip.text)
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.attrib |= {"role": "img", "aria-label": label, "tabindex": "0", "class": "plot"}
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _attribute(key: str, value: str, name: str) -> str:
    if key == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    value = _REFERENCE.sub(rf"url(#{name}-\1)", value)
    if key == "style":
        return _FONT.sub(lambda font: f"font-size: {font['size']}" if font["size"] else "", value)
    if key in ("d", "x", "y", "transform", "points"):
        return _SPACES.sub(" ", _LONG_NUMBER.sub(r"\1", value)).strip()
    return value
