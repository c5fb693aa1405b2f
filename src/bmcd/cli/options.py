"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon", min=1, help="The number of next clicks that a probability refers to. By default that of -k."
    ),
]
