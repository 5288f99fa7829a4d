# `make` alone prints what there is. Every target sets up .venv first, once.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SEED ?= 1
SEEDS ?= 100000
FIRST ?= 0
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help run test lint simulate soak bench docs pictures lock clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMP) ## Take the tour: 40 million events on Spark, a crash, the same answer (ARGS=--no-spark)
	@$(BIN)/python -m anabranch.tour $(ARGS)

test: $(STAMP) ## Run all tests (ARGS='-k name -n 0' to pick some)
	@$(BIN)/python -m pytest $(ARGS)

lint: $(STAMP) ## Check format, style, types, layers and house rules
	@$(BIN)/ruff format --check --quiet . || { echo "Cure: $(BIN)/ruff format ."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python tools/tidy.py

simulate: $(STAMP) ## Run the simulator on an example (SEED=7 replays seed 7)
	@$(BIN)/anabranch simulate examples/value_barrier.py:value_barrier --seed $(SEED)

soak: $(STAMP) ## Run random programs with crashes for an hour (SEEDS=1000 tries fewer, FIRST=… begins there)
	@$(BIN)/python -m tests.local.soak $(SEEDS) $(FIRST)

bench: $(STAMP) ## List the benchmarks (ARGS=name runs one, ARGS=all runs all)
	@$(BIN)/python -m bench $(ARGS)

docs: $(STAMP) ## Build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet && echo "Built site/index.html"

pictures: $(STAMP) ## Draw the plans and windows of the documentation anew
	@$(BIN)/python tools/draw_docs.py
	@$(BIN)/python tools/draw_late_data.py

lock: $(STAMP) ## Pin the newest versions that pyproject.toml allows, in constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.13,<0.14'
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 \
	  --fork-strategy fewest --upgrade --no-annotate --no-emit-index-url \
	  --custom-compile-command 'make lock' --quiet --output-file constraints.txt

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) site build dist bench/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf .coverage htmlcov spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@tools/setup.sh
