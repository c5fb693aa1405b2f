"""MLflow's form of a request, so that clients of its scoring server fit: rows of clicks in, rows of items out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from bmcd.serve.messages import Invocation, Recommend
from bmcd.serve.problems import Problem
from bmcd.serve.settings import Limits
from bmcd.utils import shown

FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")
MORE = ("k", "horizon", "min_probability", "items", "exclude", "only", "never", "rules")


def people_of(body: Invocation, limits: Limits) -> tuple[Recommend, bool]:
    """Return the people of rows with the columns user and item, and whether the rows have a user.

    Rows without a user are clicks of one person. A row without an item is somebody who has clicked nothing yet.
    """
    given = [name for name in FORMS if getattr(body, name) is not None]
    if len(given) != 1:
        raise Problem(422, f"Give the clicks in one of {', '.join(FORMS)}; {len(given)} were given.")
    if strange := [name for name in body.params if name not in MORE]:
        raise Problem(422, f"params: there is no {shown(strange[0])}; there are {', '.join(MORE)}.")
    users, items = _columns(given[0], getattr(body, given[0]))
    clicked: dict[Any, list[Any]] = {}
    for row, (user, item) in enumerate(zip(users or [None] * len(items), items, strict=True)):
        for name, value in (("user", user), ("item", item)):
            if value is not None and (not isinstance(value, str | int) or isinstance(value, bool)):
                raise Problem(
                    422, f"{given[0]}, row {row}: the {name} must be text or a whole number: {shown(value)}."
                )
        clicked.setdefault(user, []).extend([] if item is None else [item])
    people = [{"id": user, "clicked": own} for user, own in clicked.items()]
    return Recommend.model_validate({"people": people, **body.params}, context=limits), users is not None


def answer_rows(answer: dict[str, Any], named: bool) -> dict[str, Any]:
    """Return recommendations as MLflow's scoring server would: a list of rows."""
    rows = [
        ({"user": person["id"]} if named else {}) | recommendation
        for person in answer["people"]
        for recommendation in person["recommendations"]
    ]
    return {"predictions": rows, "model": answer["model"]}


def _columns(form: str, rows: Any) -> tuple[list[Any] | None, list[Any]]:
    """Return the columns user, if it is there, and item."""
    if form == "dataframe_split":
        columns, data = rows.get("columns"), rows.get("data")
        if not isinstance(columns, list) or not isinstance(data, list) or set(rows) - {"columns", "data", "index"}:
            raise Problem(422, 'dataframe_split wants {"columns": [...], "data": [[...], ...]}.')
        if bad := [row for row in data if not isinstance(row, list) or len(row) != len(columns)]:
            raise Problem(422, f"dataframe_split: a row has not {len(columns)} values: {shown(bad[0])}.")
        rows = {name: [row[place] for row in data] for place, name in enumerate(columns) if isinstance(name, str)}
    if isinstance(rows, Mapping):
        return _two(form, rows, sorted(rows))
    names = sorted(set(chain.from_iterable(rows)))
    return _two(form, {name: [row.get(name) for row in rows] for name in names}, names)


def _two(form: str, columns: Mapping[str, list[Any]], names: Sequence[str]) -> tuple[list[Any] | None, list[Any]]:
    if "item" not in columns or set(columns) - {"user", "item"}:
        raise Problem(
            422, f"{form}: the columns must be item and, if there are several people, user: {shown(names)}."
        )
    users, items = columns.get("user"), columns["item"]
    if users is not None and len(users) != len(items):
        raise Problem(422, f"{form}: there are {len(users)} users but {len(items)} items. Give one for each click.")
    return users, items
