# `make help` lists what there is. Everything runs in .venv, which `make` makes.

# The first interpreter that fits; `make PYTHON=python3.13 …` takes another.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.10 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && { echo $$python; break; }; done)

BIN := .venv/bin
comma := ,
DATA := .demo/flights-data
# A command that enters a system with glibc 2.39 or later, with this folder and Python in it; empty: this system has it.
TFX_ENTER ?=
OUT := out/flights
# Tests without a target of their own.
UNMARKED := not adapters and not faults and not slow and not tfx and not runners and not engines_large and not native and not remote and not dist and not databases
# Each process runs half of the tests, whose fixtures it then makes alone, and takes over tests of the other at the end.
IN_TWO := -n 2 --dist worksteal
SECONDS ?= 60
# pytest keeps the test modules that it has compiled, 6 s of each process that collects the tests.
export PYTHONDONTWRITEBYTECODE :=

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
test: .venv/installed-dev ## Set up and run the tests that need no engine, server or whole conversion
	$(BIN)/python -m pytest -m "not end_to_end and $(UNMARKED)" $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-newest
test-newest: .venv-newest/installed ## Run the tests of `make test` with the newest packages that pip picks
	.venv-newest/bin/python -m pytest -m "not end_to_end and $(UNMARKED)" $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-lowest
test-lowest: .venv-lowest/installed ## Run tests that touch each dependency with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -m "not end_to_end and $(UNMARKED)" tests/sources tests/sql tests/encodings tests/tfrecord tests/reader $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-end-to-end
test-end-to-end: .venv/installed-dev ## Run the tests that convert whole datasets, or start commands
	$(BIN)/python -m pytest -m "end_to_end and $(UNMARKED)" $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-all
test-all: .venv/installed-dev ## Run both of these in one go, which collects the tests once
	$(BIN)/python -m pytest -m "$(UNMARKED)" $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-remote
test-remote: .venv/installed-dev ## Run the tests with object stores, and with Dataflow's interface, on servers of their kind on this machine
	$(BIN)/python -m pytest tests/files tests/integrations -m remote $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: databases
databases: ## Install PostgreSQL and MariaDB (on Debian and Ubuntu), for the tests of databases; without them they are skipped
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql >/dev/null; }
	@PATH="$$PATH:/usr/sbin" command -v mariadbd >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server >/dev/null; }

.PHONY: test-databases
test-databases: .venv/installed-dev ## Run the tests with database servers on this machine, which `make databases` installs
	$(BIN)/python -m pytest plugins/tests/databases -m databases $(PYTEST_OPTIONS)

.PHONY: test-faults
test-faults: .venv/installed-dev ## Break conversions on purpose, at 100 moments of each kind; FAULT_MOMENTS=4 is quick
	$(BIN)/python -m pytest tests/faults -m faults $(PYTEST_OPTIONS)

.PHONY: test-faults-quick
test-faults-quick: .venv/installed-dev ## Break some conversions on purpose
	FAULT_MOMENTS=4 $(BIN)/python -m pytest tests/faults -m faults -k "moment or fills_up or at_once or operation_that_fails" $(PYTEST_OPTIONS)

.PHONY: test-slow
test-slow: .venv/installed-dev ## Run the tests that take long
	$(BIN)/python -m pytest -m "slow and not adapters" $(PYTEST_OPTIONS)

.PHONY: test-native
test-native: .venv/installed-dev ## Build the C++ kernels with sanitizers, test and fuzz them (needs a C++ compiler)
	$(BIN)/python -m pytest tests/core/test_native_sanitized.py -m native $(PYTEST_OPTIONS)

.PHONY: fuzz
fuzz: .venv/installed-fuzz ## Fuzz what reads the files of strangers, one reader after the other, SECONDS each (default: 60)
	nice -n 19 $(BIN)/python -m tests.fuzz all --seconds $(SECONDS)

.PHONY: test-tfx
test-tfx: .venv-tfx/installed ## Run the tests with TFX, in an environment of its own (glibc 2.39 or later)
	$(TFX_ENTER) .venv-tfx/bin/python -m pytest tests/integrations/tfx -m tfx $(PYTEST_OPTIONS)

.PHONY: test-tfx-all
test-tfx-all: .venv-tfx/installed ## Run all other tests with the older libraries that TFX allows
	$(TFX_ENTER) .venv-tfx/bin/python -m pytest -m "$(UNMARKED)" $(IN_TWO) $(PYTEST_OPTIONS)

.PHONY: test-adapters
test-adapters: .venv-adapters/installed ## Run the tests with PyTorch, JAX, Lightning, Grain, Hugging Face, Keras and Ray, in an environment of its own (10 GB)
	KERAS_BACKEND=torch .venv-adapters/bin/python -m pytest tests/adapters -m "adapters or not adapters" $(PYTEST_OPTIONS)

.PHONY: prism
prism: .engines/prism ## Build Prism, Beam's own small engine, of the Beam that is pinned (needs Go)

.PHONY: flink
flink: .venv/installed-dev flink-jars ## Fetch Flink (needs Java and Maven), start a cluster here and keep it until Ctrl-C
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tests.engines.engines

.PHONY: flink-jars
flink-jars: .engines/flink-job-server/lib .engines/flink-cluster/lib ## Fetch Flink and Beam's job server for it (needs Java and Maven)

.PHONY: spark-jars
spark-jars: .engines/spark-job-server/lib ## Fetch Spark and Beam's job server for it (needs Java and Maven)

.PHONY: test-runners
test-runners: .venv/installed-dev ## Run one suite on all runners that are installed; says which are not (make prism flink-jars spark-jars)
	$(BIN)/python -m pytest tests/engines -m runners $(PYTEST_OPTIONS)

.PHONY: test-flink
test-flink: .venv/installed-dev flink-jars ## Run that suite on Flink alone, embedded and as a cluster that loses a TaskManager
	$(BIN)/python -m pytest tests/engines -m "flink or flink_cluster" $(PYTEST_OPTIONS)

.PHONY: dataflow-proof
dataflow-proof: .venv/installed-dev ## Run an example on Dataflow (PROJECT=… BUCKET=…, your account pays), and write dataflow-proof.json
	@test -n "$(PROJECT)" -a -n "$(BUCKET)" || { echo "Found no PROJECT or no BUCKET: make dataflow-proof PROJECT=my-project BUCKET=my-bucket" >&2; exit 2; }
	$(BIN)/python dataflow/proof.py --project "$(PROJECT)" --bucket "$(BUCKET)" $(PROOF_OPTIONS)

.PHONY: test-engines-large
test-engines-large: .venv/installed-dev ## Convert a million rows and more on all engines that are installed, for a night (make prism flink-jars spark-jars)
	$(BIN)/python -m pytest tests/engines_large -m engines_large $(PYTEST_OPTIONS)

.PHONY: test-engines-smallest
test-engines-smallest: .venv/installed-dev ## The smallest case of it: 300,000 rows on embedded Flink
	BEAM_PIPELINES_LARGE_ROWS=300000 $(BIN)/python -m pytest tests/engines_large -m "engines_large and flink" -k "clicks_csv" $(PYTEST_OPTIONS)

.PHONY: test-runners-quick
test-runners-quick: .venv/installed-dev ## Run a part of it: some conversions, a resumed one, errors and an interruption on Prism and embedded Flink
	$(BIN)/python -m pytest tests/engines -m "prism or flink" -k "everything or sequences or union or through_engine or resume or errors or other_versions or SIGINT" --durations=5 $(PYTEST_OPTIONS)

.PHONY: browser
browser: ## Install Chromium (on Debian and Ubuntu), for the tests of the report; without it they are skipped
	@command -v chromium >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; }

.PHONY: editor
editor: ## Install the language server of YAML (needs npm), for the test of the recipes' JSON Schema; without it it is skipped
	npm install --silent --no-audit --no-fund --prefix .node yaml-language-server@1.25.0

.PHONY: lint
lint: .venv/installed-dev ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

.PHONY: types
types: types-mypy types-pyright ## Check types

.PHONY: types-mypy types-pyright
types-mypy: .venv/installed-dev
	$(BIN)/mypy
types-pyright: .venv/installed-dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

.PHONY: imports
imports: .venv/installed-dev ## Check that imports point downward
	$(BIN)/lint-imports

.PHONY: format
format: .venv/installed-dev ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

.PHONY: api
api: .venv/installed-dev ## Write docs/api.md from the docstrings, and docs/troubleshooting.md from the messages
	$(BIN)/python -m tests.support.api_page
	$(BIN)/python -m tests.support.troubleshooting_page

.PHONY: docs
docs: .venv-docs/installed .venv/installed-dev ## Build the documentation as a site into out/docs, with a skill for programs
	.venv-docs/bin/python website/build.py
	$(BIN)/beam-pipelines schema recipe --quiet --output out/docs/skill/recipe.schema.json

.PHONY: dist
dist: .venv/installed-dev ## Build sdists and wheels of the three packages into dist/ (the reader has the kernels: needs a C++ compiler)
	rm -rf dist build
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist ./plugins
	$(BIN)/python -m build --outdir dist/built ./reader
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/built/*.whl
	mv dist/built/*.tar.gz dist
	rm -rf dist/built build plugins/build

.PHONY: test-dist
test-dist: dist ## Install them in fresh environments, with each Python that is here: convert, and test the reader alone
	$(BIN)/python -m pytest tests/test_dist.py -m dist $(PYTEST_OPTIONS)

.PHONY: test-release
test-release: test-runners test-engines-smallest test-faults test-slow test-native ## Run what CI leaves out, before a release (hours; make prism flink-jars spark-jars)

.PHONY: release
release: test-dist .venv-release/installed ## Build and test the wheels, and put a list of packages, checksums and notes beside them; uploads nothing
	.venv-release/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	.venv-release/tool/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file dist/sbom.cdx.json .venv-release/bin/python
	awk '/^## \[[0-9]/ { found++ } found == 1' CHANGELOG.md > dist/NOTES.md
	cd dist && sha256sum * > ../SHA256SUMS && mv ../SHA256SUMS .

.PHONY: bench
bench: .venv/installed-dev ## Measure a whole conversion next to the loop people write today
	$(BIN)/python benchmarks/bench_convert.py

.PHONY: hollow
hollow: .venv/installed-dev ## Do what one worker does at 100 TB, without the rows: within 2 GiB and ten minutes
	$(BIN)/python benchmarks/hollow.py

.PHONY: check
check: lint types imports test-all ## Style, types, imports, tests: what CI runs but for engines and object stores

.PHONY: clean
clean: ## Remove what make made: environment, demo data and output, caches
	rm -rf .venv .venv-adapters .venv-docs .venv-lowest .venv-newest .venv-release .venv-tfx .demo out build reader/build plugins/build dist *.egg-info reader/*.egg-info plugins/*.egg-info .pytest_cache .fuzz .hypothesis .mypy_cache .ruff_cache .import_linter_cache .engines beam_pipelines/core/_native/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Prism is built of the release of Beam that is pinned; Beam would download it.
.engines/prism: constraints.txt
	@command -v go >/dev/null || { echo "Go is not installed: Prism cannot be built. Install Go 1.25 or later." >&2; exit 1; }
	GOBIN="$(CURDIR)/.engines" go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$$(sed -n 's/^apache-beam==//p' constraints.txt)
	@touch $@

.engines/%/lib: tests/engines/maven/pom.xml tests/engines/maven/%/pom.xml
	@command -v mvn >/dev/null && command -v java >/dev/null || { echo "Java or Maven is not installed: $* cannot be fetched. Install a JDK (17) and Maven." >&2; exit 1; }
	mvn --quiet --batch-mode --file tests/engines/maven/pom.xml --projects $* package
	@touch $@

# An environment is made anew only when there is none; it is filled again when what has to be in it changes.
.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 to 3.13 found. Install Python 3.11, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# Installs into an environment ($(1)) what arguments ($(2)) of pip say. uv takes less than half of pip's time; pip does it where uv cannot be had,
# or does not find the packages: it does not read pip's configuration.
define pip_install
	{ $(1)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv && \
	$(1)/bin/python -m uv pip install --quiet --compile-bytecode --python $(1)/bin/python $(2); } || \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2)
endef

# Compiled, the command starts 0.3 s sooner: pip compiles what it installs, but for what stays where it is, and a run may not be allowed to write beside it.
# On Python 3.10 two releases that we need contradict each other (constraints.txt says which), so that the list is installed as it stands.
define install
	@if $(BIN)/python -c 'import sys; sys.exit(sys.version_info >= (3, 11))'; then \
		$(call pip_install,.venv,--no-deps --requirement constraints.txt --editable ./reader --editable ./plugins --editable .); \
	else \
		$(call pip_install,.venv,--constraint constraints.txt --editable ./reader --editable '.[$(1)]' --editable ./plugins); \
	fi
	@$(BIN)/python -m compileall -q beam_pipelines plugins/beam_pipelines_plugins
	@touch $@
endef

# What the extension is built from: an editable install builds it in place.
NATIVE := reader/setup.py $(wildcard beam_pipelines/core/_native/*.cc beam_pipelines/core/_native/*.h)

.venv/installed-demo: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints.txt $(NATIVE) | .venv/bin/python
	$(call install,demo)

.venv/installed-dev: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints.txt $(NATIVE) | .venv/bin/python
	$(call install,demo$(comma)dev$(comma)test)

.venv/installed-fuzz: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints.txt $(NATIVE) | .venv/bin/python
	$(call install,demo$(comma)dev$(comma)fuzz$(comma)test)

# Without constraints; an editable install puts the kernels where .venv has them.
.venv-newest/installed .venv-lowest/installed: pyproject.toml reader/pyproject.toml plugins/pyproject.toml $(NATIVE)
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(@D)/bin/python -m uv pip install --quiet --python $(@D)/bin/python $(if $(findstring lowest,$@),--resolution lowest-direct) --editable ./reader --editable '.[demo,test]' --editable ./plugins
	@touch $@

.venv-docs/installed: website/requirements.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.10 to 3.13 found. Install Python 3.11, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv-docs
	@$(call pip_install,.venv-docs,--requirement website/requirements.txt)
	@touch $@

# PyTorch and Ray are large, and most work needs neither.
.venv-adapters/installed: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints.txt tests/adapters/requirements.txt $(NATIVE)
	@test -n "$(PYTHON)" || { echo "No Python 3.10 to 3.13 found. Install Python 3.11, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	$(PYTHON) -m venv .venv-adapters
	@$(call pip_install,.venv-adapters,--constraint constraints.txt --requirement tests/adapters/requirements.txt --editable ./reader --editable '.[demo$(comma)test]' --editable ./plugins)
	@# It asks for older Hugging Face datasets, which its loader and checkpoints do not use.
	.venv-adapters/bin/python -m pip install --quiet --disable-pip-version-check --no-deps torchtitan==0.3.0
	@touch $@

# What users get, and beside it the program that lists it.
.venv-release/installed: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-release
	$(PYTHON) -m venv .venv-release/tool
	@$(call pip_install,.venv-release,--constraint constraints.txt ./reader . ./plugins)
	@$(call pip_install,.venv-release/tool,'cyclonedx-bom==7.*')
	@touch $@

# TFX's wheels are for glibc 2.39 and later, which pip does not say where it finds none that fits. What another system's compiler makes of the
# kernels would lie where ours does, and not load here; the one dependency that has to be compiled is, here.
.venv-tfx/installed: pyproject.toml reader/pyproject.toml plugins/pyproject.toml constraints-tfx.txt
	@$(TFX_ENTER) $(PYTHON) -c 'import os, sys; found = os.confstr("CS_GNU_LIBC_VERSION"); \
		sys.exit(None if tuple(map(int, found.split()[1].split("."))) >= (2, 39) else f"TFX needs glibc 2.39 or later, found {found}. See docs/tfx.md: TFX_ENTER.")'
	$(TFX_ENTER) $(PYTHON) -m venv .venv-tfx
	$(if $(TFX_ENTER),$(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps --constraint constraints-tfx.txt --wheel-dir .venv-tfx/wheels pyfarmhash)
	$(TFX_ENTER) $(if $(TFX_ENTER),env CC=false CXX=false) .venv-tfx/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-tfx.txt --find-links .venv-tfx/wheels --editable ./reader --editable '.[demo,test,tfx]' --editable ./plugins
	@touch $@
