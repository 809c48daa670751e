# make run: set up and run the main job. make test: set up and run the tests. make bench: how fast it is.
# make audit: known holes in dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?= --bench split_notmnist

.PHONY: run test bench lint audit clean

run: $(VENV)/.run
	$(BIN)/python experiments/run.py $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(TESTS)

bench: $(VENV)/.run
	$(BIN)/python experiments/bench.py $(BENCH)

# mypy does not follow editable installs, so it reads a copy of what a user would install
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(BIN)/pip install --quiet --no-deps --target build/lint .
	MYPYPATH=build/lint $(BIN)/mypy -p pyroclaw

# whatever cannot be audited fails too: no answer is not a good answer
audit: $(VENV)/.run
	$(BIN)/pip install --quiet --editable ".[audit]"
	$(BIN)/pip freeze --exclude-editable > $(VENV)/audit.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audit.txt

$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@ $(VENV)/.run

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf build $(VENV)
