"""Hosted checks run every test."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_deep_run_has_a_piece_for_every_folder_of_tests():
    pieces = re.findall(r"^ {10}- (.+)$", (ROOT / ".github" / "workflows" / "deep.yml").read_text(), re.MULTILINE)
    given = [path for piece in pieces for path in piece.split()]
    folders = {f"tests/{file.relative_to(ROOT / 'tests').parts[0]}" for file in ROOT.glob("tests/*/**/test_*.py")}
    assert sorted(given) == sorted(folders | {"tests/test_*.py", "src", "experiments"})
