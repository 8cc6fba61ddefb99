.DEFAULT_GOAL := help
SHELL := /bin/bash -o pipefail
PYTHON ?= python3
BIN := .venv/bin
UV := $(or $(wildcard $(BIN)/uv),uv)
SCRIPTS := dev/kafka dev/s3 dev/cluster dev/promtool
PYTEST := $(BIN)/pytest
# Two workers suit two cores; tests marked with the same xdist_group (Spark's) share one worker, hence one JVM.
WORKERS ?= 2
PARALLEL := -n $(WORKERS) --dist loadgroup

.PHONY: help setup servers tools ready lock audit crds fmt check test unit properties behaviour integration e2e cluster-times sim model crash-hunt chaos rights bench cluster cluster-down demo demo-clean demo-cluster demo-cluster-clean clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.done ## Make the virtual environment from the hash-pinned requirements

.venv/.done: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Landfall needs Python 3.11 or newer, $(PYTHON) is older"; exit 1; }
	@test -x $(BIN)/uv || echo "installing Python packages into .venv (once, one to two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync -q --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

servers: ## Fetch and build what dev/kafka and dev/s3 run (once per machine)
	@dev/kafka build && dev/s3 build

tools: ## Build what only tests need: Kubernetes (with its node, where one can run), Helm, promtool (once per machine)
	@dev/cluster build --control-plane && dev/promtool --version > /dev/null
	@if dev/cluster check 2> /dev/null; then dev/cluster build; fi

ready:
	@$(MAKE) -s -j2 setup servers

PINS := requirements
LOCK := pip compile -q --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock"

lock: ## Pin the requirements anew
	@$(UV) $(LOCK) pyproject.toml --extra spark --extra operator --group dev -o $(PINS)/dev.txt
	@echo uv | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/uv.txt
	@$(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml --extra operator -o $(PINS)/operator.txt
	@echo pyspark | $(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml - --extra spark -o $(PINS)/spark.txt
	@printf "hatchling\nsetuptools\n" | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/build.txt
	@echo pip-audit | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/audit.txt

# A list that pip-audit cannot ask about is a failure (--strict): without it, an index that knows no advisories finds all well.
audit: setup ## What is pinned: still what `make lock` would pin, nothing of it yanked, no known vulnerability (AUDIT="-s osv" asks elsewhere)
	@rm -rf .venv/pins && cp -r requirements .venv/pins
	@$(MAKE) -s lock PINS=.venv/pins LOCK="$(subst pip compile -q,pip compile,$(LOCK))" > /dev/null 2> .venv/pins.log || { cat .venv/pins.log; exit 1; }
	@diff -r -I '^ *#' requirements .venv/pins || { echo "these pins are not what make lock makes of pyproject.toml"; exit 1; }
	@! grep "is yanked" .venv/pins.log
	@test -x .venv/audit/bin/python || $(UV) venv -q --python $(BIN)/python .venv/audit
	@$(UV) pip sync -q --python .venv/audit/bin/python requirements/audit.txt
	@.venv/audit/bin/pip-audit $(or $(AUDIT),-s pypi) --strict --progress-spinner off --disable-pip --require-hashes $(foreach file,dev uv operator spark build audit,-r requirements/$(file).txt)

crds: setup ## Make crds/, the chart's copy and docs/reference.md anew from the models
	@$(BIN)/python -m landfall_operator.api.crd > crds/.new && mv crds/.new crds/consumergroups.landfall.dev.yaml
	@cp crds/consumergroups.landfall.dev.yaml charts/landfall/files/
	@$(BIN)/python -m dev.reference > docs/.new && mv docs/.new docs/reference.md

fmt: setup ## Format the code and fix what can be fixed
	@$(BIN)/ruff format -q . $(SCRIPTS) && $(BIN)/ruff check -q --fix . $(SCRIPTS)

check: setup ## Format, lint, types, import contracts, dependencies
	@test ! -e operator/__init__.py -a ! -e tests/operator/__init__.py || { echo "operator/__init__.py shadows the standard library's operator: remove it"; exit 1; }
	@$(BIN)/ruff format --check -q . $(SCRIPTS) && $(BIN)/ruff check -q . $(SCRIPTS)
	@$(BIN)/mypy -p landfall -p landfall_operator -p dev -p tests.support -p tests.model -p tests.crashes -p tests.rights -p tests.chaos
	@$(BIN)/lint-imports --no-logo > .venv/contracts.log || { cat .venv/contracts.log; exit 1; }
	@$(BIN)/deptry -o /dev/null operator spark_app 2> .venv/deptry.log || { cat .venv/deptry.log; exit 1; }

test: ready tools check ## Check, then all tests but those that only `make e2e` runs
	@$(PYTEST) $(PARALLEL) -m "not full" tests

unit: setup ## Tests of single modules, without the slow ones (seconds)
	@$(PYTEST) -q $(PARALLEL) -m "not slow" tests/unit

properties: setup ## Laws, tried on random input
	@$(PYTEST) -q $(PARALLEL) tests/properties

behaviour: ready ## One suite on every implementation of a protocol
	@$(PYTEST) -q $(PARALLEL) tests/behaviour

integration: ready tools ## Real Kafka, S3, Spark and Kubernetes API
	@$(PYTEST) -q $(PARALLEL) tests/integration

e2e: ready tools ## All there is on a real Kubernetes node: helm, operator, Spark pods, Kafka, S3 (Linux, root)
	@$(PYTEST) -n0 -v tests/e2e

cluster-times: ready tools ## Measure on such a node: apply to commit, kill to commit, hand-over, outage to condition
	@$(BIN)/python -m tests.bench.cluster

sim: setup ## Play the autoscaler against a fixed size and KEDA's formula, and print what it costs
	@$(BIN)/python -m tests.sim

crash-hunt: setup ## Play random schedules of the crash machine (MINUTES=60), or one step by step (SEED=n)
	@$(BIN)/python -m tests.crashes $(if $(SEED),--seed $(SEED),--minutes $(or $(MINUTES),60))

chaos: ready tools ## Break everything around two groups on a real node while records arrive (MINUTES=30 SEED=n), then audit (ARGS="--help" tells more)
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

model: setup ## Check the protocol in every order of its steps, and show what each of its rules prevents
	@$(BIN)/python -m tests.model $(ARGS)

rights: setup ## Take away one right of operator and drivers after the other, and see what is refused (ARGS="--only pods --workers 4")
	@dev/cluster build --control-plane
	@$(BIN)/python -m tests.rights $(ARGS)

bench: ready ## Measure the sink, or whole runs beside Spark Structured Streaming (ARGS=--whole; ARGS=--help lists the options)
	@$(BIN)/python -m tests.bench $(ARGS)

cluster: ## A real Kubernetes cluster of one node on this machine, with Landfall's images in it
	@dev/cluster up && dev/cluster load

cluster-down: ## Stop it
	@dev/cluster down

demo: ready ## Land a real topic twice, exactly once, through a kill -9
	@$(BIN)/python -m dev.demo $(ARGS)

demo-clean: ## Stop the demo's servers and forget its data
	@dev/kafka down --state .state/demo; dev/s3 down --state .state/demo; rm -rf .state/demo

demo-cluster: ready ## The same on a real Kubernetes cluster: helm install, kubectl apply, a killed driver, scaling, an upgrade
	@dev/cluster build && $(BIN)/python -m dev.tour $(ARGS)

demo-cluster-clean: ## Stop that demo's cluster and servers and forget its data
	@dev/cluster down --purge --state .state/tour; dev/kafka down --state .state/tour; dev/s3 down --state .state/tour; rm -rf .state/tour

clean: demo-clean ## Stop dev/'s servers and remove everything made here (builds in ~/.cache/landfall stay)
	@dev/kafka down; dev/s3 down; dev/cluster down; dev/cluster down --control-plane
	@rm -rf .venv .state .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
