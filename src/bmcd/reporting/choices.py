"""What a report is about: which clicks and users, which k, which groups, which baselines, which example users."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bmcd.blend.blend import Blend
from bmcd.clicks.histories import clicks_of_histories
from bmcd.clicks.log import Clicks
from bmcd.errors import InputError, InputTypeError
from bmcd.evaluation.compare import check_fitted_to
from bmcd.inference.draws import MaxDraws
from bmcd.models.base import ProbabilityModel
from bmcd.models.bmcd import BMCD
from bmcd.models.persistence import Model, sampled_models
from bmcd.models.tastes import Tastes
from bmcd.models.top_k import Lists, check_k, read_truth

# The numbers of recommendations that are reported by default.
DEFAULT_K = (5, 10)
# EASE needs an array of items x items: it is a default baseline up to this number of items.
MOST_FOR_EASE = 6_000
N_EXAMPLES = 12
# Examples are chosen among this number of users, with this number of draws: memberships need not be exact.
N_CANDIDATES, CANDIDATE_DRAWS = 240, 8
# The users shown of a cluster, as quantiles of their mean probability: a high one, a low one, the middle, ...
QUANTILES = (0.9, 0.1, 0.5, 1.0, 0.0, 0.7, 0.3)


def check_clicks(model: Model, train: Clicks | None, test: Clicks | None) -> Clicks:
    """Return the clicks to report on, or raise an error."""
    if not isinstance(model, ProbabilityModel):
        raise InputTypeError(
            f"a report is about BMCD, Tastes or Blend, not {type(model).__name__}: pass it as a baseline (rivals=)."
        )
    for name, clicks, which in (("train", train, "it was fitted to"), ("test", test, "kept aside")):
        if clicks is not None and not isinstance(clicks, Clicks):
            raise InputTypeError(f"{name} must be the Clicks {which}, or None, not {type(clicks).__name__}.")
    known = model.check_fitted().clicks_
    if known.n_users == 0:
        raise InputError(
            "this model was saved without the clicks it was fitted to (clicks=False, or --no-clicks), so there "
            "are no users to report on. Save it with its clicks."
        )
    if known.n_users < 2:
        raise InputError("a report needs at least 2 users: intervals are over users.")
    if train is None:
        return known
    check_fitted_to("the model", model, train)
    return train  # it may have titles that the model was not fitted with


def check_people(people: Clicks) -> Clicks:
    """Return the users of the histories, if they are enough for a report."""
    if people.n_users < 2:
        raise InputError("a report needs at least 2 users: intervals are over users. Give more histories.")
    return people


def choose_grouping(model: Model, clusters: BMCD | Tastes | None, clicks: Clicks) -> BMCD | Tastes | None:
    """Return the model whose groups are shown."""
    if clusters is None:
        return next(iter(sampled_models(model).values()), None)
    if not isinstance(clusters, BMCD | Tastes):
        raise InputTypeError(f"clusters must be a fitted BMCD or Tastes, not {type(clusters).__name__}.")
    known = set(clicks.items.tolist())
    if strange := [item for item in clusters.check_fitted().clicks_.items.tolist() if item not in known]:
        raise InputError(
            f"clusters was fitted to {len(strange):,} items that the model does not have, such as {strange[0]!r}. "
            "Fit it to the same clicks, or to some of their items (most_clicked)."
        )
    return clusters


def parts_of(model: Model, clicks: Clicks) -> dict[str, Any]:
    """Return the models of a blend that can recommend alone: those fitted to all of the clicks."""
    if not isinstance(model, Blend):
        return {}
    whole = clicks.fingerprint()
    found = {name: getattr(part, "clicks_", None) for name, part in model.models_.items()}
    same = {name for name, own in found.items() if isinstance(own, Clicks) and own.fingerprint() == whole}
    return {name: part for name, part in model.models_.items() if name in same}


def default_baselines(clicks: Clicks) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the default baselines with their default settings, and those that cannot be run, with the reason."""
    from bmcd import baselines

    rivals: dict[str, Any] = {"Popularity": baselines.Popularity()}
    if clicks.order is None:
        rivals["ItemKNN"] = baselines.ItemKNN()
    else:
        rivals |= {"Transitions": baselines.Transitions(), "SessionKNN": baselines.SessionKNN()}
    missing = {}
    if clicks.n_items <= MOST_FOR_EASE:
        rivals["EASE"] = baselines.EASE()
    else:
        missing["EASE"] = f"it needs an array of items x items, and there are {clicks.n_items:,} items"
    if clicks.order is None and importlib.util.find_spec("implicit"):
        rivals["ALS"] = baselines.ALS()
    elif clicks.order is None:
        missing["ALS"] = 'the package implicit is not installed (pip install "bmcd[baselines]")'
    return rivals, missing


def choose_k(model: Model, people: Clicks, test: Clicks | None, k: int | Iterable[int] | None) -> list[int]:
    """Return the k to report, each once; by default 5 and 10, if there are enough items and next clicks.

    A model with a distance other than the footrule has probabilities only for the k that its fit counted.
    """
    clicks, options = people, {} if isinstance(model, Blend) else model.draws_.problem.options
    most = clicks.n_items - (0 if repeats_of(model) else int(clicks.per_user.min()))
    if most < 1:
        raise InputError("every user has clicked every item: there is nothing to recommend.")
    if k is None:
        only_counted = "count_k" in options and options["distance"] != "footrule"
        candidates = options["count_k"] if only_counted else DEFAULT_K
        n_next = _next_clicks(people, test, repeats_of(model))
        allowed = [number for number in candidates if number <= min(most, n_next or most)]
        if n_next is not None and not allowed and not only_counted:
            return [min(most, n_next)]
        if only_counted and not allowed:
            raise InputError(
                f"this model has counted probabilities for k = {', '.join(map(str, candidates)) or 'none'}, but at "
                f"most {most} items can be recommended. Fit again with a smaller count_k."
            )
        return sorted(set(allowed)) or [most]
    asked = [check_k(number) for number in (k if isinstance(k, Iterable) else [k])]
    if not asked:
        raise InputError("k is empty. Give at least one number, such as k=(5, 10).")
    if too_many := [number for number in asked if number > most]:
        raise InputError(
            f"k is {too_many[0]}, but no user has more than {most} items left to recommend "
            f"({clicks.n_items} items, less those clicked). Give a smaller k."
        )
    return list(dict.fromkeys(asked))


def repeats_of(model: Model) -> bool:
    """Return whether clicked items stay candidates."""
    return isinstance(model, Blend) and bool(model.repeats)


def _next_clicks(people: Clicks, test: Clicks | None, repeats: bool) -> int | None:
    """Return how many next clicks most users of the test have; None if it has no order."""
    if test is None or read_truth(test, people, 1, repeats=repeats, fewer=True).horizon is None:
        return None
    return max(1, int(np.median(test.per_user[test.per_user > 0])))


@dataclass(frozen=True, eq=False)
class ExampleUser:
    """One user of the clicks."""

    row: int
    user: Any
    """The id."""
    clicked: tuple[int, ...]
    """Columns of the items clicked."""
    memberships: tuple[tuple[int, float], ...]
    """Clusters (1 is the largest) with the probability of each, the most probable first; empty if unknown."""
    reasons: Mapping[int, str]
    """The reason for an item in words, by its column; only of a blend."""


def choose_example_users(
    model: Model,
    grouping: BMCD | Tastes | None,
    clicks: Clicks,
    lists: Sequence[Lists],
    users: Iterable[Any] | None,
) -> tuple[ExampleUser, ...]:
    """Return the users asked for; by default 12, spread over clusters and over their mean probabilities.

    The same model and clicks give the same users.
    """
    if users is None:
        rows = _spread_rows(grouping, clicks, lists[0])
    else:
        wanted = clicks.rows_of(
            users, "Show users of the report: those of the histories, or those that the model was fitted to."
        )
        rows = list(dict.fromkeys(wanted.tolist()))
        if not rows:
            raise InputError("users is empty. Leave it out to have examples chosen, or name at least one.")
    weights = _memberships(grouping, clicks, rows, "auto")
    examples = []
    for place, row in enumerate(rows):
        by_cluster = enumerate([] if weights is None else weights[place].tolist(), start=1)
        belongs = tuple(sorted(by_cluster, key=lambda pair: -pair[1]))
        clicked = _clicked(clicks, row)
        shown = dict.fromkeys(item for of_k in lists for item in of_k.items[row].tolist() if item >= 0)
        why = _reasons(model, clicks, row, list(shown))
        examples.append(ExampleUser(row, clicks.users[row], clicked, belongs, why))
    return tuple(examples)


def _spread_rows(grouping: BMCD | Tastes | None, clicks: Clicks, lists: Lists) -> list[int]:
    given = lists.items >= 0
    n_given = given.sum(axis=1)
    sureness = np.where(given, lists.values["probability"], 0.0).sum(axis=1) / np.maximum(n_given, 1)
    with_list = np.flatnonzero(n_given > 0)
    order = with_list[np.argsort(sureness[with_list], kind="stable")]
    places = np.linspace(0, len(order) - 1, min(N_CANDIDATES, len(order))).round().astype(int)
    candidates = order[np.unique(places)]
    weights = _memberships(grouping, clicks, candidates.tolist(), CANDIDATE_DRAWS)
    label = np.zeros(len(candidates), int) if weights is None else weights.argmax(axis=1)
    groups = [candidates[label == c].tolist() for c in range(int(label.max()) + 1)]
    chosen: list[int] = []
    for quantile in QUANTILES * N_EXAMPLES:
        for group in groups:
            left = [row for row in group if row not in chosen]
            if left and len(chosen) < N_EXAMPLES:
                chosen.append(left[round(quantile * (len(left) - 1))])
        if len(chosen) >= min(N_EXAMPLES, len(candidates)):
            break
    return chosen


def _memberships(
    grouping: BMCD | Tastes | None, clicks: Clicks, rows: list[int], max_draws: MaxDraws
) -> NDArray[np.float64] | None:
    """Return P(cluster) of the users in these rows; None without clusters, and for distances that only count."""
    options = {} if grouping is None else grouping.draws_.problem.options
    if grouping is None or ("count_k" in options and options["distance"] != "footrule"):
        return None
    people = clicks_of_histories(clicks.of_users(np.array(rows, np.int64)), grouping.clicks_, "ignore")
    return grouping.memberships_of(people, max_draws=max_draws)


def _clicked(clicks: Clicks, row: int) -> tuple[int, ...]:
    """Return the columns of a user's items: the latest click first, or in the order of the items."""
    if clicks.order is None:
        return tuple(clicks.matrix[[row]].indices.tolist())
    own = clicks.sequence[clicks.starts[row] : clicks.starts[row + 1]]
    return tuple(dict.fromkeys(int(item) for item in own[::-1] if item >= 0))


def _reasons(model: Model, clicks: Clicks, row: int, columns: list[int]) -> dict[int, str]:
    """Return the reasons of these items for a user, in words; only of a blend."""
    if not isinstance(model, Blend):
        return {}
    history = clicks.items[list(_clicked(clicks, row)[::-1])].tolist()
    explained = {column: model.explain(None, clicks.items[column], 1, history=history) for column in columns}
    return {column: one.short for column, one in explained.items() if one.short}
