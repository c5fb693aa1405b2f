"""The commands of bmcd with every option, from the commands themselves: the page cannot say anything else.

``<!-- every command -->`` in a page is replaced by a section for each command.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from markdown_text import in_a_cell, markdown
from sphinx.application import Sphinx
from typer.main import get_command

PAGE = re.compile(r"\bdocs/(\w+)\.md\b")
PLACE = "<!-- every command -->"


def default_of(option: Any) -> str:
    """Return the default of an option as a cell of the table."""
    if option.required:
        return "required"
    value = option.default() if callable(option.default) else option.default
    if value is None or value is False or value == () or value == []:
        return ""
    return f"`{value.value if isinstance(value, Enum) else value}`"


def names_of(parameter: Any) -> str:
    """Return how an option or an argument is written."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def section(name: str, command: Any) -> str:
    """Return the section of one command: what it does, an example, its arguments and options."""
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    rows = [
        f"| {names_of(parameter)} | {in_a_cell(parameter.help or '')} | {default_of(parameter)} |"
        for parameter in shown
    ]
    paragraphs = [
        f"### bmcd {name}",
        PAGE.sub(r"[docs/\1.md](\1.md)", markdown(command.help or "")),
        f"```console\n$ {(command.epilog or '').removeprefix('Example: ')}\n```",
        "\n".join(["| | | default |", "|---|---|---|", *rows]),
    ]
    return "\n\n".join(paragraphs)


def every_command() -> str:
    """Return the sections of all commands, in the order of `bmcd --help`."""
    from bmcd.cli import app

    return "\n\n".join(section(name, command) for name, command in get_command(app).commands.items())  # type: ignore[attr-defined]


def fill_in(app: Sphinx, name: str, source: list[str]) -> None:
    """Put the commands into the page that asks for them."""
    if PLACE in source[0]:
        app.env.note_reread()
        source[0] = source[0].replace(PLACE, every_command())


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill in a page when it is read."""
    app.connect("source-read", fill_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
