"""Model cards: data, intended use, calibration and limits of a model."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import Any

from bmcd import __version__
from bmcd.blend.blend import Blend
from bmcd.clicks.times import as_text
from bmcd.files import json_ready
from bmcd.markup import short_title
from bmcd.models.persistence import Model, sampled_models
from bmcd.reporting.page import environment
from bmcd.utils import plain, versions

PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "scikit-learn")
USES = (
    "To recommend items to users from their clicks, each with the probability of being among their next clicks.",
    "To trade diversity, exposure and cut-offs against expected hits, which needs calibrated probabilities.",
)
NOT_FOR = (
    "Not for decisions about people, such as credit, work or prices: the model uses clicks only.",
    "Not as evidence that users like, need or agree with what they click: the model predicts clicks.",
    "Clicks caused by recommendations count like any other: items that are shown often are clicked more often.",
)
PLAIN = re.compile(r"([\\`*_{}\[\]<>()#+!|~-])")


@dataclass(frozen=True)
class Part:
    """A section of a card: paragraphs, then points, then a table whose first row has the headings."""

    title: str
    texts: tuple[str, ...] = ()
    points: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Card:
    """A model card, for `markdown_card`, `html_card` and JSON."""

    title: str
    parts: tuple[Part, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, ready for JSON."""
        found: dict[str, Any] = json_ready(self)
        return found


def make_card(model: Model, file_hash: str = "") -> Card:
    """Return the card of a fitted model; ``file_hash`` is the SHA-256 of its file."""
    uses = Part("Intended use", points=(*USES, *NOT_FOR))
    about = [_what(model), uses, _data(model), _members(model), _calibration(model)]
    parts = (*about, *_groups(model), _limits(model), _versions(file_hash))
    return Card(f"Model card: {type(model).__name__}", parts)


def markdown_card(model: Model, file_hash: str = "") -> str:
    """Return the card as Markdown, in which no name of an item or group can be markup."""
    card = make_card(model, file_hash)
    lines = [f"# {_escaped(card.title)}"]
    for part in card.parts:
        lines += ["", f"## {_escaped(part.title)}"]
        for text in part.texts:
            lines += ["", _escaped(text)]
        if part.points:
            lines += ["", *(f"* {_escaped(point)}" for point in part.points)]
        if part.rows:
            head, *rows = part.rows
            lines += ["", _row(head), "|" + " --- |" * len(head), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def html_card(model: Model, file_hash: str = "", stylesheet: str = "") -> str:
    """Return the card as one HTML page, with its own style unless another style sheet is given."""
    card = make_card(model, file_hash)
    page: str = environment().get_template("card.html").render(card=card, stylesheet=stylesheet)
    return page


def _what(model: Model) -> Part:
    text = str(model).split(", fitted to ")[0]
    meaning = (
        "The probability of an item is that of being among a user's next k clicks."
        if isinstance(model, Blend)
        else "The probability of an item is that of being among a user's next k clicks under the model's ranking. "
        "On later clicks it is calibrated only as part of a Blend."
    )
    as_of = getattr(model, "as_of_", None)
    rows = [("", ""), ("kind", type(model).__name__), ("settings", text)]
    rows += [("recommendations are as of", as_text(as_of))] if as_of is not None else []
    return Part("The model", (meaning,), rows=tuple(rows))


def _data(model: Model) -> Part:
    clicks = model.clicks_
    if not clicks.n_users:
        text = "The file holds no users and no clicks: it was saved without them."
        return Part("Data", (text,), rows=(("", ""), ("items", f"{clicks.n_items:,}")))
    found = clicks.summary()
    order = {"time": "by time", "rows": "by the order of the rows", None: "none"}[clicks.order]
    rows = [
        ("", ""), ("users", f"{found.n_users:,}"), ("items", f"{found.n_items:,}"),
        ("clicks on different items", f"{found.n_clicks:,}"), ("order of the clicks", order),
    ]  # fmt: skip
    if clicks.has_clock and found.times is not None:
        rows.append(("first and last click", " to ".join(str(time)[:19] for time in found.times)))
    if clicks.order is not None:
        rows.append(("sessions", f"{found.n_sessions:,}"))
    low, median, high = found.clicks_per_user
    rows.append(("clicks per user", f"{low:,} to {high:,}, median {median:g}"))
    rows.append(("SHA-256 of the clicks", clicks.fingerprint()))
    return Part("Data", points=tuple(plain(step) for step in found.history), rows=tuple(rows))


def _members(model: Model) -> Part:
    if isinstance(model, Blend):
        gains = {row["member"]: row for row in model.gains_.to_dict("records")}
        shares = model.shares() if model.clicks_.n_users else {}
        rows = [("member", "gain in nats", "standard error", "share of what distinguishes items")]
        for name in dict.fromkeys([*model.members_, *gains]):
            row = gains.get(name)
            gained = ("", "") if row is None else (f"{row['gain']:.4f}", f"{row['standard_error']:.4f}")
            used = f"{shares[name]:.0%}" if name in shares else "" if name in model.members_ else "left out"
            rows.append((name, *gained, used))
        return Part("Members and weights", rows=tuple(rows))
    sampled: list[tuple[str, ...]] = [("", "")]
    for name, part in sampled_models(model).items():
        sampled.append((f"{name}: chains", str(part.draws_.n_chains)))
        sampled.append((f"{name}: draws of each", str(part.draws_.n_draws)))
    return Part("Sampling", rows=tuple(sampled))


def _calibration(model: Model) -> Part:
    verdict = model.verdict_
    rows: list[tuple[str, ...]] = []
    if isinstance(model, Blend) and len(model.windows_):
        rows = [("past window", "moments", "predicted", "observed")]
        rows += [
            (str(one["label"]), f"{one['n']:,}", f"{one['predicted']:.1%}", f"{one['observed']:.1%}")
            for one in model.windows_.to_dict("records")
        ]
    text = str(verdict.text)
    if rows:
        text += " Each window was predicted by members and weights from before it."
    return Part("Calibration and back-test", (text, *map(str, verdict.advice)), rows=tuple(rows))


def _groups(model: Model) -> list[Part]:
    found = model.clicks_.items_table
    if found is None or not found.groups:
        return []
    rows = [("column", "groups", "items without one", "largest groups, by items")]
    for name, groups in found.groups.items():
        sizes = groups.matrix.sum(axis=0)
        order = sorted(range(len(sizes)), key=lambda g: -sizes[g])[:6]
        largest = ", ".join(f"{short_title(groups.names[g])} {int(sizes[g]):,}" for g in order)
        n_without = int((groups.matrix.sum(axis=1) == 0).sum())
        rows.append((short_title(name), f"{len(groups.names):,}", f"{n_without:,}", largest))
    return [Part("Groups of items", rows=tuple(rows))]


def _limits(model: Model) -> Part:
    clicks = model.clicks_
    points = [
        "Items without clicks at the time of the fit are not part of the model; neither are clicks on them.",
        "Probabilities hold for users like those of the fit, as long as their behaviour does not change.",
    ]
    if clicks.order is None:
        points.append(
            "The log had no order: the model does not describe later clicks; calibration refers to random clicks."
        )
    elif not clicks.has_clock:
        points.append("The log had no clock: the model does not describe how fast popularity changes.")
    few = int((clicks.per_item < 5).sum()) if clicks.n_users else 0
    if few:
        points.append(f"{few:,} items were clicked by fewer than five users: their probabilities are uncertain.")
    if clicks.n_users:
        points.append("The file holds the clicks of every user: it is personal data if the ids are.")
    return Part("Limits", points=tuple(points))


def _versions(file_hash: str) -> Part:
    rows = [("", ""), ("bmcd", __version__), ("Python", platform.python_version()), *versions(PACKAGES).items()]
    rows += [("SHA-256 of the file", file_hash)] if file_hash else []
    return Part("Versions and hashes", ("The versions that wrote this card.",), rows=tuple(rows))


def _escaped(text: str) -> str:
    return PLAIN.sub(r"\\\1", plain(text))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_escaped(cell) for cell in cells) + " |"
