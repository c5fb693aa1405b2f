"""Print the installed size of every package of this environment, pip and setuptools left out.

python scripts/installed_size.py --most 760     # MiB; fails if there are more
"""

import argparse
import importlib.metadata
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--most", type=float, help="fail above this many MiB")
most = parser.parse_args().most

sizes = {}
for found in importlib.metadata.distributions():
    name = found.metadata["Name"]
    files = [found.locate_file(file) for file in found.files or ()]
    if name not in ("pip", "setuptools", "wheel"):
        sizes[f"{name} {found.version}"] = sum(file.stat().st_size for file in files if file.exists()) / 2**20
for name, size in sorted(sizes.items(), key=lambda pair: -pair[1]):
    print(f"{size:8.1f} MiB  {name}")
total = sum(sizes.values())
print(f"{total:8.1f} MiB  {len(sizes)} packages")
if most is not None and total > most:
    sys.exit(f"more than {most:g} MiB")
