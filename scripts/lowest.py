"""Print the lowest versions that pyproject.toml declares, as constraints for pip.

python scripts/lowest.py > lowest.txt && pip install -c lowest.txt -e ".[dev]"
"""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for line in sorted({*project["dependencies"], *(line for extra in extras.values() for line in extra)}):
    if found := re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\w.]+).*", line):
        name, lowest = found.groups()
        print(f"{name}=={lowest}{'.0' * (2 - lowest.count('.'))}")
