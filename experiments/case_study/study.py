"""The case study: which clicks it is run on, its stages, and what stands on its page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from experiments.case_study import figures, forecast_tables, tables
from experiments.case_study.data import DataSet, own_data
from experiments.case_study.plan import DATA_SETS, make_plan
from experiments.case_study.results import DataSetResults
from experiments.case_study.words import page_words
from experiments.document import Contents
from experiments.study import Stage, Study
from experiments.tasks import Result, StudyError

DEFAULT_PROTOCOL = {"most_clicked": 200, "at_least": 13, "remove": 10}  # as the paper's data set 1


class CaseStudy(Study):
    """The paper's case study on public clicks, or on your own.

    Parameters
    ----------
    data
        Some of "eshop-1", "eshop-2" and "msweb"; all three unless given.
    quick
        A few users, items and sweeps: shows that everything runs.
    clicks
        A file of your own instead, as `bmcd.read_clicks` takes it, with the columns ``user`` and ``item`` and
        optional ``titles``. The ``most_clicked`` items (200) and users with ``at_least`` clicks (13) are kept, and
        ``remove`` clicks (10) of each are removed. For the public clicks these numbers are fixed.
    seed
        Of the removed clicks, and of every fit.
    """

    package = __package__

    def __init__(
        self,
        *,
        data: Sequence[str] | None = None,
        quick: bool = False,
        clicks: Path | None = None,
        user: str = "user",
        item: str = "item",
        titles: Path | None = None,
        most_clicked: int | None = None,
        at_least: int | None = None,
        remove: int | None = None,
        seed: int = 0,
    ) -> None:
        options = {"most_clicked": most_clicked, "at_least": at_least, "remove": remove}
        protocol = {name: value for name, value in options.items() if value is not None}
        if clicks is None:
            if protocol:
                given = ", ".join(f"--{name.replace('_', '-')}" for name in protocol)
                raise StudyError(f"{given}: only for your own clicks, so give a file with --clicks as well.")
            data_sets = [replace(_public_data(name), seed=seed) for name in dict.fromkeys(data or DATA_SETS)]
        elif data:
            raise StudyError("--data and --clicks: give names of data sets or a file of your own, not both.")
        else:
            columns = {"user": user, "item": item, "titles": None if titles is None else str(titles)}
            data_sets = [own_data(clicks, **{**DEFAULT_PROTOCOL, **protocol}, n_popular=None, seed=seed, **columns)]
        self.quick = quick
        self.plans = [make_plan(data_set, quick=quick) for data_set in data_sets]

    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield the tasks that need no choice, then the fits and blends with what was chosen."""
        yield Stage("case study", [task for plan in self.plans for task in plan.first_tasks()])
        tasks = []
        for data_set in self.data_sets(results):
            tasks += [data_set.plan.fit_task(fit) for fit in data_set.fits]
            tasks += data_set.plan.blend_tasks(data_set.settings)
            tasks.append(data_set.plan.pseudo_task(data_set.choice.recommended))
        yield Stage("case study, chosen fits", tasks)

    def data_sets(self, results: Mapping[str, Result]) -> list[DataSetResults]:
        """Return the results by data set."""
        return [DataSetResults(plan, results) for plan in self.plans]

    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words, tables and figures of page.md."""
        data_sets = self.data_sets(results)
        drawn = {"item_popularity": figures.item_popularity(data_sets)}
        for data_set in data_sets:
            by_name = figures.by_data_set(data_set)
            drawn |= {f"{name}_{data_set.name}": figure for name, figure in by_name.items()}
        return Contents(
            words=page_words(data_sets, quick=self.quick),
            tables={
                table.__name__: [row for d in data_sets for row in table(d)]
                for table in (*tables.TABLES, *forecast_tables.TABLES)
            },
            figures=drawn,
            data_sets=[data_set.name for data_set in data_sets],
        )


def _public_data(name: str) -> DataSet:
    if name not in DATA_SETS:
        raise StudyError(f"the case study has no data set {name!r}: give one of {', '.join(DATA_SETS)}.")
    return DATA_SETS[name]
