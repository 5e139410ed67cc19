# Development tasks. `make` lists them; every task makes the virtual environment first if it is missing.
#
#   make test PYTHON=python3.12         choose the interpreter of a new virtual environment
#   make test ARGS="-k contact -x"      pass arguments on to pytest (or to the benchmarks)
#   make test JOBS=4                    choose the number of test processes
#   make train TORCH=cpu                install torch without the CUDA libraries

VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip
STAMP := $(VENV)/.installed
TRAIN := $(VENV)/.installed-for-training

# Left empty, PYTHON means the first suitable interpreter of these.
PYTHON     ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
# `cpu` installs torch without the CUDA libraries, which take 6 GB; left empty, pip decides.
TORCH      ?=
CPU_INDEX  := https://download.pytorch.org/whl/cpu
JOBS       ?= auto
ARGS       ?=

# Run, not merely looked up: version managers leave names on the path that do not start, and some systems ship
# Python without the parts that make a virtual environment.
SUITABLE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help install test test-extended test-all lint format train bench faults gpu clean distclean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv and install the project with its development tools

# A test file stays in one process, so that the robots its fixtures compile are compiled once. Files are handed out by
# name: those of long tests come before the many short ones in tests/unit, which fill the processes evenly at the end.
# The processes share the cores among themselves; a thread pool inside each would only get in the way.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

test test-extended: export OMP_NUM_THREADS ?= 1
test: $(STAMP) ## run the tests, five minutes on two cores
	@$(PYTEST) -m 'not extended' $(ARGS)

# ARGS may choose files without extended tests: then pytest's status 5, nothing collected, is no failure.
test-extended: $(STAMP) ## run only their repetitions with more robots, seeds and settings
	@$(PYTEST) -m extended $(ARGS) $(if $(strip $(ARGS)),|| [ $$? -eq 5 ])

test-all: test test-extended ## run both

lint: $(STAMP) ## check style, formatting, types and import directions
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/lint-imports

format: $(STAMP) ## mend what can be mended automatically
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

# Ctrl-C ends training with a checkpoint; `ahac resume` goes on.
train: $(TRAIN) ## train Hopper with AHAC on this machine, a few minutes on two cores
	@$(BIN)/ahac train hopper $(ARGS)

bench: $(STAMP) ## measure the simulator's speed on this machine
	@$(BIN)/ahac bench robots $(ARGS)

# Half an hour on two cores; docs/faults.md has the last output. ARGS="--only kills --kills 10" does less.
faults: export OMP_NUM_THREADS ?= 1
faults: $(STAMP) ## kill runs, damage their files, mutate robots; count what goes wrong
	@PYTHONPATH=tests $(BIN)/python -m faults $(ARGS)

# On a machine with a CUDA device; docs/performance.md has the last output.
gpu: $(STAMP) ## run the tests that need a GPU, and measure its speed
	@$(BIN)/python -m pytest -m gpu $(ARGS)
	@$(BIN)/ahac bench tasks hopper ant anymal humanoid snu_humanoid --device cuda --worlds 128 512 1024 4096 --json gpu-tasks.json
	@$(BIN)/ahac bench train --device cuda --worlds 512 --horizon 32 --json gpu-train.json

clean: ## remove build outputs and caches
	@rm -rf build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the virtual environment too
	@rm -rf $(VENV)

# A stamp is older than pyproject.toml when the dependencies may have changed, and missing when an install failed.
$(STAMP): $(TRAIN)
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --group dev
	@# For its robots alone: what it would bring along is not needed, and too much.
	@$(PIP) install --no-deps 'mjlab>=1.6'
	@touch $@

$(TRAIN): pyproject.toml
	@if [ ! -x $(BIN)/python ]; then \
	    found=; \
	    for candidate in $(CANDIDATES); do \
	        if $$candidate -c '$(SUITABLE)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$found" ]; then \
	        echo "make: no Python 3.11-3.13 with the venv module among: $(CANDIDATES); set PYTHON=/path/to/python" >&2; \
	        exit 1; \
	    fi; \
	    echo "creating $(VENV) with $$($$found --version)"; \
	    $$found -m venv $(VENV); \
	fi
	@echo 'installing ahac into $(VENV) (torch is a large download; `make TORCH=cpu ...` installs the small CPU build)'
	@$(PIP) install --quiet --upgrade 'pip>=25.1'
	@if [ "$(TORCH)" = cpu ]; then $(PIP) install torch --index-url $(CPU_INDEX); fi
	@$(PIP) install --editable .
	@touch $@
