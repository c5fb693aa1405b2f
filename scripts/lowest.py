"""Print the lowest versions that pyproject.toml declares: pip install $(python scripts/lowest.py)."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for line in project["dependencies"]:
    name, lowest = re.fullmatch(r"([\w\[\]-]+)>=([\w.]+).*", line).groups()
    print(f"{name}=={lowest}" if lowest.count(".") > 1 else f"{name}=={lowest}.0")
