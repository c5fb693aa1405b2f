"""The page a study leaves: a Markdown file made from a template, with its tables as csv and its figures as PNG."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from bmcd.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Any]

DPI = 110
# How a template says where a table and a figure stand, each in a paragraph of its own.
TABLE = re.compile(r"\*\*.+\*\* \(\[csv\]\((tables/(.+)\.csv)\)\)")
FIGURE = re.compile(r"!\[(.+)\]\((figures/(.+)\.png)\)")


class Contents(NamedTuple):
    """What a template's page is filled with, by name."""

    words: Mapping[str, Any]
    """For fields such as {version}: text, a number, a list of paragraphs, or an object with attributes."""
    tables: Mapping[str, Iterable[Row]]
    """Their rows, by column; the longest row has all columns. A table without rows is left out."""
    figures: Mapping[str, Figure]
    data_sets: Sequence[str] = ()
    """Consecutive paragraphs with {data_set} in them are repeated for each of these."""


def write_page(folder: Path, template: str, contents: Contents) -> Path:
    """Fill a template, write README.md, tables/ and figures/ into a folder, and return the path of README.md.

    Each file is whole or not there. Tables have up to four digits on the page and all of them in csv.

    >>> template = "# A study\\n\\n{note}\\n\\n**What was measured** ([csv](tables/numbers.csv))"
    >>> numbers = [{"name": "a", "value": 0.5}]
    >>> page = write_page(Path("study"), template, Contents({"note": "A number."}, {"numbers": numbers}, {}))
    >>> print(page.read_text())
    # A study
    <BLANKLINE>
    A number.
    <BLANKLINE>
    **What was measured** ([csv](tables/numbers.csv))
    <BLANKLINE>
    | name | value |
    |---|---|
    | a | 0.5 |
    <BLANKLINE>
    """
    paragraphs: list[str] = []
    files: dict[str, bytes] = {}
    words = {name: "\n\n".join(v) if isinstance(v, list) else v for name, v in contents.words.items()}
    for paragraph in _paragraphs(template, contents.data_sets):
        text = paragraph.format_map(words)
        if match := TABLE.fullmatch(paragraph):
            if rows := list(contents.tables[match[2]]):
                longest_row = max(rows, key=len)
                table = pd.DataFrame(rows, columns=list(longest_row))
                files[match[1]] = table.to_csv(index=False, lineterminator="\n").encode()
                paragraphs += [text, markdown_table(table)]
        elif match := FIGURE.fullmatch(paragraph):
            files[match[2]] = _png(contents.figures[match[3]])
            paragraphs += [text, f"*{match[1].format_map(words)}*"]
        elif text:
            paragraphs.append(text)
    files["README.md"] = ("\n\n".join(paragraphs) + "\n").encode()
    for path, content in files.items():
        write_file(folder / path, content)
    return folder / "README.md"


def _paragraphs(template: str, data_sets: Sequence[str]) -> Iterator[str]:
    """Yield the paragraphs of a template, with those that have {data_set} in them once for each data set.

    >>> list(_paragraphs("a\\n\\n{data_set}1\\n\\n{data_set}2", ["x", "y"]))
    ['a', 'x1', 'x2', 'y1', 'y2']
    """
    for repeated, group in groupby(template.strip().split("\n\n"), key=lambda text: "{data_set}" in text):
        paragraphs = list(group)
        for name in data_sets if repeated else [""]:
            yield from (text.replace("{data_set}", name) for text in paragraphs)


def _png(figure: Figure) -> bytes:
    picture = io.BytesIO()
    # No software version inside, so that the same numbers give the same bytes for longer.
    figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
    return picture.getvalue()


def markdown_table(table: pd.DataFrame) -> str:
    """Return a table as Markdown, with up to four digits."""
    lines = [_line(table.columns), "|" + "---|" * len(table.columns)]
    return "\n".join(lines + [_line(row) for row in table.itertuples(index=False)])


def _line(values: Iterable[object]) -> str:
    return "| " + " | ".join(map(_cell, values)) + " |"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def percent(value: float, digits: int = 2) -> str:
    """Return a share in percent, as in the paper's tables.

    >>> percent(0.27163)
    '27.16 %'
    """
    return f"{100 * value:.{digits}f} %"


def plus_minus(mean: float, sd: float, digits: int) -> str:
    """Return mean and standard deviation, as in the paper's tables.

    >>> plus_minus(14136.2, 148.93, 1)
    '14136.2 ± 148.9'
    """
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"
