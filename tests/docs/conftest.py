import sys
from pathlib import Path

# The extensions of the site are modules beside its conf.py, as Sphinx has them.
sys.path.append(str(Path(__file__).parents[2] / "docs" / "extensions"))
