"""Run pytest on the same tests with one copy of bmcd after the other, in one process.

Started by mutants.py: ``run_here.py 'pytest arguments as JSON' folder...``, with a copy of bmcd in each folder. The
imports of numpy, scipy and pytest take longer than the tests themselves, so they are paid once.
"""

import importlib
import json
import sys
from pathlib import Path

import pytest


def main(arguments, folders):
    for folder in folders:
        # Nothing that was loaded from the last copy may live on. Test modules hold functions of it, too.
        for name in [name for name in sys.modules if name.split(".")[0] in ("bmcd", "tests", "conftest")]:
            del sys.modules[name]
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        code = pytest.main([*arguments, f"--junitxml={Path(folder) / 'report.xml'}"])
        used = Path(sys.modules["bmcd"].__file__) if "bmcd" in sys.modules else None
        (Path(folder) / "run.json").write_text(json.dumps({"code": int(code), "used": str(used)}))
        sys.path.remove(folder)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2:])
