"""Errors as callers get them: problem+json (RFC 9457) that names field, value and remedy, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bmcd.errors import BmcdError
from bmcd.utils import shown

TITLES = {
    400: "Bad request",
    401: "Key wanted",
    403: "Not allowed",
    404: "Not there",
    405: "Method not allowed",
    408: "Request too slow",
    409: "The old model stays",
    411: "Length wanted",
    413: "Request too large",
    415: "JSON wanted",
    421: "Unknown host",
    422: "Cannot be answered",
    429: "Too many requests",
    431: "Head too large",
    500: "Error of the service",
    503: "Not ready",
    504: "Took too long",
    507: "Not recorded",
}
MOST_SHOWN = 20


class Problem(Exception):
    """What is wrong with a request, for whoever sent it."""

    def __init__(
        self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, errors: Sequence[Any] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers, self.errors = status, detail, dict(headers or {}), tuple(errors)

    def response(self) -> Response:
        """Return it as problem+json."""
        content: dict[str, Any] = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            content["errors"] = list(self.errors)
        return JsonAnswer(content, self.status, self.headers, "application/problem+json")


class JsonAnswer(Response):
    """A value as JSON in ASCII, so that no id, however odd, cannot be written; numbers keep their last digit."""

    def __init__(
        self,
        content: Any,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> None:
        body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
        super().__init__(body, status, headers, media_type)


def from_error(error: BmcdError) -> Problem:
    """Return the problem that an error of the package is: what was asked cannot be answered, and why."""
    text = str(error)
    return Problem(422, text[:1].upper() + text[1:])


def from_http(error: HTTPException) -> Problem:
    """Return the problem that an error of the framework is."""
    details = {
        404: "There is nothing at this address. See /docs for what there is.",
        405: "This address does not take this method. See /docs for those it takes.",
        400: "The body cannot be read as JSON: it must be UTF-8, complete, and not nested too deeply.",
    }
    return Problem(error.status_code, details.get(error.status_code, str(error.detail)), headers=error.headers)


def from_validation(error: RequestValidationError | ValidationError) -> Problem:
    """Return the problem with the fields of a request: each with its place, its value and what is wanted."""
    errors = error.errors()
    if errors[0]["type"] == "json_invalid":
        return Problem(400, f"The body is not JSON: {errors[0]['ctx']['error']}.")
    if isinstance(error, ValidationError):  # of a body
        errors = [{**one, "loc": ("body", *one["loc"])} for one in errors]
    found = [_field(one) for one in _distinct(errors)]
    more = f" There are {len(found) - 1} more." if len(found) > 1 else ""
    return Problem(422, f"{found[0]['field']}: {found[0]['wrong']}.{more}", errors=found[:MOST_SHOWN])


def _distinct(errors: Iterable[Any]) -> list[Any]:
    """Keep one error for each place: those of a union (text or whole number) come as several."""
    kept: dict[tuple[Any, ...], Any] = {}
    for error in errors:
        place = tuple(part for part in error["loc"] if part not in ("str", "int"))
        kept.setdefault(place, {**error, "loc": place, "union": False})["union"] |= place != tuple(error["loc"])
    return list(kept.values())


def _field(error: Mapping[str, Any]) -> dict[str, Any]:
    where, *path = error["loc"] or ("body",)
    name = ".".join(map(str, path)).replace(".[", "[") if path else str(where)
    wrong = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        wrong = "there is no such field; see /docs for those there are"
    elif error["type"] == "missing":
        return {"field": name[:200], "wrong": "is missing"}
    elif error["union"]:
        wrong = "an id must be text or a whole number" if "type" in error["type"] else wrong
    elif error["type"] == "too_many":  # the value is as long as it may not be
        return {"field": name[:200], "wrong": wrong}
    return {"field": name[:200], "value": shown(error.get("input")), "wrong": wrong[:1].lower() + wrong[1:]}
