"""HTML pages by templates: everything that is put into one is escaped, so that no title can become markup."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

from bmcd.markup import short_title
from bmcd.utils import and_list, import_optional, plain

_SPACE_BEFORE_PERCENT = re.compile(r"(?<=\d) %")


@cache
def environment() -> Any:
    """Return the Jinja environment of the templates, or raise `MissingPackageError` without Jinja."""
    jinja2 = import_optional("jinja2", needed_by="an HTML page", extra="report")
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(file_text), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=_text, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    found.policies["json.dumps_kwargs"] = {"allow_nan": False}
    found.filters |= {
        "short": short_title,
        "and_list": and_list,
        "number": lambda value, digits=",": format(value, digits),
        "counted": counted,
        "percent": percent,
        "hundredths": hundredths,
        "in_100": in_100,
        "next_clicks": next_clicks,
    }
    return found


def file_text(name: str) -> str:
    """Return a template, a style sheet or a script."""
    return resources.files("bmcd.reporting").joinpath("templates", name).read_text(encoding="utf-8").strip()


def _text(value: Any) -> Any:
    """Return what is put into a page: markup as it is, nothing for None, all else as plain text, escaped later.

    A number and its percent sign stay on one line.
    """
    if value is None:
        return ""
    return value if hasattr(value, "__html__") else _SPACE_BEFORE_PERCENT.sub("\u00a0%", plain(value))


def hundredths(share: float) -> str:
    """Return a share in hundredths, with as many digits as a reader needs.

    >>> hundredths(0.2345), hundredths(0.0234), hundredths(0.0), hundredths(0.00001), hundredths(0.999)
    ('23', '2.3', '0', 'under 0.1', '99.9')
    """
    number = 100 * share
    if 0 < number < 0.05:
        return "under 0.1"
    return f"{number:.1f}" if 0 < number < 9.95 or 99.05 <= number < 99.95 else f"{number:.0f}"


def percent(share: float) -> str:
    """Return a share in percent.

    >>> percent(0.2345)
    '23 %'
    """
    return f"{hundredths(share)} %"


def in_100(share: float) -> str:
    """Return a share as a number in 100.

    >>> in_100(0.2345), in_100(0)
    ('23 in 100', 'none')
    """
    return "none" if share == 0 else f"{hundredths(share)} in 100"


def counted(n: int, word: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "click"), counted(2000, "click")
    ('1 click', '2,000 clicks')
    """
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"


def next_clicks(k: int) -> str:
    """Return what a probability refers to.

    >>> next_clicks(1), next_clicks(3)
    ('next click', 'next 3 clicks')
    """
    return "next click" if k == 1 else f"next {k:,} clicks"
