# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Containers often set it; every test process would then compile the whole package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: verdicts demo test test-all test-frameworks check bench bench-engines bench-modes bench-ranks bench-rules bench-scale docs gallery notebooks fuzz chaos lock sbom clean

demo: .venv/installed
	$(BIN)/kymograph reproduce --dir runs/reproduce

test: .venv/installed-test
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow and not cifar and not slurm and not frameworks"

test-all: .venv/installed-test
	$(BIN)/pytest -n 2 -m "not cifar and not slurm and not frameworks"
	$(BIN)/pytest -m slurm

# With Lightning, transformers and Accelerate, whose versions .ci/frameworks.txt pins; torch stays at its pin.
test-frameworks: .venv/installed-test
	$(INSTALL) -r .ci/frameworks.txt
	$(BIN)/pytest -n 2 -m frameworks

check: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test docs

# Fails if a row is over its limit. ROWS="watching clipping-32" times and prints those alone; without, the page is written.
bench: .venv/installed
	$(BIN)/python -m benchmarks $(or $(ROWS),--markdown docs/bench.md)

# What an engine costs per sweep and per stack; whether a probe measures the same in every mode of training; what it costs
# on two ranks; a step of every rule; commands in a directory of ten thousand runs.
bench-engines bench-modes bench-ranks bench-rules bench-scale: bench-%: .venv/installed
	$(BIN)/python -m benchmarks $*

# Hostile input and kills, as docs/security.md promises; KYMOGRAPH_FUZZ_SEED=N tries other inputs.
fuzz: .venv/installed-test
	KYMOGRAPH_FUZZ_EXAMPLES=10000 KYMOGRAPH_FUZZ_COMMANDS=500 $(BIN)/pytest -s tests/fuzz tests/runs/test_round_trips.py

chaos: .venv/installed-test
	KYMOGRAPH_CHAOS_KILLS=500 $(BIN)/pytest -s tests/chaos

lock:
	.ci/lock.sh

sbom: .venv/installed
	$(BIN)/python .ci/sbom.py > sbom.json

# Writes the pages of verdicts again, from the runs in evidence/; nothing is trained.
verdicts: .venv/installed
	$(BIN)/python docs/_extensions/verdict_pages.py

docs: .venv/installed-docs
	$(BIN)/sphinx-build -q -W -b html docs docs/_build

# Runs the examples with ten seeds each (a few minutes) and refreshes their pictures in docs/images.
gallery: .venv/installed
	$(BIN)/python docs/_extensions/gallery.py

# Executes the notebooks of the docs and stores their outputs in them.
notebooks: .venv/installed-test
	$(BIN)/python docs/_extensions/notebooks.py

# One stamp per set of dependencies, so that the second `make demo` starts at once.
.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) -e '.[studies]'
	touch $@

.venv/installed-test: .venv/installed
	$(INSTALL) -e '.[test]'
	touch $@

.venv/installed-dev: .venv/installed-test
	$(INSTALL) -e '.[dev]'
	touch $@

.venv/installed-docs: .venv/installed
	$(INSTALL) -e '.[docs]'
	touch $@

clean:
	rm -rf .venv docs/_build sbom.json
