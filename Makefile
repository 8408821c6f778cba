# What a newcomer needs: demo, test, lint, bench. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := embed,openai,ann,plot,zstd,datasets

.PHONY: demo test test-all lint format bench clean

demo: $(VENV)/base
	$(BIN)/hepm demo --download

test: $(VENV)/dev
	$(BIN)/pytest

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/dev
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:
	rm -rf $(VENV) build dist demo .pytest_cache .ruff_cache .hypothesis

$(VENV)/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hepm needs Python 3.11 or newer; name one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet uv
	touch $@

$(VENV)/base: $(VENV)/uv pyproject.toml
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable .
	touch $@

$(VENV)/dev: $(VENV)/base
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[$(EXTRAS)]' --group dev
	touch $@
