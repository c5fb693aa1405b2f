# Everything here builds its own virtual environment in .venv, once; a second run is cheap.
PYTHON ?= python3
BIN := .venv/bin
JUDGES := .venv/judging/bin

# A folder or two of tests, for test-deep: make test-deep PIECE=tests/inference
PIECE :=
# Some tests start processes of other users, which only root can.
MARKS := $(shell [ "$$(id -u)" = 0 ] || echo " and not root")
# Tests of a file share a worker, see conftest.py, which also sets the order. A third worker on two cores saves nothing.
TOGETHER := -q -n 2 --dist loadgroup --no-loadscope-reorder
# A test that takes twenty minutes prints where it is and is ended.
ENDING := -o faulthandler_timeout=1200 -o faulthandler_exit_on_timeout=true
# What needs Java, a browser, other processes, or a fitted study is not here.
FAST := tests/baselines tests/blend tests/clicks tests/evaluation tests/mallows tests/models tests/plots tests/top \
  tests/test_architecture.py tests/test_public_names.py tests/test_simulation.py

.PHONY: demo test test-fast test-deep test-lowest docs docs-clean lint format types bench bench-guard reproduce java chromium clean

demo: .venv/core
	$(BIN)/bmcd demo

# The site is built by tests/docs/test_site.py.
test: java chromium
	$(MAKE) -j2 .venv/all lint types
	BMCD_REQUIRE_ALL=1 $(BIN)/python -m pytest $(TOGETHER) $(ENDING) -m "not deep$(MARKS)"

# While working: no Java, no browser, nothing that takes more than a moment.
test-fast: .venv/all lint types
	$(BIN)/python -m pytest $(TOGETHER) -m "not deep and not slow and not root" $(FAST)

test-deep: java chromium .venv/all $(if $(PIECE),,docs-clean)
	BMCD_REQUIRE_ALL=1 BMCD_DEEP=1 $(BIN)/python -m pytest $(TOGETHER) -m "deep or not deep$(MARKS)" --durations=20 $(PIECE)

# The lowest versions that pyproject.toml declares, installed together, in an environment of their own. Their deprecations
# are not ours to repair, and what two versions of numba write differs in its last bits.
test-lowest: java chromium .venv/bin/python
	$(PYTHON) -m venv .venv/lowest
	$(BIN)/python scripts/lowest.py > .venv/lowest.txt
	.venv/lowest/bin/python -m pip install -q --disable-pip-version-check -c .venv/lowest.txt -e '.[dev]'
	.venv/lowest/bin/python -m pytest $(TOGETHER) -W default -m "not deep$(MARKS)" --ignore tests/docs/test_site.py

# The site, in docs/_build/html. Notebooks that have not changed are not run again; docs-clean forgets them.
docs: .venv/all
	$(BIN)/python -m sphinx -b html -q -E -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	$(BIN)/python scripts/check_site.py docs/_build/html

docs-clean:
	rm -rf docs/_build

lint: .venv/judges
	$(JUDGES)/ruff check .
	$(JUDGES)/ruff format --check .

format: .venv/judges
	$(JUDGES)/ruff check --fix .
	$(JUDGES)/ruff format .

types: .venv/judges
	$(JUDGES)/mypy

# Spark's ALS needs it.
java:
	@scripts/need_java.sh

# Report and page are tested in it, and the service with curl.
chromium:
	@scripts/need_chromium.sh

# Old code against new in one run: fails if a figure of the documentation takes more than a third longer.
bench-guard: .venv/all
	$(BIN)/python benchmarks/guard.py

bench: .venv/all
	$(BIN)/python -m benchmarks.exact_sums

# Both of the paper's studies, in full into experiments/ (two hours on two cores), or with QUICK=1 in their quick form.
reproduce: .venv/all
	$(BIN)/python -m experiments simulation $(if $(QUICK),--quick,-o experiments/simulation)
	$(BIN)/python -m experiments case_study $(if $(QUICK),--quick,-o experiments/case_study)

clean:
	rm -rf .venv

# Stamps: a target is made again only when what it installs has changed.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"bmcd needs Python 3.11 or newer, but $(PYTHON) is {v[0]}.{v[1]}: say which one to use with make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml
	@echo "Installing bmcd into .venv (once; a minute or two) ..."
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[report]'
	@touch $@

.venv/all: .venv/bin/python pyproject.toml
	@echo "Installing bmcd and its development tools into .venv (once; a minute or two) ..."
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@ .venv/core

# Linters and type stubs: the dependency group "lint" of pyproject.toml, which pip knows how to read since 25.1.
.venv/judges: .venv/bin/python pyproject.toml
	@echo "Installing the linters into .venv/judging (once) ..."
	$(PYTHON) -m venv .venv/judging
	$(JUDGES)/python -m pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	$(JUDGES)/python -m pip install -q --disable-pip-version-check --group lint
	@touch $@
