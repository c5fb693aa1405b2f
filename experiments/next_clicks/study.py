"""The study of next clicks: its tasks, and what stands on its page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bmcd import __version__
from bmcd.files import write_file
from experiments.document import Contents, Row, percent
from experiments.next_clicks import measures
from experiments.next_clicks.methods import BLEND, MOST_ITEMS, REPEATING, Method, methods
from experiments.study import Stage, Study
from experiments.tasks import Result, StudyError, Task

MOST_CASES = 4_000
LISTS = {"5/1": "list of 5, next click", "3/3": "list of 3, next 3", "10/10": "list of 10, next 10"}


class NextClicksStudy(Study):
    """All methods on the clicks that came next.

    Parameters
    ----------
    quick
        A part of the shop's visits and few methods: shows that everything runs.
    log
        A log of your own with times (csv, tsv, parquet), back-tested instead of the shop's visits.
    user, item, time_column, session_column
        The columns of the log.
    window, cuts, k, horizon
        Of the back-test, as in `bmcd.backtest`.
    sessions, test_sessions
        Two session files: those to fit to, and those whose last clicks are to be predicted.
    """

    package = __package__

    def __init__(
        self,
        *,
        quick: bool = False,
        log: Path | None = None,
        user: str = "user",
        item: str = "item",
        time_column: str | None = None,
        session_column: str | None = None,
        window: str = "1d",
        cuts: int = 5,
        k: int = 10,
        horizon: int = 1,
        sessions: Path | None = None,
        test_sessions: Path | None = None,
        seed: int = 0,
    ) -> None:
        if (sessions is None) != (test_sessions is None):
            raise StudyError(
                "--sessions and --test-sessions: give both, the sessions to fit to and those to predict."
            )
        for file in (log, sessions, test_sessions):
            if file is not None and not file.is_file():
                raise StudyError(f"{file}: there is no such file.")
        self.quick, self.seed = quick, seed
        self.methods = methods(quick=quick)
        self.log: dict[str, Any] | None = None
        if log is not None:
            columns = {"user": user, "item": item, "time_column": time_column, "session_column": session_column}
            self.log = {"file": str(log.absolute()), "sha256": _checksum(log), **columns}
        self.window, self.cuts, self.k, self.horizon = window, cuts, k, horizon
        self.sessions, self.test_sessions = sessions, test_sessions
        self.with_shop = log is None and sessions is None

    def stages(self, results: Mapping[str, Result]) -> Iterator[Stage]:
        """Yield the tasks of each kind of data that was given."""
        common = {"quick": self.quick, "seed": self.seed}
        plain = {name: how for name, how in self.methods.items() if name != REPEATING}
        if self.with_shop:
            tasks = [
                Task(f"{part}/{_file(name)}", function, {"method": name, **common}, how.seconds)
                for part, function in (("later", measures.later_visits), ("last", measures.last_clicks))
                for name, how in plain.items()
            ]
            yield Stage("next clicks", tasks)
        if self.log is not None:
            yield Stage("the log", [Task("log/describe", measures.describe_log, {"log": self.log})])
            small = results["log/describe"]["n_items"] <= MOST_ITEMS
            asked = {"window": self.window, "cuts": self.cuts, "k": self.k, "horizon": self.horizon}
            arguments = {"log": self.log, **asked, **common}
            yield Stage(
                "back-tests",
                [
                    Task(f"log/{_file(name)}", measures.back_test, {"method": name, **arguments}, how.seconds)
                    for name, how in plain.items()
                    if small or not how.dense
                ],
            )
        if self.sessions is not None and self.test_sessions is not None:
            files = {"train": str(self.sessions.absolute()), "test": str(self.test_sessions.absolute())}
            own = {"sha256": _checksum(self.sessions) + _checksum(self.test_sessions), "most_cases": MOST_CASES}
            arguments = {**files, **own, **common}
            yield Stage(
                "sessions",
                [
                    Task(f"sessions/{_file(name)}", measures.sessions, {"method": name, **arguments}, how.seconds)
                    for name, how in self.methods.items()
                    if not how.dense
                ],
            )

    def reproduce(self, folder: Path, *, n_workers: int | None = None, progress: bool | None = None) -> Path:
        """Run the study and write its page, with results.json beside it; see `Study.reproduce`."""
        page = super().reproduce(folder, n_workers=n_workers, progress=progress)
        results = self.run(folder / "results", n_workers=1, progress=False)  # all are done: this only reads
        write_file(folder / "results.json", (json.dumps(results, indent=1, sort_keys=True) + "\n").encode())
        return page

    def contents(self, results: Mapping[str, Result]) -> Contents:
        """Return the words and tables of page.md."""
        later, last, log, sessions = (self._part(results, part) for part in ("later", "last", "log", "sessions"))
        blend = later.get(BLEND, {})
        words = {
            "version": __version__,
            "form": ", in its quick form" if self.quick else "",
            "in_short": _in_short(later) if blend else "",
            "shop": SHOP if later else "",
            "about_blend": f"Members in use: {', '.join(blend['members'])}. {blend['verdict']}" if blend else "",
            "last": LAST if last else "",
            "log": _log_words(self, results["log/describe"]) if log else "",
            "sessions": _session_words(next(iter(sessions.values()))) if sessions else "",
        }
        tables: dict[str, list[Row]] = {
            "later": [_later_row(name, shown, found[asked], found["seconds"])
                      for asked, shown in LISTS.items() for name, found in later.items()],
            "last": [_row(name, found) for name, found in last.items()],
            "log": [row for name, found in log.items() for row in _log_rows(name, found)],
            "sessions": [_session_row(name, found) for name, found in sessions.items()],
        }  # fmt: skip
        return Contents(words, tables, {})

    def _part(self, results: Mapping[str, Result], part: str) -> dict[str, Result]:
        names = {name: f"{part}/{_file(name)}" for name in self.methods}
        return {name: results[task] for name, task in names.items() if task in results}


SHOP = [
    "## Later visits of the shop",
    "Every method is fitted to the first 80 % of the shop's visits. In each later visit a random moment is chosen, "
    "and the method recommends from what the visitor had clicked until then. A hit is an item among the next "
    "clicks on items not clicked before. Means of three choices of the moments, over visits with enough clicks.",
    "The probabilities of BMCD and Tastes refer to the model's own ranking of the items. They do not "
    "know the order of clicks, so these probabilities do not fit next clicks. A Blend of one model is calibrated.",
]
LAST = [
    "## The last ten clicks of every visit",
    "The 200 most clicked items, visits with at least 13 clicks, the last ten of each held out "
    '(`hold_out(10, by="time")`).',
    "**No method can be calibrated fully here.** The late part of every visit is held out, so there are no late "
    "clicks to learn from, and late clicks are harder to predict than early ones. A model learns how well early "
    "clicks are predicted, and predicts more hits than there are. Evaluate calibration on later visits, as above, "
    "or on a split in time.",
]


def _file(name: str) -> str:
    """Return a name fit for a file.

    >>> _file("Blend(repeats=True)")
    'Blend-repeats-True'
    """
    return "-".join("".join(c if c.isalnum() else " " for c in name).split())


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _in_short(later: Mapping[str, Result]) -> list[str]:
    lines = []
    for asked, shown in LISTS.items():
        own = later[BLEND][asked]
        others = {name: found[asked]["hits"] for name, found in later.items() if not name.startswith(BLEND)}
        best = max(others, key=lambda name: others[name])
        lines.append(
            f"* {shown[:1].upper()}{shown[1:]}: Blend hits {percent(own['hits'], 1)} and predicts "
            f"{percent(own['predicted'], 1)}; the best other method, {best}, hits {percent(others[best], 1)}."
        )
    return ["\n".join(lines)]


def _later_row(name: str, asked: str, found: Result, seconds: float) -> Row:
    return {
        "asked": asked,
        **_row(name, {**found, "seconds": seconds}),
        "ms per user": f"{1e3 * found['seconds_per_user']:.2f}",
    }


def _row(name: str, found: Result) -> Row:
    return {
        "method": name,
        "hits": percent(found["hits"], 1),
        "95 % interval": f"{100 * found['low']:.1f} to {100 * found['high']:.1f}",
        "predicted": percent(found["predicted"], 1) if "predicted" in found else "",
        "ECE@k": f"{found['ece']:.3f}" if "ece" in found else "",
        "coverage": f"{found['coverage']:.3f}",
        "fit, CPU s": f"{found['seconds']:.1f}",
    }


def _log_words(study: NextClicksStudy, about: Result) -> list[str]:
    assert study.log is not None
    asked = "next click" if study.horizon == 1 else f"next {study.horizon} clicks"
    return [
        f"## Back-test of {Path(study.log['file']).name}",
        f"{about['n_users']:,} users, {about['n_items']:,} items, {about['n_clicks']:,} clicks. Every method is "
        f"fitted to the clicks before each of {study.cuts} cuts and recommends {study.k} items for the {asked} at "
        f"a random moment of each user active in the window of {study.window} that follows. Methods that score "
        f"all pairs take part where there are at most {MOST_ITEMS:,} items. Blend has that window as its refresh.",
    ]


def _log_rows(name: str, found: Result) -> Iterator[Row]:
    for row in found["rows"]:
        yield {
            "method": name,
            "cut": row["cut"],
            "users": row["n_users"],
            "hits": percent(row["hit_rate"], 2),
            "predicted": "" if row["predicted"] is None else percent(row["predicted"], 2),
            "ECE@k": "" if row["ece_at_k"] is None else f"{row['ece_at_k']:.4f}",
            "outside": percent(row["observed_outside"], 1),
            "expected outside": "" if row["expected_outside"] is None else percent(row["expected_outside"], 1),
            "fit, s": f"{row['fit_seconds']:.1f}",
        }


def _session_words(found: Result) -> list[str]:
    return [
        "## Session files",
        f"{found['n_items']:,} items; lists of 20 for the last click of {found['n_cases']:,} test sessions, "
        "from the clicks before it. Only Blend(repeats=True) can recommend items clicked before. Predicted: the "
        "sum of the probabilities of a list, to be compared with P@20.",
    ]


def _session_row(name: str, found: Result) -> Row:
    return {
        "method": name,
        "P@20": percent(found["hits"], 1),
        "MRR@20": percent(found["mrr"], 1),
        "predicted": percent(found["predicted"], 1) if "predicted" in found else "",
        "coverage": f"{found['coverage']:.3f}",
        "fit, CPU s": f"{found['seconds']:.1f}",
        "ms per user": f"{1e3 * found['seconds_per_user']:.2f}",
    }


__all__ = ["Method", "NextClicksStudy"]
