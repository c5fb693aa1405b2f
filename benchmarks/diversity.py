"""What diverse lists cost on the bundled shop: later visits, k = 10, rules about categories.

python benchmarks/diversity.py benchmarks/diversity.json

The model is fitted to the first 80 % of the visits, and asked at a random moment of the later ones.
docs/diversity.md shows the result.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import bmcd
from bmcd.models.list_rules import groups_in_lists, read_rules
from bmcd.models.top_k import read_truth, was_clicked

K = 10
SETTINGS = [
    *(
        bmcd.ListRules("category", worth=worth)
        for worth in (0.0, 0.02, 0.05, 0.07, 0.09, 0.1, 0.12, 0.15, 0.2, 0.5)
    ),
    *(bmcd.ListRules("category", at_least_groups=number) for number in (2, 3, 4)),
    *(bmcd.ListRules("category", at_most=number) for number in (8, 6, 4)),
]


def main(path: Path) -> None:
    """Fit, ask with every setting, count hits, and write the curve."""
    clicks = bmcd.load_dataset("eshop")
    earlier, later = clicks.split_users(0.8)
    model = bmcd.Blend().fit(earlier, seed=0, progress=False)
    histories, test = later.moments(k=K, seed=0)
    truth, every = read_truth(test, histories, K), np.ones(clicks.n_items, np.bool_)
    rows, plain = [], None
    for rules in SETTINGS:
        began = time.process_time()
        lists, _ = model.ruled_lists_for(histories, K, rules)
        seconds = time.process_time() - began
        groups = groups_in_lists(lists.items, read_rules(rules, clicks.items_table, K, every))
        user, place = np.nonzero(lists.items >= 0)
        hits = np.bincount(user, was_clicked(truth.matrix, user, lists.items[user, place]), histories.n_users) / K
        plain = hits if plain is None else plain
        change = hits - plain
        rows.append(
            {
                "rules": str(rules).removeprefix("group category, ").removeprefix("group category") or "none",
                "groups": round(float(groups.mean()), 2),
                "three_or_more": round(float((groups >= 3).mean()), 3),
                "hit_rate": round(float(hits.mean()), 4),
                "change": round(float(change.mean()), 4),
                "standard_error": round(float(change.std(ddof=1) / np.sqrt(len(change))), 4),
                "predicted": round(float(lists.values["probability"].mean()), 4),
            }
        )
        print(rows[-1], f"{1000 * seconds / histories.n_users:.3f} ms a user, model included")
    path.write_text(json.dumps({"k": K, "users": histories.n_users, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
