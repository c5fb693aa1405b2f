"""Session files by the protocol of published comparisons: the next item from the session so far, P@20 and MRR@20.

    python benchmarks/sessions.py train.txt test.txt        # a line per session: item numbers
    python benchmarks/sessions.py train.pickle test.pickle  # lists of item numbers
    python benchmarks/sessions.py --simulate

Files in text have one session per line, oldest first. Pickled files, as published for neural session models, hold a
list of sessions, each a list of item numbers; or a pair of lists, the prefixes of sessions and the item that
followed each. They are read by an unpickler that allows lists, tuples, numbers and text, and no class or function:
a file that names one is refused before anything of it runs.

Every test session gives a case for each click after its first (--cases limits their number, evenly spread). P@20 is
the share of cases whose next item is among the 20 recommended, MRR@20 the mean of 1 / rank, 0 beyond 20; repeated
clicks count (--no-repeats: items of the session are not recommended). Settings are the defaults; nothing is chosen
on test cases.
"""

from __future__ import annotations

import argparse
import io
import pickle
import resource
from pathlib import Path
from typing import Any

import numpy as np

import bmcd
from bmcd.baselines import Popularity, SessionKNN, Transitions

K, BLOCK = 20, 500


class NoClasses(pickle.Unpickler):
    """Reads lists, tuples, numbers and text; names of classes and functions are refused."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse."""
        raise pickle.UnpicklingError(
            f"the file names {module}.{name}, and only lists of numbers are read: nothing of it was run. Write the "
            "sessions as text, one line per session."
        )

    def persistent_load(self, pid: Any) -> Any:
        """Refuse."""
        raise pickle.UnpicklingError(f"the file refers to something outside it ({pid!r}): nothing of it was run.")


def read_sessions(path: Path) -> list[list[int]]:
    """Return the sessions of a file, oldest first."""
    content = path.read_bytes()
    if content[:1] != b"\x80" and path.suffix.lower() not in (".pickle", ".pkl", ".p"):
        lines = (line.replace(",", " ").split() for line in content.decode().splitlines())
        return [[int(word) for word in line] for line in lines if line]
    found = NoClasses(io.BytesIO(content)).load()
    if isinstance(found, tuple | list) and len(found) == 2 and all(isinstance(part, list) for part in found):
        prefixes, following = found
        if len(prefixes) == len(following) and all(isinstance(one, list) for one in prefixes):
            found = whole_sessions(prefixes, following)
    if not all(isinstance(one, list | tuple) and all(type(item) is int for item in one) for one in found):
        raise ValueError(f"{path}: is not a list of lists of item numbers.")
    return [list(one) for one in found if one]


def whole_sessions(prefixes: list[list[int]], following: list[int]) -> list[list[int]]:
    """Return the sessions whose prefixes these are: a prefix that continues the one before belongs to it."""
    found: list[list[int]] = []
    for prefix, item in zip(prefixes, following, strict=True):
        whole = [*prefix, item]
        if found and (found[-1][: len(whole)] == whole or whole[: len(found[-1])] == found[-1]):
            found[-1] = max(found[-1], whole, key=len)
        else:
            found.append(whole)
    return found


def simulated(n: int = 20_000, n_items: int = 2_000, seed: int = 0) -> list[list[int]]:
    """Return sessions that walk among neighbours, jump to popular items and come back."""
    rng = np.random.default_rng(seed)
    popular = np.minimum((n_items ** rng.random(n)).astype(int), n_items - 1)
    found = []
    for first in popular.tolist():
        session = [first]
        for _ in range(int(rng.geometric(0.25))):
            u = rng.random()
            step = (session[-1] + int(rng.integers(1, 8))) % n_items
            session.append(step if u < 0.6 else session[int(rng.integers(len(session)))] if u < 0.7 else
                           int(popular[int(rng.integers(n))]))  # fmt: skip
        found.append(session)
    return found


def as_clicks(sessions: list[list[int]]) -> bmcd.Clicks:
    """Return sessions as users of a log in order."""
    users = np.repeat(np.arange(len(sessions)), [len(one) for one in sessions])
    items = np.concatenate([np.asarray(one, np.int64) for one in sessions])
    ids, codes = np.unique(items, return_inverse=True)
    return bmcd.Clicks.from_codes(users, codes, np.arange(len(sessions)), ids, order="rows")


def cases_of(sessions: list[list[int]], most: int | None) -> list[tuple[list[int], int]]:
    """Return the session so far and the next item, for every click after the first."""
    every = [(one[:n], one[n]) for one in sessions for n in range(1, len(one))]
    if most is None or len(every) <= most:
        return every
    return [every[i] for i in np.linspace(0, len(every) - 1, most).round().astype(int)]


def measure(model: Any, cases: list[tuple[list[int], int]], repeats: bool) -> tuple[float, float, float]:
    """Return P@20, MRR@20 and the standard error of P@20, in percent."""
    ranks = np.zeros(len(cases))
    for first in range(0, len(cases), BLOCK):
        block = cases[first : first + BLOCK]
        found = model.recommend_for([history for history, _ in block], K, unknown="ignore",
                                    **({"horizon": 1} if isinstance(model, bmcd.Blend) else {}))  # fmt: skip
        wanted = np.array([item for _, item in block])
        hit = found["item"].to_numpy() == wanted[found["user"].to_numpy()]
        ranks[first + found["user"].to_numpy()[hit]] = found["rank"].to_numpy()[hit]
    hits = ranks > 0
    reciprocal = np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=hits)
    return 100 * hits.mean(), 100 * reciprocal.mean(), 100 * hits.std(ddof=1) / np.sqrt(len(hits))


def main() -> None:
    """Read the arguments, fit and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, nargs="?")
    parser.add_argument("test", type=Path, nargs="?")
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--cases", type=int)
    parser.add_argument("--no-repeats", action="store_true")
    given = parser.parse_args()
    if given.simulate == (given.test is not None):
        parser.error("give a file of training sessions and one of test sessions, or --simulate")
    if given.simulate:
        sessions = simulated()
        train, test = sessions[:18_000], sessions[18_000:]
    else:
        train, test = read_sessions(given.train), read_sessions(given.test)
    clicks, cases = as_clicks(train), cases_of(test, given.cases)
    print(f"{clicks.n_users:,} sessions, {clicks.n_items:,} items; {len(cases):,} cases", flush=True)
    models = {
        "popularity": Popularity(),
        "Transitions": Transitions(),
        "SessionKNN": SessionKNN(half_life=None),
        "Blend": bmcd.Blend(repeats=not given.no_repeats),
    }
    for name, model in models.items():
        before = resource.getrusage(resource.RUSAGE_SELF)
        model.fit(clicks)
        p, mrr, error = measure(model, cases, not given.no_repeats)
        after = resource.getrusage(resource.RUSAGE_SELF)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"{name:12} P@20 {p:.2f} ({error:.2f})  MRR@20 {mrr:.2f}  {seconds:.0f} CPU s", flush=True)


if __name__ == "__main__":
    main()
