# Everything from a fresh clone: Python >= 3.11 and make are all that must be there.
#
#   make crawl                        crawl the sample site (no network needed after the set-up)
#   make crawl URL=https://a.example/ crawl a site (set CRAWL_AGENT and CRAWL_CONTACT)
#   make test                         lint, types, all tests, a short run of the chaos suite
#   make chaos [KILLS=200] [SEED=7]   kill processes at random and see that nothing is lost

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# uv does not read pip's configuration: tell it the index that pip would use.
PIP_INDEX = $(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null)
UV = $(if $(PIP_INDEX),UV_DEFAULT_INDEX=$(PIP_INDEX)) $(BIN)/uv
URL ?=
ARGS ?=

# The first of these that is new enough makes the virtual environment.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup crawl test check format unit contract corpus integration docker bench soak chaos chaos-short lock clean

help:
	@sed -n 's/^#   //p' $(MAKEFILE_LIST)

setup: $(STAMP)

# uv comes from the lock, hashes checked, and then installs the lock (a quarter of pip's time); where
# it cannot, pip does it all. --no-build-isolation: the build backend comes from the lock too.
$(STAMP): requirements.lock pyproject.toml streams/broker/kafka.jars
	@test -n "$(PYTHON)" || { echo "Python >= 3.11 is needed; set PYTHON=/path/to/it" >&2; exit 1; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	sed '/^uv==/,/[^\\]$$/!d' requirements.lock > $(VENV)/uv.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r $(VENV)/uv.lock \
		&& $(UV) pip install --quiet --python $(BIN)/python --require-hashes --compile-bytecode \
			-r requirements.lock \
		|| $(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/crawl broker prepare
	@touch $@

crawl: $(STAMP)
	$(BIN)/crawl run $(or $(URL),--sample) $(ARGS)

test: check unit contract corpus integration chaos-short
	tests/docker/run.sh

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

unit: $(STAMP)
	$(BIN)/python -m pytest -q tests/unit $(ARGS)

contract: $(STAMP)
	$(BIN)/python -m pytest -q tests/contract $(ARGS)

# Differences from other readers of the same formats; tests/corpus/README.md.
corpus: $(STAMP)
	$(BIN)/python -m pytest -q tests/corpus $(ARGS)

integration: $(STAMP)
	$(BIN)/python -m pytest -q tests/integration $(ARGS)

# On Debian as root: installs what Docker needs and makes all images without an image registry.
docker: $(STAMP)
	tests/docker/run.sh --install $(ARGS)

bench: $(STAMP)
	$(BIN)/python tests/bench/run.py $(ARGS)

chaos-short: $(STAMP)
	$(BIN)/python -m pytest -q tests/chaos $(ARGS)

soak: $(STAMP)
	$(BIN)/python tests/bench/soak.py $(or $(N),300000)

chaos: $(STAMP)
	$(BIN)/python tests/chaos/run.py $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

# New versions of everything within pyproject's ranges, Kafka's jars included.
lock: $(STAMP)
	$(UV) pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --quiet --upgrade \
		--output-file requirements.lock
	$(UV) pip compile pyproject.toml --extra kubernetes --constraint requirements.lock --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --quiet \
		--output-file deploy/requirements.lock
	$(BIN)/python -m streams.broker.jars > $(VENV)/kafka.jars
	mv $(VENV)/kafka.jars streams/broker/kafka.jars

clean:
	rm -rf $(VENV)
