# SPDX-License-Identifier: Apache-2.0
# Needs make and Python 3.10 or newer; everything else is put into .venv and .cache.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
export PATH := $(CURDIR)/$(BIN):$(CURDIR)/.cache/gobin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help venv demo test pythons schemas tables lint format types docs interop runtimes browser bench bench-smoke soak soak-smoke registry clean

help: ## Say what the targets do
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 22

venv: $(VENV)/.tools ## Make .venv with the package and all development tools

demo: $(VENV)/.package ## Push a carton to an OCI layout, pull it back, compare
	@sh examples/demo.sh

test: $(VENV)/.tools ## Run the tests against a real registry (ARGS="-k name" goes to pytest)
	@sh tests/tools/get_registry.sh
	$(PYTEST) --numprocesses auto --dist loadgroup $(ARGS)

pythons: $(VENV)/.tools ## Check on Python 3.10 and 3.13, where they are installed, that digests do not depend on it
	@sh tests/tools/other_pythons.sh 3.10 3.13

schemas: $(VENV)/.package ## Write schemas/ anew from the types
	$(BIN)/python -m ocibridge.schemas schemas

tables: $(VENV)/.tools ## Write the conversion table of docs/formats anew
	OCIBRIDGE_WRITE_DOCS=1 $(PYTEST) tests/operations/test_conversions.py

lint: $(VENV)/.tools ## Check format and style
	$(BIN)/ruff format --check
	$(BIN)/ruff check

format: $(VENV)/.tools ## Bring the code into format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

types: $(VENV)/.tools ## Check types
	$(BIN)/mypy

docs: $(VENV)/.tools ## Run the commands that the documentation shows
	@sh tests/tools/get_registry.sh
	$(PYTEST) tests/docs $(ARGS)

interop: $(VENV)/.tools ## Exchange artifacts with other tools (skopeo, and where Go is there oras and crane)
	@sh tests/tools/get_registry.sh
	@sh tests/tools/get_peers.sh
	@sh tests/tools/get_mlsteam_sdk.sh
	$(PYTEST) -m interop tests/interop $(ARGS)

runtimes: $(VENV)/.tools ## Mount what is published in containerd, CRI-O and podman, build the container image (Debian, root, Go)
	@sh tests/tools/get_registry.sh
	@sh tests/tools/get_peers.sh oras crane
	@sh tests/tools/get_runtimes.sh $(BIN)/python
	$(PYTEST) --numprocesses 3 --dist loadfile -m runtimes tests/runtimes $(ARGS)

browser: $(VENV)/.tools ## Open the report of a mirror job in Chromium (Debian: apt-get install chromium)
	$(PIP) install --quiet --group browser
	$(PYTEST) -m browser tests/mirror $(ARGS)

bench: $(VENV)/.tools ## Compare with other tools, and write docs/benchmarks.md (about 25 minutes; one part with ARGS=--only=tls)
	@sh tests/tools/get_registry.sh
	@sh tests/tools/get_peers.sh oras regsync
	$(BIN)/python -m benchmarks --write docs/benchmarks.md $(ARGS)

bench-smoke: $(VENV)/.tools ## Run every command of the benchmarks once, on tiny models
	@sh tests/tools/get_registry.sh
	@sh tests/tools/get_peers.sh oras regsync
	$(BIN)/python -m benchmarks --smoke $(ARGS)

soak: $(VENV)/.tools ## Move 2,000 random models over connections with random faults (about 12 minutes; ARGS="--seed S")
	@sh tests/tools/get_registry.sh
	$(BIN)/python -m tests.soak $(ARGS)

soak-smoke: $(VENV)/.tools ## The same with 200
	@sh tests/tools/get_registry.sh
	$(BIN)/python -m tests.soak --transfers 200 --seed 1 $(ARGS)

registry: ## Serve a registry to play with at localhost:5000
	@sh tests/tools/serve_registry.sh

clean: ## Remove everything that make has made
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
	find ocibridge tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.package: pyproject.toml
	@sh tests/tools/make_venv.sh "$(PYTHON)" $(VENV)
	$(PIP) install --editable .
	@touch $@

# Dependency groups need pip 25.1; the pip that comes with Python may be older.
$(VENV)/.tools: $(VENV)/.package
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --group test --group lint
	@touch $@
