# Development tasks. `make` lists them; each creates the virtual environment first if it is missing.
#
#   make test PYTHON=python3.12         select the interpreter for a new virtual environment
#   make test ARGS="-k contact -x"      pass arguments to pytest, ahac train or ahac bench
#   make test JOBS=4                    set the number of test processes
#   make train TORCH=cpu                install torch without the CUDA libraries

VENV  := .venv
BIN   := $(VENV)/bin
PIP   := $(BIN)/python -m pip
STAMP := $(VENV)/.installed
TRAIN := $(VENV)/.installed-for-training
DOCS  := $(VENV)/.installed-for-docs

# If PYTHON is empty, the first suitable interpreter of these is used.
PYTHON     ?=
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
# `cpu` installs torch without the CUDA libraries, which take 6 GB; if empty, pip decides.
TORCH      ?=
CPU_INDEX  := https://download.pytorch.org/whl/cpu
JOBS       ?= auto
ARGS       ?=

# Candidates are run, not only looked up: version managers leave names on the path that do not start, and some systems
# ship Python without the modules that create a virtual environment.
SUITABLE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help install test test-extended test-all lint format docs docs-serve train bench faults robots behavior gradients gpu dist clean distclean

help: ## list these tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## create .venv and install the project with its development tools

# Each test file runs in one process, so that its fixtures compile their robots once. Files are distributed by name:
# long tests come before the many short ones in tests/unit, which balance the load at the end. OMP_NUM_THREADS=1 because
# the processes share the cores; a thread pool inside each would slow them down.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

test test-extended: export OMP_NUM_THREADS ?= 1
test: $(STAMP) ## run the tests (five minutes on two cores)
	@$(PYTEST) -m 'not extended' $(ARGS)

# ARGS may select files without extended tests; then pytest's status 5, nothing collected, is not a failure.
test-extended: $(STAMP) ## run the extended tests only: more robots, seeds and settings
	@$(PYTEST) -m extended $(ARGS) $(if $(strip $(ARGS)),|| [ $$? -eq 5 ])

test-all: test test-extended ## run all tests

lint: $(STAMP) ## check style, formatting, types and import layers
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright
	@$(BIN)/lint-imports

format: $(STAMP) ## fix style and formatting automatically
	@$(BIN)/ruff check --fix-only
	@$(BIN)/ruff format

# Warnings are errors: broken links and anchors, pages that mkdocs.yml does not list, names that do not exist.
docs docs-serve: export NO_MKDOCS_2_WARNING := 1
docs: $(DOCS) ## build the documentation site into site/
	@$(BIN)/mkdocs build --quiet --strict

docs-serve: $(DOCS) ## show the documentation at http://localhost:8000, and again after every change
	@$(BIN)/mkdocs serve --dev-addr localhost:8000

# Ctrl-C stops with a checkpoint; continue with `ahac resume`. The last line that `ahac train` prints is the run folder.
train: $(TRAIN) ## train a quadruped, the Go1, and evaluate it in MuJoCo
	@result=$$($(BIN)/ahac train go1 $(ARGS)) || exit $$?; \
	printf '%s\n' "$$result"; \
	run=$$(printf '%s\n' "$$result" | tail -n 1); \
	[ -f "$$run/config.json" ] || exit 0; \
	$(BIN)/ahac eval "$$run" --engine mujoco || exit $$?; \
	echo "to watch it:                  $(BIN)/pip install '.[view]' && $(BIN)/ahac play $$run"; \
	echo "to save a page that plays it: $(BIN)/ahac play $$run --record go1.html"

bench: $(STAMP) ## measure the simulator's speed on this machine
	@$(BIN)/ahac bench robots $(ARGS)

# docs/faults.md has the last output. ARGS="--only kills --kills 10" runs a part.
faults: export OMP_NUM_THREADS ?= 1
faults: $(STAMP) ## kill runs, damage files, mutate robots, and count failures (half an hour)
	@PYTHONPATH=tests $(BIN)/python -m faults $(ARGS)

# docs/contact.md has the last output. ARGS="--only bodies" prints a part.
behavior: export OMP_NUM_THREADS ?= 1
behavior: $(STAMP) ## compare contact with MuJoCo's (ten minutes)
	@PYTHONPATH=tests $(BIN)/python -m behavior $(ARGS)

# ARGS="--only mjlab brax" examines some packages; files that were examined before are not examined again.
robots: export OMP_NUM_THREADS ?= 1
robots: $(STAMP) ## load and simulate the robots of a dozen public packages, and count refusals (half an hour)
	@PYTHONPATH=tests $(BIN)/python -m robots $(ARGS)

# Writes docs/gradient-comparison.md. ENGINES is the interpreter of an environment with the other engines; without it, only
# ours is measured. What docs/results/gradient-comparison.json has is not measured again, except with ARGS="--again".
ENGINES ?= $(BIN)/python
gradients: export OMP_NUM_THREADS ?= 1
gradients: $(STAMP) ## compare gradients with those of Brax, MJX and Newton, and with differences (an hour or two)
	@PYTHONPATH=tests $(BIN)/python -m gradient_comparison --python $(ENGINES) $(ARGS)

# Needs a CUDA device; docs/performance/ has the last output.
gpu: $(STAMP) ## run the GPU tests and benchmarks
	@$(BIN)/python -m pytest -m gpu $(ARGS)
	@$(BIN)/ahac bench tasks hopper ant anymal humanoid snu_humanoid --device cuda --worlds 128 512 1024 4096 --json gpu-tasks.json
	@$(BIN)/ahac bench train --device cuda --worlds 512 --horizon 32 --json gpu-train.json

# Old files are removed first: twine uploads everything in dist/. docs/releasing.md has the steps around it.
dist: $(STAMP) ## build wheel and source distribution, and check that they are complete and work
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/twine check --strict dist/*
	@PYTHONPATH=tests $(BIN)/python -m distribution dist

clean: ## remove build outputs and caches
	@rm -rf build dist site .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also remove the virtual environment
	@rm -rf $(VENV)

# A stamp is outdated if the dependencies may have changed since, and missing if an install failed.
$(STAMP): $(TRAIN)
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --group dev
	@# Only for its robots; its dependencies are not needed and large.
	@$(PIP) install --no-deps 'mjlab>=1.6'
	@touch $@

$(DOCS): $(TRAIN)
	@echo "installing the tools of the documentation into $(VENV)"
	@$(PIP) install --quiet --group docs
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
