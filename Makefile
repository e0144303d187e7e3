# `make help` lists what there is. Everything runs in .venv, which `make` makes.

# The first interpreter that fits; `make PYTHON=python3.13 …` takes another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.10 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$python; break; }; done)

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
comma := ,
DATA := .demo/flights-data
OUT := out/flights

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: .venv/installed-demo ## Set up, convert New York's flights of 2013, show what came out
	$(BIN)/python examples/flights/get_data.py --output $(DATA)
	$(BIN)/beam-pipelines convert examples/flights/recipe.yaml --output $(OUT) --overwrite
	$(BIN)/beam-pipelines inspect $(OUT) -n 1
	@echo
	@echo "The dataset:  $(OUT)"
	@echo "Its report:   $(OUT)/report.html (open it in a browser)"

.PHONY: test
test: .venv/installed-dev ## Set up and run the tests
	$(BIN)/python -m pytest -m "not slow" -n 2 $(PYTEST_OPTIONS)

.PHONY: test-slow
test-slow: .venv/installed-dev ## Run the tests that take long
	$(BIN)/python -m pytest -m slow $(PYTEST_OPTIONS)

.PHONY: browser
browser: ## Install Chromium (on Debian and Ubuntu), for the tests of the report; without it they are skipped
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

.PHONY: lint
lint: .venv/installed-dev ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: .venv/installed-dev ## Check types
	$(BIN)/mypy

.PHONY: imports
imports: .venv/installed-dev ## Check that imports point downward
	$(BIN)/lint-imports

.PHONY: format
format: .venv/installed-dev ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: bench
bench: .venv/installed-dev ## Measure a whole conversion next to the loop people write today
	$(BIN)/python benchmarks/bench_convert.py

.PHONY: check
check: lint types imports test ## Everything CI runs, in its order

.PHONY: clean
clean: ## Remove what make made: environment, demo data and output, caches
	rm -rf .venv .demo out build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is made anew only when there is none; it is filled again when what has to be in it changes.
.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 to 3.13 found. Install Python 3.11, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# On Python 3.10 two releases that we need contradict each other (constraints.txt says which), so that the list is installed as it stands.
define install
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 11))'; then \
		$(PIP) --no-deps --requirement constraints.txt && $(PIP) --no-deps --editable .; \
	else \
		$(PIP) --constraint constraints.txt --editable '.[$(1)]'; \
	fi
	@touch $@
endef

.venv/installed-demo: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,demo)

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,demo$(comma)dev$(comma)test)
