# Everything a person or CI runs. Each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test check bench experiments clean constraints

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "DPXPlain needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing DPXPlain into $(VENV) ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	@$(BIN)/dpxplain demo --report dpxplain-demo.html

test: setup
	$(BIN)/pytest -n 2

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

# Slow: coverage grids and the study of mechanisms; rewrites the figures in docs/.
experiments: setup
	$(BIN)/python experiments/interval_coverage.py
	$(BIN)/python experiments/marginal_coverage.py
	$(BIN)/python experiments/study.py

# Pins what is installed now; names no host, so it works with any registry.
constraints: setup
	$(BIN)/pip freeze --exclude-editable --disable-pip-version-check > constraints.txt

clean:
	rm -rf $(VENV) dpxplain-demo.html
