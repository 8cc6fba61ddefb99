.DEFAULT_GOAL := help
SHELL := /bin/bash -o pipefail
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help setup lock fmt check test clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.done ## Make the virtual environment from the hash-pinned requirements

.venv/.done: requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Landfall needs Python 3.11 or newer, $(PYTHON) is older"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -c 'import uv' 2>/dev/null || $(BIN)/python -m pip install -q --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync -q --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

lock: ## Pin the requirements anew
	@uv pip compile -q --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock" pyproject.toml --extra spark --extra operator --group dev -o requirements/dev.txt
	@echo uv | uv pip compile -q --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock" -c requirements/dev.txt - -o requirements/uv.txt

fmt: setup ## Format the code
	@$(BIN)/ruff format -q && $(BIN)/ruff check -q --fix

check: setup ## Format, lint, types, import contracts
	@$(BIN)/ruff format --check -q . dev/kafka dev/s3 && $(BIN)/ruff check -q . dev/kafka dev/s3
	@$(BIN)/mypy -p landfall -p landfall_operator -p dev.servers -p tests.support
	@$(BIN)/lint-imports | tail -n +9

test: setup ## All tests
	@$(BIN)/pytest

clean: ## Remove what the build made
	@rm -rf .venv .state .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
