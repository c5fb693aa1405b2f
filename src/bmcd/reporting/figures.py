"""The figures of a report, drawn by `bmcd.plots`, as SVG inside the page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from bmcd import plots
from bmcd.inference.draws import match_clusters
from bmcd.markup import Html, short_title
from bmcd.models.tastes import Tastes
from bmcd.plots import Figure
from bmcd.reporting.context import Context, ContextForK
from bmcd.reporting.wording import cluster_name, group_word
from bmcd.utils import plain

MOST_TRACES = 8
# The measures that have a figure, and its caption.
MEASURES = {
    "accuracy": "Accuracy: the share of recommendations that were hits. More is better.",
    "coverage": "Coverage: the share of items that are recommended to anyone. More is more diverse.",
    "rare_share": "Rare items: the share of recommendations outside the most clicked items. More is more diverse.",
    "novelty": "Novelty: how rarely the recommended items are clicked, in bits. More is more diverse.",
    "intra_list_similarity": "Similarity of the items in a list. Less is more diverse.",
}
_NAMESPACE = re.compile(r"^\{[^}]*\}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
# The page sets the font family. Some versions of matplotlib write it together with the size, some apart from it.
_FONT = re.compile(r"font: (?:(?:bold|\d{3}) )?(?P<size>[\d.]+px) [^;]*|; font-family: [^;]*|font-family: [^;]*; ")
_LONG_NUMBER = re.compile(r"(\d\.\d{2})\d+")
_SPACES = re.compile(r"\s+")


class Drawn(NamedTuple):
    """A figure in the page."""

    svg: Html
    caption: str


def draw_figures(context: Context, show_share: Callable[[float], None] = lambda share: None) -> dict[str, Drawn]:
    """Return all figures of a report by name; ``show_share`` is called with the share that is done."""
    drawn, n_steps = {}, len(context.by_k) + 1
    for n_done, found in enumerate([_of_all(context), *(_of_k(context, for_k) for for_k in context.by_k)], start=1):
        for name, figure, caption in found:
            drawn[name] = Drawn(inline_svg(figure, name, caption), caption)
        show_share(n_done / n_steps)
    return drawn


def _of_k(context: Context, for_k: ContextForK) -> Iterator[tuple[str, Figure, str]]:
    """Yield name, figure and caption of the figures for one k."""
    k, by_method = for_k.k, for_k.items_by_method
    if for_k.comparison is not None:
        caption = (
            f"Each point: recommendations with about the same probability (k = {k}). On the dashed line the hit "
            "rate is as predicted; above it, higher. Below: the number of recommendations."
        )
        yield (
            f"calibration-{k}",
            plots.calibration({for_k.name: for_k.bins}, rivals=for_k.baseline_accuracies),
            caption,
        )
        if for_k.cutoffs:
            caption = (
                "The higher the least probability that is recommended, the higher the hit rate and the fewer the "
                f"recommendations kept (k = {k}; the band is the 95 % interval)."
            )
            figure = plots.cutoff_curve({for_k.name: for_k.calibration}, rivals=for_k.baseline_accuracies)
            yield f"cutoff-{k}", figure, caption
        for measure, caption in MEASURES.items():
            yield f"compare-{measure}-{k}".replace("_", "-"), plots.comparison(for_k.tested, [measure]), caption
    titles = {item: short_title(context.items[column].title) for item, column in context.column_of.items()}
    is_tested = context.test is not None
    most = max(1, *(int(counts.recommended.max()) for counts in by_method.values()))
    for number, (name, counts) in enumerate(by_method.items()):
        figure = plots.exposure({name: counts}, titles=titles, hits=is_tested)
        figure.axes[0].set_ylim(0, 1.05 * most)  # all methods on one scale
        hits = " and hit (dark)" if is_tested else ""
        yield f"exposure-{number}-{k}", figure, f"{name}: how often each item is recommended (light){hits}."


def _of_all(context: Context) -> Iterator[tuple[str, Figure, str]]:
    """Yield name, figure and caption of the figures that do not depend on k."""
    windows = context.windows
    if windows is not None:
        caption = "Predicted and observed hits of the next click in past windows, with 95 % intervals."
        yield "windows", plots.past_windows(windows), caption
    if context.grouping is not None:
        clusters = context.grouping.clusters_
        names = [cluster_name(context, cluster) for cluster in clusters]
        sizes = [cluster.n_users for cluster in clusters]
        figure = plots.cluster_sizes(sizes, [cluster.n_users_interval for cluster in clusters], names=names)
        yield "sizes", figure, f"Users in each {group_word(context)}, with the range of 90 % of the draws."
    popular = f"the last {context.n_popular:,} are called popular"
    caption = f"Clicks on each item, from the least to the most clicked; {popular}."
    yield "popularity", plots.item_popularity(context.clicks.per_item, context.n_popular), caption
    for number, model in enumerate(context.sampled.values()):
        if not isinstance(model, Tastes):
            alpha = match_clusters(model.draws_).sort(model.draws_.alpha)[:, :, :MOST_TRACES]
            figure = plots.alpha_traces(alpha, clusters=[f"group {c + 1}" for c in range(alpha.shape[2])])
            yield f"traces-{number}", figure, "The scale alpha of each group, draw by draw; one line per chain."


def inline_svg(figure: Figure, name: str, label: str) -> Html:
    """Return a figure as an SVG element; ``label`` describes it to readers who cannot see it.

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
