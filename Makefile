# What a newcomer needs: demo, test, lint, bench. Each sets up what it needs in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Which tests `make test` runs. One process more than there are cores, as many tests wait for a server or a clock.
ONLY ?= not soak and not exhaustive
PROCESSES := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# A store is synced to its disk several times: where there is room, what the tests write stays in memory.
ROOM := $(shell df -k /dev/shm 2>/dev/null | awk 'END { if ($$4 > 8000000) print "/dev/shm" }')
PYTEST := $(if $(ROOM),folder=$$(mktemp -d $(ROOM)/hepm-XXXXXX); trap 'rm -rf "$$folder"' EXIT; TMPDIR=$$folder ).venv/bin/pytest
# What the image has, and where packages are built.
SERVED := serve,neo4j
DIST := dist
# Beside what a user runs of the same file.
TRIED := docker compose --project-name hepm-try --file compose.serve.yaml
EXTRAS := embed,openai,llm,serve,zstd,neo4j-fast,neo4j-local,cypher,gnn,questions,rl

# Where Python may not keep what it compiled, each of the thousands of processes that tests start compiles all it loads.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo papers reference site dist sbom image test test-all browser notebooks lint format bench clean

demo: $(VENV)/base
	$(BIN)/hepm demo

test: $(VENV)/dev browser
	$(PYTEST) -m "$(ONLY)" -n $(PROCESSES) --maxprocesses 8

# Every test, those marked soak or exhaustive too.
test-all: $(VENV)/dev browser
	$(BIN)/pytest -m "" -n $(PROCESSES) --maxprocesses 8

# The graph page is tested in a real browser. Debian's is installed where that is allowed; elsewhere those tests say
# what they miss.
browser:
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| echo "no chromium here: the tests of the graph page in a browser are skipped (apt-get install chromium)"

# Executes each from top to bottom and writes what it shows. Its outputs are committed.
notebooks: $(VENV)/dev
	$(BIN)/python notebooks/run.py

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(VENV)/dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pages of the docs, and the types of the TypeScript client, that are made from the code.
reference: $(VENV)/dev
	$(BIN)/python docs/make_reference.py
	$(BIN)/python clients/typescript/make_types.py

# The site of the docs, into build/site/$(VERSION); with a VERSION such as 0.1 beside those that are there.
site: $(VENV)/dev
	$(BIN)/python docs/make_site.py $(VERSION)

# The sdist and the wheel, as a release publishes them.
dist: $(VENV)/uv
	rm -rf $(DIST)
	$(BIN)/uv build --quiet --out-dir $(DIST) .

# What comes along when the wheel is installed with what the image has, in CycloneDX: dist/sbom.cdx.json.
sbom: dist
	$(BIN)/uv venv --quiet --python $(BIN)/python $(DIST)/environment
	$(BIN)/uv pip install --quiet --python $(DIST)/environment/bin/python "hepm[$(SERVED)] @ file://$$(ls $(abspath $(DIST))/*.whl)"
	$(BIN)/uvx --quiet --from 'cyclonedx-bom>=7,<8' cyclonedx-py environment $(DIST)/environment/bin/python \
		--pyproject pyproject.toml --output-reproducible --output-file $(DIST)/sbom.cdx.json
	rm -rf $(DIST)/environment

# The image, under 200 MB, tried as it is meant to run: read-only, as nobody in particular.
image:
	docker build --tag hepm .
	test "$$(docker image inspect --format '{{.Size}}' hepm)" -lt 200000000
	export HEPM_TOKEN=for-this-try HEPM_PORT=18765; $(TRIED) up --no-build --wait --wait-timeout 60; \
		status=$$?; $(TRIED) logs; $(TRIED) down --volumes; exit $$status

# Tables of scripted agents, into docs/tables; with ARGS="--model M" the papers' own tables by that model.
papers: $(VENV)/dev
	$(BIN)/python -m benchmarks.papers $(ARGS)

# Without those that need arguments, or write the docs or the log.
bench: $(VENV)/dev
	for script in $(filter-out benchmarks/papers.py benchmarks/gpu.py,$(wildcard benchmarks/*.py)); do \
		echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script || exit 1; done

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
