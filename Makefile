# Every target makes and keeps its own virtual environment in .venv: with uv where there is one, else venv and pip.
# Needs only make, a shell and Python 3.11 or later. `make` alone lists the targets.

VENV   := .venv
PY     := $(VENV)/bin/python
READY  := $(VENV)/.ready
UV     := $(shell command -v uv 2>/dev/null)
# The oldest Python we support comes first, as it is the one that breaks first.
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(p) 2>/dev/null)))

JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test unit rest lint format bench venv lock clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## The whole story on this machine: push, sync, drift, heal. ONCE=1 ends by itself, ARGS="--context NAME"
	$(PY) -m fleetbeat.cli.main demo $(if $(ONCE),--once) $(ARGS)

test: lint unit rest  ## Everything CI runs: lint, unit tests, then tests on real parts

unit: $(READY)  ## Tests without services, in less than a minute
	$(PY) -m pytest -q tests/unit $(ARGS)

# Two processes, each with a registry, clusters and fleets of its own (1.5 GB). A file stays whole, the longest first.
rest: $(READY)  ## Tests on real parts. ARGS="-k words" for some of them, JOBS=0 for one process
	$(PY) -m pytest tests --ignore=tests/unit -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(READY)  ## Style, types and import rules
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

format: $(READY)  ## Rewrite the sources in the project's style
	$(VENV)/bin/ruff check --fix --exit-zero .
	$(VENV)/bin/ruff format .

bench: $(READY)  ## Measure, and print numbers with the machine they were taken on. BENCH=tests/bench/bench_beat.py for one
	@for file in $(or $(BENCH),$(sort $(wildcard tests/bench/bench_*.py))); do \
		echo "── $$file"; PYTHONPATH=. $(PY) $$file $(ARGS) || exit 1; done

venv: $(READY)  ## The virtual environment alone

$(READY): requirements.lock pyproject.toml
ifneq ($(UV),)
	@test -x $(PY) || uv venv --quiet --python '>=3.11' $(VENV)
	uv pip install --quiet --python $(PY) -r requirements.lock
	uv pip install --quiet --python $(PY) --no-deps --editable .
else
	@test -n "$(PYTHON)" || { echo "No python3 found. Install Python 3.11 or later, or uv."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is older than 3.11. Install a newer one, or uv, or say which: make PYTHON=/path/to/python3.12"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip --upgrade >/dev/null
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
endif
	@touch $@

lock:  ## Resolve pyproject.toml anew into requirements.lock (needs uv)
	uv pip compile pyproject.toml --group dev --all-extras --universal --python-version 3.11 --upgrade --quiet \
		--no-emit-index-url --no-annotate --custom-compile-command 'make lock' --output-file requirements.lock

clean:  ## Remove everything made here, the environment too
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -exec rm -rf {} +
