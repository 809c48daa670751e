# make run: set up and run the main job. make test: set up and run the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?= --bench split_notmnist

.PHONY: run test lint clean

run: $(VENV)/.run
	$(BIN)/python experiments/run.py $(ARGS)

test: $(VENV)/.dev
	$(BIN)/python -m pytest $(TESTS)

# mypy does not follow editable installs, so it reads a copy of what a user would install
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf build
	$(BIN)/pip install --quiet --no-deps --target build/lint .
	MYPYPATH=build/lint $(BIN)/mypy -p pyroclaw

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
