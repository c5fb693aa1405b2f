"""Examples in the description of the routes, with real items of the model in use: they work as they are."""

from __future__ import annotations

import copy
from typing import Any

from bmcd.serve.served_model import ServedModel


def with_examples(description: dict[str, Any], model: ServedModel) -> dict[str, Any]:
    """Return the OpenAPI description with an example for every route that takes something."""
    filled = copy.deepcopy(description)
    *clicked, other = model.example_items()
    user = model.example_user()
    rows = [["ann", item] for item in clicked]
    bodies = {
        "/v1/recommend": {"people": [{"id": "ann", "clicked": clicked}, {"clicked": []}], "k": 5},
        "/v1/explain": {"clicked": clicked, "item": other, "k": 5},
        "/invocations": {"dataframe_split": {"columns": ["user", "item"], "data": rows}, "params": {"k": 5}},
    }
    if "/v1/clicks" in filled["paths"]:
        bodies["/v1/clicks"] = {"clicks": [{"user": "ann", "item": other, "event": "an-example"}]}
    for path, body in bodies.items():
        filled["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"] = body
    values = {"/v1/items": {"q": str(other), "limit": 5}}
    if "/v1/items/{item}/similar" in filled["paths"]:
        values["/v1/items/{item}/similar"] = {"item": str(other), "k": 5}
    if user is not None:
        values["/v1/users/{user}/recommendations"] = {"user": user, "k": 5}
    for path, given in values.items():
        for parameter in filled["paths"][path]["get"]["parameters"]:
            if parameter["name"] in given:
                parameter["example"] = given[parameter["name"]]
    return filled
