"""Figures quoted in the README are those of the results files that they come from."""

import json
import re
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def table(first_header):
    """Return {label of the row: {header: figure}} of the README's table with this first header; not empty cells."""
    lines = README[README.index(f"| {first_header} |") :].split("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return {
        label: {name: cell for name, cell in zip(head[1:], cells, strict=True) if cell} for label, *cells in rows
    }


def test_next_clicks():
    results = json.loads((ROOT / "experiments" / "next_clicks" / "results.json").read_text())
    quoted = table("list")
    assert len(quoted) == 3
    for label, row in quoted.items():
        length, horizon = re.fullmatch(r"(\d+) items, next (\d*) ?clicks?", label).groups()
        asked = f"{length}/{horizon or 1}"
        assert f"{100 * results['later/Blend'][asked]['predicted']:.1f}" == row.pop("Blend, predicted")
        assert row == {name: f"{100 * results[f'later/{name}'][asked]['hits']:.1f}" for name in row}
        assert max(row, key=lambda name: float(row[name])) == "Blend"


def test_random_hold_out():
    simulated = pd.read_csv(ROOT / "experiments" / "simulation" / "tables" / "accuracy.csv", index_col=0)["mean"]
    clicks = pd.read_csv(ROOT / "experiments" / "case_study" / "tables" / "accuracy.csv")
    clicks = clicks.set_index(["data set", "method"])["accuracy %"]
    rows = {
        "the paper's simulation, next 10": {
            "BMCD": simulated["next 10: BMCD, C by held-out likelihood"],
            "Tastes": simulated["next 10: Tastes (auto)"],
            "ALS": simulated["next 10: CF (ALS)"],
            "popularity": simulated["next 10: popularity"],
            "best possible": simulated["next 10: limit (true parameters)"],
        }
    }
    for label, data in {"shop, 10 held out": "eshop-1", "web site, 3 held out": "msweb"}.items():
        of = {"BMCD": "BMCD", "Tastes": "Tastes", "ALS": "ALS", "EASE": "EASE", "popularity": "Popularity"}
        rows[label] = {name: f"{clicks[data, method]:.2f}" for name, method in of.items()}
    assert table("data") == {
        label: {name: value.removesuffix(" %") for name, value in row.items()} for label, row in rows.items()
    }
