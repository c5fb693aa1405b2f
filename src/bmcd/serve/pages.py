"""The pages for people: the one for editors, and the one about the addresses that machines ask."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import APIRouter
from starlette.responses import Response

from bmcd.serve.problems import Problem

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
# A file that is listed here can be had; nothing else can.
FILES = (
    *("page.css", "icon.svg", "page.js", "docs.js", "elements.js", "service.js", "person.js", "picker.js"),
    *("rows.js", "why.js", "about.js", "link.js", "csv.js", "groups.js", "live.js"),
)


def page_router() -> APIRouter:
    """Return the routes of the pages and of the files they need."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def page() -> Response:
        return _file("page.html")

    @routes.get("/docs")
    async def docs() -> Response:
        return _file("docs.html")

    @routes.get("/page/{name}")
    async def file(name: str) -> Response:
        if name not in FILES:
            raise Problem(404, "There is no such file.")
        return _file(name)

    return routes


def _file(name: str) -> Response:
    kind = TYPES[name[name.rindex(".") :]]
    return Response(_content(name), media_type=kind, headers={"cache-control": "no-cache"})


@cache
def _content(name: str) -> bytes:
    return (files("bmcd.serve") / "page" / name).read_bytes()
