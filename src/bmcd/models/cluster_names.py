"""What clusters are called: names that people give, and names suggested by the items that set them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from bmcd.errors import InputError
from bmcd.utils import shown

# A word stands for a cluster if it is in this share of the titles that set it apart, and so many times more
# frequent there than in all titles.
LEAST_SHARE, LEAST_LIFT = 0.6, 1.5
MOST_WORDS, MOST_TITLES = 2, 2
# Letters of a title in a suggested name, and of a name that people give.
LONGEST_TITLE, LONGEST_NAME = 30, 200
_WORD = re.compile(r"[^\W\d_]{3,}")


def suggest_names(apart: Sequence[Sequence[str]], titles: Sequence[str]) -> list[str]:
    """Return a name for each cluster, from the titles that set it apart, best first, and the titles of all items.

    It is the words that most of those titles share and others do not, with the first title if several clusters have
    the same words; without such words the first two titles.

    >>> titles = ["red skirt 1", "blue skirt 2", "gray skirt 3", "red shoe", "blue shoe", "hat"]
    >>> suggest_names([titles[:3], titles[3:5], titles[5:]], titles)
    ['skirt', 'shoe', 'hat']
    """
    everywhere = Counter(word for title in titles for word in _words(title))
    by_words = [_shared_words(own, everywhere, len(titles)) for own in apart]
    uses = Counter(by_words)
    names = []
    for words, own in zip(by_words, apart, strict=True):
        first = [_shortened(title) for title in own[:MOST_TITLES]]
        names.append((words if uses[words] == 1 else f"{words}: {first[0]}") if words else " + ".join(first))
    return names


def _words(title: str) -> list[str]:
    """Return the different words of a title, in their order."""
    return list(dict.fromkeys(word.casefold() for word in _WORD.findall(title)))


def _shared_words(own: Sequence[str], everywhere: Counter[str], n_titles: int) -> str:
    counts = Counter(word for title in own for word in _words(title))
    lift = {word: (n / len(own)) / (everywhere[word] / n_titles) for word, n in counts.items()}
    good = [word for word, n in counts.items() if n >= LEAST_SHARE * len(own) and lift[word] >= LEAST_LIFT]
    best = sorted(good, key=lambda word: -lift[word])[:MOST_WORDS]
    return " ".join(word for word in good if word in best)


def _shortened(title: str) -> str:
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"


def checked_names(names: object, n_clusters: int) -> dict[int, str]:
    """Return names by cluster number, or an error that says what is wrong with them.

    >>> checked_names({2: " sale "}, 3)
    {2: 'sale'}
    """
    if not isinstance(names, Mapping):
        raise InputError(f"names must be a dict such as {{1: 'skirts'}}, but it is {shown(names)}.")
    found = {}
    for number, name in names.items():
        if isinstance(number, bool) or not hasattr(number, "__index__") or not 1 <= int(number) <= n_clusters:
            raise InputError(
                f"there is no cluster {shown(number)}: they are numbered from 1 to {n_clusters}, as in clusters_."
            )
        if not isinstance(name, str) or len(name) > LONGEST_NAME or not name.isprintable():
            raise InputError(
                f"the name of cluster {number} must be one line of text, at most {LONGEST_NAME} letters, but it is "
                f"{shown(name)}."
            )
        found[int(number)] = name.strip()
    return found
