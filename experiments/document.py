"""The page a study leaves: words, tables and figures in one Markdown file, with each table as csv as well."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bmcd.system.files import write_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DPI = 110


class Document:
    """Collects words, tables and figures, and writes them into a folder.

    >>> import pandas as pd
    >>> page = Document("A study")
    >>> page.text("Two numbers.")
    >>> page.table("numbers", "What was measured", pd.DataFrame({"name": ["a"], "value": [0.5]}))
    >>> print(page.write(Path("study")).read_text())
    # A study
    <BLANKLINE>
    Two numbers.
    <BLANKLINE>
    **What was measured** ([csv](tables/numbers.csv))
    <BLANKLINE>
    | name | value |
    |---|---|
    | a | 0.5 |
    <BLANKLINE>
    """

    def __init__(self, title: str) -> None:
        self._parts = [f"# {title}"]
        self._files: dict[str, bytes] = {}

    def heading(self, text: str) -> None:
        """Begin a section."""
        self._parts.append(f"## {text}")

    def text(self, *paragraphs: str) -> None:
        """Add paragraphs, as Markdown."""
        self._parts.extend(paragraphs)

    def table(self, name: str, caption: str, frame: pd.DataFrame) -> None:
        """Add a table: its cells as they are, numbers with up to four digits on the page and all of them in csv."""
        self._add_file(f"tables/{name}.csv", frame.to_csv(index=False, lineterminator="\n").encode())
        rows = [[_cell(value) for value in row] for row in frame.itertuples(index=False)]
        lines = [_line(map(_cell, frame.columns)), "|" + "---|" * len(frame.columns), *map(_line, rows)]
        self._parts.append(f"**{caption}** ([csv](tables/{name}.csv))")
        self._parts.append("\n".join(lines))

    def figure(self, name: str, caption: str, figure: Figure) -> None:
        """Add a figure, as PNG."""
        picture = io.BytesIO()
        # No software version inside, so that the same numbers give the same bytes for longer.
        figure.savefig(picture, format="png", dpi=DPI, metadata={"Software": None})
        self._add_file(f"figures/{name}.png", picture.getvalue())
        self._parts.append(f"![{caption}](figures/{name}.png)\n\n*{caption}*")

    def write(self, folder: Path, name: str = "README.md") -> Path:
        """Write the page and its files, each whole or not at all, and return the page's path."""
        page = "\n\n".join(self._parts) + "\n"
        for path, content in {**self._files, name: page.encode()}.items():
            write_file(folder / path, content)
        return folder / name

    def _add_file(self, path: str, content: bytes) -> None:
        if path in self._files:
            raise ValueError(f"there are two of {path}.")
        self._files[path] = content


def _line(cells: Any) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def percent(value: float, digits: int = 2) -> str:
    """As in the paper's tables.

    >>> percent(0.27163)
    '27.16 %'
    """
    return f"{100 * value:.{digits}f} %"


def plus_minus(mean: float, sd: float, digits: int) -> str:
    """Mean and standard deviation, as in the paper's tables.

    >>> plus_minus(14136.2, 148.93, 1)
    '14136.2 ± 148.9'
    """
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"
