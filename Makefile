# The whole of development behind a few words: `make help` lists them.
# Needs GNU make, Python 3.11 or newer (PYTHON=... names another interpreter) and a package index that pip can reach.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SCRATCH := build/constraints
CACHES := .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist

PYTEST := pytest --numprocesses=4 --dist=worksteal

PYTHON ?=
ARGS ?=

# Whatever environment is active in the caller's shell, ours is $(VENV). Without compiled files each worker of
# pytest would compile all tests again, which takes 8 s.
unexport VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK = 1

# $(call create,FOLDER): an environment with pip in it; an unfinished or broken one is made anew.
# Python 3.11 comes first, because constraints.txt is made with it.
define create
if ! $(1)/bin/python -m pip --version >/dev/null 2>&1; then \
	for python in $(or $(PYTHON),python3.11 python3 python3.12 python3.13 python3.14 python); do \
		$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break; \
		python=; \
	done; \
	if [ -z "$$python" ]; then echo "$(or $(PYTHON),python3) is not Python 3.11 or newer: name one with PYTHON=..." >&2; exit 1; fi; \
	echo "setup: $(1) with $$($$python --version)"; \
	$$python -m venv --clear $(1); \
fi
endef

# $(call install,FOLDER,OPTIONS): pip first, as older ones do not know dependency groups; then tools and peers; then ourselves.
define install
echo "setup: pip"
$(1)/bin/python -m pip install --quiet --upgrade $(2) pip
echo "setup: tools and peers (the first time takes a minute)"
$(1)/bin/python -m pip install --quiet $(2) --group dev --group peers --group servers
echo "setup: dragoman"
$(1)/bin/python -m pip install --quiet $(2) --no-build-isolation --editable .
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo demo-sidecar test style types pytest lint bench chaos soak sessions fuzz docs format coverage constraints clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## create .venv with all dependencies; does nothing if it is up to date

$(STAMP): pyproject.toml constraints.txt
	@$(call create,$(VENV))
	@$(call install,$(VENV),--constraint constraints.txt)
	@touch $@

demo: setup ## watch clients of all four dialects talk to one bundled backend through the gateway
	@$(BIN)/dragoman demo

demo-sidecar: setup ## show tokens, TLS, reload, readiness, metrics and drain of a gateway beside the demo agent
	@$(BIN)/python -m tests.demo_sidecar

# mypy takes a minute of one core, so the tests run beside it.
test: style ## run lint and all tests; ARGS="..." is passed to pytest
	@$(MAKE) --no-print-directory --jobs=2 types pytest

lint: style types ## run ruff, mypy --strict and the import rules

style: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup
	$(BIN)/lint-imports
	$(BIN)/mypy

pytest: setup
	$(BIN)/$(PYTEST) $(ARGS)

bench: setup ## run the benchmarks; ARGS="..." is passed to them
	$(BIN)/python -m tests.bench $(ARGS)

chaos: setup ## break connections and kill processes for 5 minutes, and write docs/reliability.md; ARGS="--seconds N --seed S"
	$(BIN)/python -m tests.chaos chaos $(ARGS)

soak: setup ## run 200 clients for 10 minutes and show what grows; ARGS="--minutes N --write"
	$(BIN)/python -m tests.chaos soak $(ARGS)

sessions: setup ## open and leave 100,000 sessions (10 minutes) and show what stays; ARGS="--sessions N --write"
	$(BIN)/python -m tests.chaos sessions $(ARGS)

fuzz: setup ## fuzz every parser for 5 minutes with atheris, or with hypothesis; ARGS="--seconds N --parser NAME"
	$(BIN)/python -m tests.fuzz $(ARGS)

docs: setup ## write docs/fidelity.md and the generated parts of README.md, docs/design.md and docs/recording.md
	$(BIN)/python -m tests.docs

format: setup ## sort imports and format
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

coverage: setup ## report the test coverage of each module, child processes included
	$(BIN)/coverage erase
	-$(BIN)/coverage run -m $(PYTEST) $(ARGS)  # the tests that limit the size of files fail
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

constraints: ## pin the newest matching releases in constraints.txt
	@rm -rf $(SCRATCH)
	@$(call create,$(SCRATCH))
	@$(call install,$(SCRATCH))
	@{ echo "# The releases that make installs: the newest that fitted together when \`make constraints\` wrote this."; \
	   $(SCRATCH)/bin/python -m pip freeze --all --exclude-editable --exclude setuptools; } > constraints.new
	@mv constraints.new constraints.txt
	@rm -rf $(SCRATCH)

clean: ## remove everything that make created, including .venv
	rm -rf $(VENV) $(CACHES)
	find gateway adapters mappings tests -name __pycache__ -prune -exec rm -rf {} +
