# Everything a newcomer needs: `make demo`, `make test`. Each target sets up its own part of .venv, once.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n logical --dist worksteal
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-all browser recorded lint format bench readme tables red kills mutation fuzz interop clean help
.DEFAULT_GOAL := help

help:  ## what there is to make
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "glasshead needs Python 3.11, 3.12 or 3.13 on the PATH (or make PYTHON=/path/to/python)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	$(PIP) -e . && touch $@

$(VENV)/.test: $(VENV)/.core
	$(PIP) -e '.[test]' && $(PIP) --no-deps rxnmapper==0.4.3 && touch $@  # a published model; its dependencies are not needed

$(VENV)/.lint: $(VENV)/.test
	$(PIP) -e '.[lint]' && touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP) -e '.[bench]' && touch $@

demo: $(VENV)/.core  ## recover an attention head before your eyes
	@$(BIN)/glasshead demo

test: $(VENV)/.test  ## run the tests, but the few that take more than 10 s each
	$(PYTEST) -m "not slow"

test-all: $(VENV)/.test  ## run every test
	$(PYTEST)

recorded: $(VENV)/.test  ## run the recorded boxes again and list what has changed
	$(BIN)/python -m tests.recorded --against tests/recorded/runs.json

browser:  ## install Debian's Chromium, which the tests of the HTML report drive (needs root)
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 || { echo "make browser installs a package: run it as root"; exit 1; }; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null; }
	@chromium --version

lint: $(VENV)/.lint  ## style, types, and who may import whom, here and in what docs/how-to-extend.md adds
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python --project pyproject.toml
	@said=$$(PYTHONPATH=src $(BIN)/pyright --pythonpath $(BIN)/python --verifytypes glasshead --ignoreexternal) || { echo "$$said"; exit 1; }
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python -m tests.extending

format: $(VENV)/.lint  ## let ruff tidy the code
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .

bench: $(VENV)/.bench  ## measure; writes bench/results/*.json
	$(BIN)/python -m bench.run

red: $(VENV)/.test  ## try to break the promise: 15,000 boxes with fresh seeds (make red BOXES=500 for a taste)
	$(BIN)/python -m tests.red --boxes $(or $(BOXES),15000)

kills: $(VENV)/.test  ## kill a run over HTTP 50 times, and its server 50 times; what journals and requests cost
	$(BIN)/python -m bench.run --only journal && $(BIN)/python -m bench.run --only boxes

mutation: $(VENV)/.test  ## would the tests notice: a sample of small faults in meters, schemes and checks
	$(BIN)/python -m tests.mutation

interop: $(VENV)/.test  ## heads behind MLServer and KServe, vLLM, clients of others for glasshead serve, executors: environments in .interop (INTEROP=..)
	$(BIN)/python -m tests.interop --folder $(or $(INTEROP),.interop)

.fuzz/bin/schemathesis: | $(BIN)/python
	$(BIN)/python -m venv .fuzz && .fuzz/bin/python -m pip install --quiet --disable-pip-version-check schemathesis==4.*

.fuzz/open_inference_rest.yaml: | $(VENV)/.test
	$(BIN)/python -m tests.serve.specification

fuzz: $(VENV)/.test .fuzz/bin/schemathesis .fuzz/open_inference_rest.yaml  ## 5,000 requests that are nearly right, and 5,000 files that nearly are models
	$(BIN)/python -m tests.serve.fuzz

tables: $(VENV)/.core  ## write the pages of docs/ that are made from measured numbers or from the code
	$(BIN)/python -m bench.pages

readme: $(VENV)/.core  ## put the measured numbers and the picture into README.md
	$(BIN)/python -m bench.readme

clean:  ## remove the environment and what was made
	rm -rf $(VENV) demo .pytest_cache .ruff_cache .import_linter_cache
