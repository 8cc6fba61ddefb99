.DEFAULT_GOAL := help
# Images of Python set this. Each of thousands of processes would then compile all of Landfall and, of pytest, all tests.
export PYTHONDONTWRITEBYTECODE :=
# As pip, Maven and Go do: behind a proxy that inspects TLS, only the system's store has its authority.
export UV_SYSTEM_CERTS ?= 1
SHELL := /bin/bash -o pipefail
PYTHON ?= python3
BIN := .venv/bin
UV := $(or $(wildcard $(BIN)/uv),uv)
SCRIPTS := dev/kafka dev/s3 dev/schema-registry dev/gcs dev/azure dev/hdfs dev/bigquery dev/hive-metastore dev/iceberg-catalog dev/airflow dev/cluster dev/promtool
PYTEST := $(BIN)/pytest
CARGO := cargo
# Without the variable, Material for MkDocs advertises its successor at each build.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs
# Three workers suit two cores, for many tests wait for servers; tests marked with the same xdist_group (Spark's) share one
# worker, hence one JVM. tests/conftest.py sorts the longest groups first, and xdist must keep that order.
WORKERS ?= 3
PARALLEL := -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

.PHONY: help setup servers tools ready lock audit sbom release release-twice crds fmt check check-types check-docs check-native check-words check-imports docs size test test-rest test-all test-times unit properties behaviour integration e2e registry-suite store-suite publisher-suite files-suite lease-suite kill-suite tail-suite pages-suite replacing-suite hot-path-suite cluster-times sim sim-year model crash-hunt fuzz fuzz-suite hostile hostile-node hostile-guards operator-evidence newcomer chaos chaos-replace rights bench bench-backfill bench-idle bench-fleet bench-ledger bench-files bench-publish bench-keyed bench-keyed-merge bench-merging cluster cluster-down demo demo-clean demo-cluster demo-cluster-clean clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.done .venv/.native ## Make the virtual environment from the hash-pinned requirements, and landfall-native where cargo is

.venv/.done: requirements/dev.txt pyproject.toml audit/pyproject.toml migrate/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Landfall needs Python 3.11 or newer, $(PYTHON) is older"; exit 1; }
	@test -x $(BIN)/uv || echo "installing Python packages into .venv (once, one to two minutes)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip sync -q --compile-bytecode --python $(BIN)/python requirements/dev.txt
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . -e ./audit -e ./migrate
	@touch $@

# Never fails: without the extension pure Python runs.
.venv/.native: .venv/.done native/Cargo.lock native/Cargo.toml native/pyproject.toml $(wildcard native/src/*.rs)
	@command -v cargo > /dev/null || echo "no cargo: landfall-native is not built, pure Python runs"
	@! command -v cargo > /dev/null || $(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation --reinstall ./native > .venv/native.log 2>&1 || echo "landfall-native cannot be built, pure Python runs: see .venv/native.log"
	@touch $@

.venv/spark.jsa: .venv/.done
	@$(BIN)/python -m tests.support.landing.spark_archive $@ > .venv/spark.log 2>&1 || { cat .venv/spark.log; exit 1; }

servers: ## Download and build the servers of dev/kafka, dev/s3 and dev/schema-registry (once per machine)
	@dev/kafka build && dev/s3 build && dev/schema-registry build

tools: .venv/spark.jsa ## Build the tools that only tests need: Kubernetes (with a node where one can run), Helm, promtool, query engines (once per machine)
	@dev/cluster build --control-plane && dev/promtool --version > /dev/null && $(BIN)/python -m dev.tools.engines
	@if dev/cluster check 2> /dev/null; then dev/cluster build; fi

ready:
	@$(MAKE) -s -j2 setup servers

PINS := requirements
TYPES := $(or $(LANDFALL_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/landfall)/mypy.tar
EXTRAS = $(foreach extra,$(1),--extra $(extra))
DATA_PLANE := $(call EXTRAS,spark protobuf thrift jsonschema sql geoip)
STORES := $(call EXTRAS,azure gcs hdfs)
PUBLISHERS := $(call EXTRAS,iceberg delta hive bigquery openlineage)
LOCK := pip compile -q --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock"

lock: ## Pin the requirements again, with hashes, from pyproject.toml
	@$(UV) $(LOCK) pyproject.toml $(DATA_PLANE) $(STORES) $(PUBLISHERS) --extra operator --group dev -o $(PINS)/dev.txt
	@echo uv | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/uv.txt
	@$(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml --extra operator -o $(PINS)/operator.txt
	@echo pyspark | $(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml - $(DATA_PLANE) -o $(PINS)/spark.txt
	@$(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml $(STORES) -o $(PINS)/stores.txt
	@$(UV) $(LOCK) -c $(PINS)/dev.txt pyproject.toml $(PUBLISHERS) -o $(PINS)/publishers.txt
	@printf "hatchling\nsetuptools\n" | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/build.txt
	@(echo local-bigquery==0.4.0; printf "duckdb-extension-%s==1.5.5\n" icu ducklake httpfs spatial) | $(UV) $(subst 3.11,3.13,$(LOCK)) --no-annotate --override <(echo duckdb==1.5.5) - -o $(PINS)/bigquery-emulator.txt
	@(printf "pyspark<4.2\npolars\npolars-deltalake\ndaft\npyiceberg[sql-sqlite]\ndeltalake\npytz\nduckdb==1.5.5\n"; printf "duckdb-extension-%s==1.5.5\n" avro delta httpfs iceberg) | $(UV) $(LOCK) --no-annotate - -o $(PINS)/engines.txt
	@printf "apache-airflow-core\nboto3\n" | $(UV) $(LOCK) --no-annotate - -o $(PINS)/airflow.txt
	@echo pip-audit | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/audit.txt
	@echo cyclonedx-python-lib | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/sbom.txt
	@printf "maturin\nziglang<0.16\n" | $(UV) $(LOCK) -c $(PINS)/dev.txt - -o $(PINS)/release.txt

# --strict: a package that pip-audit cannot look up is a failure. Without it, an index without advisories would report success.
audit: setup ## Check the pins: `make lock` changes nothing, nothing is yanked, no known vulnerability (AUDIT="-s osv": another source)
	@rm -rf .venv/pins && cp -r requirements .venv/pins
	@$(MAKE) -s lock PINS=.venv/pins LOCK="$(subst pip compile -q,pip compile,$(LOCK))" > /dev/null 2> .venv/pins.log || { cat .venv/pins.log; exit 1; }
	@diff -r -I '^ *#' requirements .venv/pins || { echo "the pins differ from what `make lock` writes"; exit 1; }
	@! grep "is yanked" .venv/pins.log
	@test -x .venv/audit/bin/python || $(UV) venv -q --python $(BIN)/python .venv/audit
	@$(UV) pip sync -q --python .venv/audit/bin/python requirements/audit.txt
	@.venv/audit/bin/pip-audit $(or $(AUDIT),-s pypi) --strict --progress-spinner off --disable-pip --require-hashes $(foreach file,dev uv operator spark stores publishers build audit sbom release,-r requirements/$(file).txt)

sbom: setup ## Write a bill of materials (CycloneDX) and the list of licenses of all that is installed here to .venv/sbom
	@$(BIN)/python -m dev.tools.sbom .venv/sbom && ls .venv/sbom/*

release: setup ## Build what a release has, from the last commit, into dist/release (ARGS="--key FILE --without images"; ARGS=--help lists all)
	@$(BIN)/python -m dev.release $(ARGS)

release-twice: setup ## Clone the last commit twice, build a release in each clone, and compare the bytes (ARGS as of release)
	@$(BIN)/python -m dev.release.compare $(ARGS)

crds: setup ## Generate crds/, the chart's copy, the schemas for editors, and the pages and pictures of docs/ that come from the code
	@$(BIN)/python -m landfall_operator.api.crd > crds/.new && mv crds/.new crds/consumergroups.landfall.dev.yaml
	@$(BIN)/python -m landfall_operator.api.backfill_crd > crds/.new && mv crds/.new crds/backfills.landfall.dev.yaml
	@cp crds/*.landfall.dev.yaml charts/landfall/files/
	@$(BIN)/python -m landfall_operator.api.editor_schema ConsumerGroup > crds/.new && mv crds/.new spark_app/landfall/api/schemas/consumergroup.schema.json
	@$(BIN)/python -m landfall_operator.api.editor_schema Backfill > crds/.new && mv crds/.new spark_app/landfall/api/schemas/backfill.schema.json
	@$(BIN)/python -m dev.docs

fmt: setup ## Format the code and fix what can be fixed
	@$(BIN)/ruff format -q . $(SCRIPTS) && $(BIN)/ruff check -q --fix . $(SCRIPTS)

size: setup ## Print how large the product is, by room (lines of code, without docstrings, comments and imports)
	@$(BIN)/python -m dev.size

check: setup ## Check format, lint, types, import contracts, dependencies, documentation
	@test ! -e operator/__init__.py -a ! -e tests/operator/__init__.py || { echo "operator/__init__.py shadows the standard library's operator: remove it"; exit 1; }
	@$(BIN)/ruff format --check -q . $(SCRIPTS) && $(BIN)/ruff check -q . $(SCRIPTS)
	@$(MAKE) -s -j2 --output-sync check-types check-docs check-native check-words check-imports

# Types take longest, so they begin first; the other checks run at the same time. A new clone begins with what mypy knew
# at the end in the last one on this machine: it checks again what has other content, or uses what has, wherever it is.
check-types: setup ## Check types only
	@test -e .mypy_cache || touch .venv/types.new
	@test -e .mypy_cache || ! test -e $(TYPES) || tar -xf $(TYPES) || rm -rf .mypy_cache
	@$(BIN)/mypy -m main -p landfall -p landfall_audit -p landfall_migrate -p landfall_operator -p pyspark_landfall -p dev -p tests.support -p tests.model -p tests.crashes -p tests.rights -p tests.chaos -p tests.bench -p tests.fuzz -p tests.hostile -p tests.times
	@! test -e .venv/types.new || { mkdir -p $(dir $(TYPES)) && tar -cf $(TYPES).$$$$ .mypy_cache && mv $(TYPES).$$$$ $(TYPES) && rm .venv/types.new; }
check-docs: setup ## Check only that the documentation builds
	@$(MKDOCS) build --strict > .venv/mkdocs.log 2>&1 || { cat .venv/mkdocs.log; exit 1; }
check-native: setup ## Check the Rust extension only
	@! command -v cargo > /dev/null || { cd native && $(CARGO) fmt --check && $(CARGO) clippy --all-targets -- -D warnings > ../.venv/clippy.log 2>&1 || { cat ../.venv/clippy.log; exit 1; }; }
check-words: setup ## Check words only: the glossary, and phrases that are to get fewer
	@$(BIN)/python -m dev.glossary
	@$(BIN)/python -m dev.words > .venv/words.log || { grep "more than" .venv/words.log; exit 1; }
check-imports: setup ## Check import contracts and dependencies only
	@$(BIN)/lint-imports --no-logo > .venv/contracts.log || { cat .venv/contracts.log; exit 1; }
	@(for folder in . audit migrate; do (cd $$folder && $(abspath $(BIN))/deptry -o /dev/null $$([ $$folder = . ] && echo operator spark_app || echo .)) || exit 1; done) 2> .venv/deptry.log || { cat .venv/deptry.log; exit 1; }

docs: setup ## Serve the documentation as a site, at http://127.0.0.1:8000 (PORT=n)
	@$(MKDOCS) serve --dev-addr 127.0.0.1:$(or $(PORT),8000)

# What `make test` runs: everything that needs no server, and on Kafka and S3 the kills and the README's first command.
# It tries laws with a tenth of their inputs, and leaves out tests that are marked as rest. LAWS are the files of what
# `make test-rest` runs of these: laws with all inputs, and what was left out; with LAWS_TRIED=1 only the latter.
CORE := $(addprefix tests/,unit properties model sim behaviour integration/test_kills.py integration/test_demo.py)

LAWS = $(shell grep -rlE --include='test_*.py' '$(if $(LAWS_TRIED),,hypothesis|pytest\.mark\.law|)pytest\.mark\.rest' $(CORE))
REST := $(filter-out $(CORE),$(patsubst %/,%,$(sort $(dir $(wildcard tests/*/test_*.py)))))

ifneq ($(FEATURE)$(MODULE),)
test: ready
	@files=$$($(BIN)/python -m $(if $(MODULE),tests.modules $(MODULE),tests.features $(FEATURE))) && $(PYTEST) $(PARALLEL) -m "not full" $$files
else
test: ready .venv/spark.jsa check ## Run the checks, and the tests that need little: laws, single modules, kills on Kafka and S3, the demo (FEATURE=backfill: all of that feature's; MODULE=path/to/module.py: one module's)
	@$(PYTEST) $(PARALLEL) -m "not full and not rest" $(CORE)
endif

test-rest: export LANDFALL_EXAMPLES ?= full
test-rest: ready tools ## Run what `make test` leaves out: laws with all inputs, searches for broken rules, tests of commands and pages, all servers, Kubernetes, Helm, other programs' readers
	@$(PYTEST) $(PARALLEL) -m "not full" --rest-of "$(CORE)" $(if $(LAWS_TRIED),--laws-tried) $(REST) $(LAWS)

test-all: ## Run the checks and all tests, as CI does, with all inputs of the laws
	@$(MAKE) -s test && $(MAKE) -s test-rest

test-times: ready tools ## Run all tests and print where their time went, by folder, file and test (TESTS=tests/unit: only these)
	@rm -rf .state/test-times
	@LANDFALL_TEST_TIMES=.state/test-times $(PYTEST) $(PARALLEL) -p tests.times.plugin -m "not full" $(or $(TESTS),tests) || echo "some tests failed" >&2
	@$(BIN)/python -m tests.times .state/test-times

unit: setup ## Run the tests of single modules, without slow ones (seconds)
	@! command -v cargo > /dev/null || { cd native && $(CARGO) test -q > ../.venv/cargo-test.log 2>&1 || { cat ../.venv/cargo-test.log; exit 1; }; }
	@$(PYTEST) -q $(PARALLEL) -m "not slow" tests/unit

properties: export LANDFALL_EXAMPLES = search
properties: setup ## Run property tests on random input, other input each time
	@$(PYTEST) -q $(PARALLEL) tests/properties

behaviour: ready ## Run one suite on every implementation of each protocol
	@$(PYTEST) -q $(PARALLEL) tests/behaviour

integration: ready tools ## Run tests against real Kafka, S3, Spark and a Kubernetes API server
	@$(PYTEST) -q $(PARALLEL) tests/integration

e2e: ready tools ## Run tests of everything on a real Kubernetes node: Helm, operator, Spark pods, Kafka, S3 (Linux, root)
	@$(PYTEST) -n0 -v tests/e2e

registry-suite: ready ## Run tests of a real schema registry that is away for minutes, forgets or changes (5 minutes)
	@$(PYTEST) -n0 -v -m full tests/integration/test_schema_registry_kills.py

store-suite: ready ## Run the tests of every store, and kill drivers, on real servers of Azure Blob Storage, Cloud Storage and HDFS
	@$(PYTEST) -n0 -v -m full tests/behaviour/test_slots.py tests/behaviour/test_uploads.py tests/behaviour/test_roots.py tests/behaviour/test_store_faults.py tests/behaviour/test_source_files.py tests/behaviour/test_audit_sources.py tests/integration/test_gcs.py tests/integration/test_hdfs.py tests/integration/test_files_elsewhere.py tests/integration/test_kills.py

publisher-suite: ready tools ## Run tests of publishers and readers that are killed, and raced, on real destinations
	@$(PYTEST) -n0 -v -m full tests/publishers tests/behaviour/test_catalogs.py

files-suite: ready ## Land 100,000 files of other programs, late, half written, anew and broken, while drivers and takers are killed (FILES=n SEED=n)
	@LANDFALL_FILES=$(or $(FILES),100000) LANDFALL_SEED=$(or $(SEED),1) $(PYTEST) -n0 -v -s -m full tests/files tests/integration/test_file_events.py

lease-suite: ready ## Let takers race for files while they and drivers are killed, on a real store and in Airflow (20 minutes)
	@$(PYTEST) -n0 -v -m full tests/integration/test_leases.py tests/integration/test_airflow_files.py

kill-suite: ready tools ## Kill and freeze drivers that hand over, end ranges, take files or live shortly, an operator of many groups, and a broker under load (ten minutes)
	@$(PYTEST) -n0 -v -m full tests/integration/test_handover.py tests/integration/test_closed_ranges.py tests/integration/test_files.py tests/integration/test_short_lives.py tests/integration/test_operator_fleet.py tests/integration/test_chaos_load.py

tail-suite: ready ## Look at landed rows and their tail while drivers are killed and frozen (LOOKS=10000 SEED=n; a quarter of an hour)
	@LANDFALL_LOOKS=$(or $(LOOKS),10000) LANDFALL_SEED=$(or $(SEED),0) $(PYTEST) -n0 -v -s -m full tests/integration/test_tail_kills.py

pages-suite: ready ## Follow the Start pages one after another in one shell, as printed (a quarter of an hour)
	@$(PYTEST) -n0 -v -m full tests/integration/test_tutorial_pages.py

replacing-suite: ready ## Let a few turns of chaos-replace kill drivers that merge and sort objects, always the same ones (a minute or two)
	@$(PYTEST) -n0 -v -m full tests/integration/test_chaos_replacing.py

hot-path-suite: ready ## Land a million random records by both hot paths in every format, and compare each byte (RECORDS=n)
	@LANDFALL_RECORDS=$(or $(RECORDS),1000000) $(PYTEST) -n0 -v -m full tests/integration/test_hot_paths.py

cluster-times: ready tools ## Measure on a real node: apply to commit, kill to commit, handover, outage to condition
	@$(BIN)/python -m tests.bench.cluster

sim: setup ## Simulate the autoscaler, a fixed size and KEDA's formula, and print what each costs
	@$(BIN)/python -m tests.sim

sim-year: setup ## Play a year of late data with the whole driver: what is kept, rewritten and paid (ARGS="--profile 'every 9 min' --days 60")
	@$(BIN)/python -m tests.sim.late_data --year $(ARGS)

crash-hunt: setup ## Run random schedules of the crash machine (MINUTES=60, or SCHEDULES=2000), or show one step by step (SEED=n); of one kind only: FEEDS=1 (files), MERGES=1, PROMOTIONS=1 (backfills), LOSSES=1 (lost offsets), EXPIRY=1 (dead letters that expire), LETTERS=1 (their places), PAIRS=1 (all of these, meeting)
	@$(BIN)/python -m tests.crashes $(if $(FEEDS),--feeds) $(if $(MERGES),--merges) $(if $(PROMOTIONS),--promotions) $(if $(LOSSES),--losses) $(if $(EXPIRY),--expiry) $(if $(LETTERS),--letters) $(if $(PAIRS),--pairs) $(if $(SEED),--seed $(SEED),$(if $(SCHEDULES),--schedules $(SCHEDULES),--minutes $(or $(MINUTES),60)))

fuzz: setup ## Compare decoders with independent references on random schemas and payloads (MINUTES=10 SEED=n DECODER=protobuf)
	@$(BIN)/python -m tests.fuzz $(if $(DECODER),--decoder $(DECODER)) $(if $(SEED),--seed $(SEED),--minutes $(or $(MINUTES),10))

fuzz-suite: setup ## Run the fuzzer of each decoder for ten minutes (MINUTES=10)
	@for decoder in $$($(BIN)/python -c 'from tests.fuzz import DECODERS; print(*DECODERS)'); do \
		$(BIN)/python -m tests.fuzz --decoder $$decoder --minutes $(or $(MINUTES),10) || exit 1; \
	done

hostile: ready ## Play hostile tenants, registries, producers, bucket writers and neighbour pods, and list what they got (docs/evidence/hostile.md)
	@dev/cluster build --control-plane
	@LANDFALL_HOSTILE_EVIDENCE=docs/evidence/hostile.md $(PYTEST) -n0 -v -p no:randomly -m full tests/hostile

hostile-node: ready tools ## Play them on a real node that enforces NetworkPolicies, against pods, and list what they got (docs/evidence/hostile.md; Linux, root)
	@LANDFALL_HOSTILE_EVIDENCE=docs/evidence/hostile.md $(PYTEST) -n0 -v -p no:randomly -m full tests/e2e/test_hostile.py

hostile-guards: ready ## Remove what holds off each of these attacks, one after the other, and see it succeed (ARGS="signatures": only that one; half an hour)
	@dev/cluster build --control-plane
	@$(BIN)/python -m tests.hostile.guards $(ARGS)

operator-evidence: ready tools ## Play two operators, two tenants, missing Secrets, any user id, a lost node and a fleet, and show what kubectl prints (docs/evidence/operator.md; half an hour)
	@LANDFALL_OPERATOR_EVIDENCE=docs/evidence/operator.md $(PYTEST) -n0 -v -p no:randomly -m full tests/integration/test_operator_scenes.py tests/e2e/test_scenes.py

newcomer: setup ## Clone the last commit into an empty folder and home, and follow docs/start/laptop.md with a clock (at most ten minutes)
	@$(BIN)/python -m tests.support.pages.newcomer

chaos: ready tools ## Break everything around two groups on a real node while records arrive (MINUTES=30 SEED=n), then audit (ARGS="--help": all options)
	@$(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

chaos-replace: ready ## Kill drivers that merge objects, undo merges, break the store, and read all the while (MINUTES=5 SEED=n)
	@$(BIN)/python -m tests.chaos.replace $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)

model: setup ## Check the protocol in every order of its steps, and show what each rule prevents
	@$(BIN)/python -m tests.model $(ARGS)

rights: setup ## Remove the RBAC rules of operator and drivers one by one, and list what then fails (ARGS="--only pods --workers 4")
	@dev/cluster build --control-plane
	@$(BIN)/python -m tests.rights $(ARGS)

bench: ready ## Measure the sink, or whole runs beside Spark Structured Streaming (ARGS=--whole; ARGS=--help lists the options)
	@$(BIN)/python -m tests.bench $(ARGS)

bench-backfill: ready ## Measure landing ranges again, from Kafka and from a backup, beside landing them (ARGS=--live: the lag of a live group)
	@$(BIN)/python -m tests.bench.backfill $(ARGS)

bench-idle: ready ## Measure groups of 1,000 and 10,000 idle topic partitions (ARGS=--help lists the options)
	@$(BIN)/python -m tests.bench.idle $(ARGS)

bench-fleet: setup ## Measure an operator with 1,000 groups on a real API server with played drivers (ARGS="--groups 50")
	@dev/cluster build --control-plane
	@$(BIN)/python -m tests.bench.fleet $(ARGS)

bench-ledger: ready ## Write a ledger of a million slots, and measure opening, locate and the check of its chain (ARGS="--slots 20000")
	@$(BIN)/python -m tests.bench.ledger $(ARGS)

bench-files: setup ## Measure finding new files among ten million known ones (ARGS="--dedupe --files 1000000")
	@$(BIN)/python -m tests.bench.bench_discovery $(ARGS)

bench-publish: setup ## Measure publishers of tables that are 100, 500 and 1,000 COMMITs behind (ARGS="--commits 1000 --kinds Iceberg")
	@$(BIN)/python -m tests.bench.publishing $(ARGS)

bench-keyed: setup ## Measure passes over the index of a keyed table (ARGS="--keys 1e8": ten minutes, 8 GB in /tmp)
	@$(BIN)/python -m tests.bench.keyed $(ARGS)

bench-keyed-merge: setup ## Keep a keyed Iceberg table of five million changes, and do the same by Spark's MERGE INTO (ARGS="--changes 1e6"; 20 minutes)
	@$(BIN)/python -m tests.bench.keyed_merge $(ARGS)

bench-merging: ready ## Merge 20,000 objects on a real S3 server while landing continues: the longest gap between COMMITs (ARGS="--objects 2000")
	@$(BIN)/python -m tests.bench.merging_live $(ARGS)

cluster: ## Start a real single-node Kubernetes cluster on this machine and load Landfall's images
	@dev/cluster up && dev/cluster load

cluster-down: ## Stop that cluster
	@dev/cluster down

demo: ready ## Land a real topic twice, exactly once, through a kill -9 (STORE=azure, gcs or hdfs: there instead of in S3)
	@$(BIN)/python -m dev.demo $(if $(STORE),--store $(STORE)) $(ARGS)

demo-clean: ## Stop the demo's servers and delete its data
	@for server in kafka s3 azure gcs hdfs; do dev/$$server down --state .state/demo; done; rm -rf .state/demo

demo-cluster: ready ## Show the same on a real Kubernetes cluster: helm install, kubectl apply, a killed driver, scaling, an upgrade, a catalog that is away (STORE=azure: one group lands there)
	@dev/cluster build && $(BIN)/python -m dev.tour $(if $(STORE),--store $(STORE)) $(ARGS)

demo-cluster-clean: ## Stop the cluster and servers of demo-cluster and delete their data
	@dev/cluster down --purge --state .state/tour; for server in kafka s3 azure gcs hdfs hive-metastore; do dev/$$server down --state .state/tour; done; rm -rf .state/tour

clean: demo-clean ## Stop dev/'s servers and remove everything made here (builds in ~/.cache/landfall stay)
	@dev/kafka down; dev/s3 down; dev/schema-registry down; dev/cluster down; dev/cluster down --control-plane
	@rm -rf .venv .state .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
