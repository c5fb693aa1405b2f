"""trade_off: rerank for a ladder of limits, to see what coverage and even exposure cost in expected hits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bmcd.clicks.log import Clicks, Library
from bmcd.errors import InputError
from bmcd.evaluation.compare import Comparison, compare
from bmcd.evaluation.diversity_price import diversity_price, price_table
from bmcd.evaluation.evaluate import Evaluation, evaluate
from bmcd.evaluation.exposure_flow import best_flow, graph_solvers, widest_coverage
from bmcd.evaluation.exposure_limits import Limit, read_limits
from bmcd.evaluation.exposure_weights import Value, Weights, read_weights
from bmcd.evaluation.rerank import Reranking, make_problem, rerank_weights
from bmcd.models.top_k import check_k

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.simulation import Simulation

Ladder = Literal["min_coverage", "min_exposure", "max_exposure"]


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff:
    """One reranking for each rung of a ladder of limits; `print` it for the table, `plot` for the figure.

    >>> import bmcd
    >>> clicks = bmcd.Clicks.from_matrix([[1, 0, 0], [1, 0, 0], [0, 1, 0]], items=["a", "b", "c"])
    >>> scores = [[0.0, 0.4, 0.3], [0.0, 0.5, 0.4], [0.2, 0.0, 0.1]]
    >>> curve = bmcd.trade_off(scores, k=1, clicks=clicks, value="probability", min_exposure=[0, 1])
    >>> curve.to_frame()["items_shown"].tolist()
    [2, 3]
    """

    ladder: Ladder
    """Which limit changes from rung to rung."""
    rungs: tuple[Any, ...]
    """The limits, as they were given."""
    rerankings: tuple[Reranking, ...]
    """One for each rung."""
    evaluations: tuple[Evaluation, ...] | None
    """What `bmcd.evaluate` says of each reranking, if there were test clicks."""
    comparison: Comparison | None = None
    """The plain lists of the model beside those of the rivals, if there were any."""

    @property
    def against(self) -> Any:
        """What the model, without limits, gives up or gains against each rival: a pandas frame, or None.

        Differences are the model minus the rival, with intervals where there are any (coverage has none);
        nearly_equal says whether the two hit about as often, so that diversity is compared at the same price.
        """
        return None if self.comparison is None else price_table(diversity_price(self.comparison))

    def rows(self) -> list[dict[str, Any]]:
        """Return a dict for each rung, ready for JSON."""
        rows: list[dict[str, Any]] = []
        previous: Reranking | None = None
        for number, (rung, reranking) in enumerate(zip(self.rungs, self.rerankings, strict=True)):
            before, after = reranking.before.total, reranking.after
            row = {
                self.ladder: rung if isinstance(rung, int | float) else str(rung),
                "expected_hits" if reranking.value == "probability" else "score": after.total,
                "given_up": reranking.price,
                "given_up_share": reranking.price / abs(before) if before else 0.0,
                "items_shown": after.n_shown,
                "coverage": after.coverage,
                "price_per_item": _price_per_item(previous, reranking),
                "least_shown": int(after.exposure.min()),
                "most_shown": int(after.exposure.max()),
                "gini": after.gini,
            }
            if self.evaluations is not None:
                real = self.evaluations[number]
                row |= {"hits": real.n_hits, "accuracy": real.accuracy, "correct_coverage": real.correct_coverage}
            rows.append(row)
            previous = reranking
        return rows

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each rung; docs/rerank.md says what the columns are."""
        import narwhals as nw

        rows = self.rows()
        # NaN instead of None, so that a column without any number is still one of floats.
        data = {name: [np.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(data, backend=library or self.rerankings[0].clicks.library).to_native()

    def plot(self, x: str | None = None) -> Figure:
        """Draw it, see `bmcd.plots.trade_off`."""
        from bmcd import plots

        return plots.trade_off(self, x)

    def __repr__(self) -> str:
        first = self.rerankings[0]
        title = f"TradeOff({len(self.rungs)} rungs of {self.ladder}, {first.clicks.n_users:,} users, k={first.k})"
        text = f"{title}\n{self.to_frame('pandas').to_string(index=False, float_format='{:,.4g}'.format)}"
        if self.comparison is None:
            return text
        plain = self.against.to_string(index=False, float_format="{:+,.4g}".format)
        return f"{text}\n{self.comparison.against} without limits, minus its rivals:\n{plain}"


def _price_per_item(previous: Reranking | None, reranking: Reranking) -> float | None:
    """Return what each item gained since the previous rung has cost; None where none was gained."""
    if previous is None:
        return None
    gained = reranking.after.n_shown - previous.after.n_shown
    return (reranking.price - previous.price) / gained if gained > 0 else None


def trade_off(
    model: Any,
    k: int = 10,
    *,
    min_coverage: Any = None,
    min_exposure: Any = None,
    max_exposure: Any = None,
    steps: int = 8,
    test: Clicks | Simulation | None = None,
    rivals: Mapping[str, Any] | None = None,
    clicks: Clicks | None = None,
    value: Value | None = None,
    **options: Any,
) -> TradeOff:
    """Rerank for a ladder of limits, and return how many expected hits each gain in coverage or evenness costs.

    One of the three limits is a list, the ladder; the others may be fixed limits, as in `rerank`. The model is
    asked once, and each rung is solved exactly.

    Parameters
    ----------
    model, k, clicks, value, options
        As in `rerank`.
    min_coverage, min_exposure, max_exposure
        A list of limits is the ladder. Without one, the ladder has ``steps`` rungs of min_coverage, from what the
        plain lists show to all that can be shown. If the plain lists show everything already, the rungs are of
        min_exposure, from 0 to nearly the largest floor that all items can have.
    test
        Held-out clicks, or the simulation: with it the table also has the real hits and the accuracy.
    rivals
        Other recommenders by name, fitted or not: `TradeOff.against` then says what the model gives up or gains
        against each of them in hits, coverage, novelty and rare items. It needs ``test``.

    Examples
    --------
    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> curve = bmcd.trade_off(
    ...     sim.true_probabilities(3), k=3, min_exposure=[0, 1, 2], clicks=sim.clicks, value="probability", test=sim
    ... )
    >>> curve.to_frame()[["min_exposure", "least_shown"]].to_numpy().tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    graph_solvers()
    k = check_k(k)
    if rivals and (test is None or not hasattr(model, "recommend")):
        raise InputError(
            "rivals need test=, the clicks on which they are compared, and a recommender, not a matrix."
        )
    limits: dict[str, Any] = dict(min_coverage=min_coverage, min_exposure=min_exposure, max_exposure=max_exposure)
    ladders = [name for name, limit in limits.items() if _is_ladder(limit)]
    if len(ladders) > 1:
        raise InputError(f"only one limit can be a list, but there are {len(ladders)}: {', '.join(ladders)}.")
    if steps < 2:
        raise InputError(f"steps must be 2 or more, but it is {steps}.")
    weights = read_weights(model, k, clicks, value, options)
    ladder: Any
    ladder, rungs = (
        (ladders[0], list(limits[ladders[0]])) if ladders else _default_ladder(weights, k, limits, steps)
    )
    if not rungs:
        raise InputError(f"{ladder} is an empty list: give at least one limit.")
    rerankings = tuple(
        rerank_weights(weights, k, read_limits(**{**limits, ladder: rung}, clicks=weights.clicks)) for rung in rungs
    )
    evaluations = None
    if test is not None:
        evaluations = tuple(evaluate(each.recommendations, weights.clicks, test, k=k) for each in rerankings)
    comparison = None
    if rivals and test is not None:
        comparison = compare({type(model).__name__: model, **rivals}, weights.clicks, test, k, progress=False)
    return TradeOff(ladder, tuple(rungs), rerankings, evaluations, comparison)


def _is_ladder(limit: Any) -> bool:
    return isinstance(limit, Iterable) and not hasattr(limit, "items")


def _default_ladder(
    weights: Weights, k: int, limits: dict[str, Limit | None], steps: int
) -> tuple[Ladder, list[int]]:
    fixed = read_limits(**limits, clicks=weights.clicks)  # type: ignore[arg-type]
    plain = rerank_weights(weights, k, fixed).after  # an error says why limits cannot be kept
    problem, _ = make_problem(weights, k, fixed)
    most = widest_coverage(problem)
    if plain.n_shown < most and limits["min_coverage"] is None:
        return "min_coverage", _rungs(plain.n_shown, most, steps)
    if limits["min_exposure"] is not None:
        raise InputError("the plain lists show all items already: give a list of floors, min_exposure, or of caps.")
    highest = min(int(problem.demand.sum()) // len(fixed.low), int(problem.n_users_of.min()))
    no_scores = np.zeros(len(problem.user))
    while highest > 0:
        floors = fixed._replace(low=np.full_like(fixed.low, highest))
        possible = (floors.low <= floors.high).all()
        if possible and best_flow(problem._replace(limits=floors), no_scores, no_scores > 0):
            break
        highest = highest * 9 // 10
    return "min_exposure", _rungs(0, highest, steps)


def _rungs(first: int, last: int, steps: int) -> list[int]:
    return sorted({round(rung) for rung in np.linspace(first, last, steps)})
