# Every target sets up what it needs; `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
PEERS  := .venv-peers

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types unit bench claims docs clean

help:  ## say what each target does
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/.installed  ## make the virtual environment

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "transect needs Python 3.11 or newer; say which with: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --constraint constraints.txt --editable '.[dev,docs]'
	@touch $@

demo: setup  ## run the main job on Gemma 3 270M and print the verdict
	$(BIN)/transect probe --model demo --data cities --test neg_cities --test larger_than --controls untrained --out runs/cities --overwrite

test: check unit docs  ## lint, types, tests and docs

check: lint types  ## lint and types

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: setup
	$(BIN)/pytest -n auto

docs: setup  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup $(PEERS)/.installed  ## speed and memory, side by side with the peers
	$(BIN)/python benchmarks/capture.py --peers-python $(PEERS)/bin/python
	$(BIN)/python benchmarks/sweep.py
	$(BIN)/python benchmarks/bootstrap.py
	$(BIN)/python benchmarks/nullspace.py
	$(BIN)/python benchmarks/stress.py
	$(BIN)/python benchmarks/monitor.py
	$(BIN)/python benchmarks/mixers.py
	$(BIN)/python benchmarks/triangular.py

$(PEERS)/.installed: benchmarks/peers.txt constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install --constraint constraints.txt --requirement benchmarks/peers.txt
	@touch $@

claims: setup  ## measure the papers' claims at this scale
	$(BIN)/python -m claims

clean:  ## remove what the other targets made here
	rm -rf $(VENV) $(PEERS) site runs .pytest_cache .ruff_cache
