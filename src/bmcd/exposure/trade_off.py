"""trade_off: what coverage and even exposure cost in expected hits, for a ladder of limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bmcd.clicks.table import Clicks, Library
from bmcd.errors import InputError
from bmcd.evaluation import Evaluation, evaluate
from bmcd.exposure.flow import best_flow, graph_solvers, widest_coverage
from bmcd.exposure.limits import Limit, read_limits
from bmcd.exposure.rerank import make_problem, rerank_weights
from bmcd.exposure.result import Reranking
from bmcd.exposure.weights import Value, Weights, read_weights
from bmcd.prediction.top_k import check_k

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bmcd.simulation import Simulation

Ladder = Literal["min_coverage", "min_exposure", "max_exposure"]


@dataclass(frozen=True, eq=False, repr=False)
class TradeOff:
    """One reranking for each rung of a ladder of limits; `print` it for the table, `plot` for the figure."""

    ladder: Ladder
    """Which limit the rungs are of."""
    rungs: tuple[Any, ...]
    rerankings: tuple[Reranking, ...]
    evaluations: tuple[Evaluation, ...] | None
    """What `bmcd.evaluate` says of each, if there were test clicks."""

    def rows(self) -> list[dict[str, Any]]:
        """One dict for each rung, ready for JSON."""
        rows: list[dict[str, Any]] = []
        for i, (rung, found) in enumerate(zip(self.rungs, self.rerankings, strict=True)):
            after = found.after
            row = {
                self.ladder: rung if isinstance(rung, int | float) else str(rung),
                "expected_hits" if found.value == "probability" else "score": after.total,
                "given_up": found.price,
                "given_up_share": found.price / abs(found.before.total) if found.before.total else 0.0,
                "items_shown": after.n_shown,
                "coverage": after.coverage,
                "price_per_item": self._step(i),
                "least_shown": int(after.exposure.min()),
                "most_shown": int(after.exposure.max()),
                "gini": after.gini,
            }
            if self.evaluations is not None:
                own = self.evaluations[i]
                row |= {"hits": own.n_hits, "accuracy": own.accuracy, "correct_coverage": own.correct_coverage}
            rows.append(row)
        return rows

    def _step(self, i: int) -> float | None:
        """What each item gained since the rung before has cost; None where none was gained."""
        if i == 0:
            return None
        last, own = self.rerankings[i - 1], self.rerankings[i]
        gained = own.after.n_shown - last.after.n_shown
        return (own.price - last.price) / gained if gained > 0 else None

    def to_frame(self, library: Library | None = None) -> Any:
        """Return a frame with a row for each rung; docs/rerank.md says what the columns are."""
        import narwhals as nw

        rows = self.rows()
        # nan, not None: also a column without any number is one of floats.
        data = {name: [np.nan if row[name] is None else row[name] for row in rows] for name in rows[0]}
        return nw.from_dict(data, backend=library or self.rerankings[0].clicks.library).to_native()

    def plot(self, x: str | None = None) -> Figure:
        """Draw it, see `bmcd.plots.trade_off`."""
        from bmcd import plots

        return plots.trade_off(self, x)

    def __repr__(self) -> str:
        first = self.rerankings[0]
        title = f"TradeOff({len(self.rungs)} rungs of {self.ladder}, {first.clicks.n_users:,} users, k={first.k})"
        return f"{title}\n{self.to_frame('pandas').to_string(index=False, float_format='{:,.4g}'.format)}"


def trade_off(
    model: Any,
    k: int = 10,
    *,
    min_coverage: Any = None,
    min_exposure: Any = None,
    max_exposure: Any = None,
    steps: int = 8,
    test: Clicks | Simulation | None = None,
    clicks: Clicks | None = None,
    value: Value | None = None,
    **options: Any,
) -> TradeOff:
    """Rerank for a ladder of limits: how many expected hits each gain in coverage, or in evenness, costs.

    One of the three limits is a list, the ladder; the others may be fixed limits, as in `rerank`. The model is
    asked once, and each rung is solved exactly.

    Parameters
    ----------
    model, k, clicks, value, options
        As in `rerank`.
    min_coverage, min_exposure, max_exposure
        A list of limits is the ladder. Without one, the ladder has ``steps`` rungs of min_coverage, from what the
        plain lists show to all that can be shown; if they show everything already, of min_exposure, from 0 to close
        to the largest floor that all items can have.
    test
        Held-out clicks, or the simulation: the table then also has the real hits and the accuracy.

    Examples
    --------
    >>> import bmcd
    >>> sim = bmcd.simulate(n_users=60, seed=1)
    >>> found = bmcd.trade_off(
    ...     sim.true_probabilities(3), k=3, min_exposure=[0, 1, 2], clicks=sim.clicks, value="probability", test=sim
    ... )
    >>> found.to_frame()[["min_exposure", "least_shown"]].to_numpy().tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    graph_solvers()
    k = check_k(k)
    limits: dict[str, Any] = dict(min_coverage=min_coverage, min_exposure=min_exposure, max_exposure=max_exposure)
    ladders = [name for name, limit in limits.items() if _is_ladder(limit)]
    if len(ladders) > 1:
        raise InputError(f"only one limit can be a list, but there are {len(ladders)}: {', '.join(ladders)}.")
    if steps < 2:
        raise InputError(f"steps must be 2 or more, but it is {steps}.")
    weights = read_weights(model, k, clicks, value, options)
    ladder: Any = ladders[0] if ladders else None
    rungs = list(limits[ladder]) if ladders else []
    if not ladders:
        ladder, rungs = _own_ladder(weights, k, limits, steps)
    if not rungs:
        raise InputError(f"{ladder} is an empty list: give at least one limit.")
    found = [
        rerank_weights(weights, k, read_limits(**{**limits, ladder: rung}, clicks=weights.clicks)) for rung in rungs
    ]
    measured = None
    if test is not None:
        measured = tuple(evaluate(one.recommendations, weights.clicks, test, k=k) for one in found)
    return TradeOff(ladder, tuple(rungs), tuple(found), measured)


def _is_ladder(limit: Any) -> bool:
    return isinstance(limit, Iterable) and not hasattr(limit, "items")


def _own_ladder(weights: Weights, k: int, limits: dict[str, Limit | None], steps: int) -> tuple[Ladder, list[int]]:
    fixed = read_limits(**limits, clicks=weights.clicks)  # type: ignore[arg-type]
    plain = rerank_weights(weights, k, fixed).after  # says what is wrong with limits that cannot be kept
    problem, _ = make_problem(weights, k, fixed)
    most = widest_coverage(problem)
    if plain.n_shown < most and limits["min_coverage"] is None:
        return "min_coverage", np.unique(np.linspace(plain.n_shown, most, steps).round().astype(int)).tolist()
    if limits["min_exposure"] is not None:
        raise InputError("the plain lists show all items already: give a list of floors, min_exposure, or of caps.")
    top = min(int(problem.demand.sum()) // len(fixed.low), int(problem.available.sum(axis=0).min()))
    nothing = np.zeros(problem.available.shape)
    while top > 0:
        floors = fixed._replace(low=np.full_like(fixed.low, top))
        if (floors.low <= floors.high).all() and best_flow(problem._replace(limits=floors), nothing, nothing > 0):
            break
        top = top * 9 // 10
    return "min_exposure", np.unique(np.linspace(0, top, steps).round().astype(int)).tolist()
