# Two commands do everything on a fresh machine: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   set up .venv and check the equivariance of the network, untrained"
	@echo "make test   set up what is missing and run the tests"
	@echo "make lint   ruff, mypy and import-linter"
	@echo "make clean  remove .venv and every cache"

# The stamp is newer than the files it depends on only after an install that succeeded.
.venv/.installed: pyproject.toml setup.py constraints.txt $(wildcard src/eda/native/*.cpp src/eda/native/*.h src/eda/native/*.inc)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: .venv/.installed

demo: setup
	$(BIN)/eda check

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build
	find . -name __pycache__ -type d -exec rm -rf {} +
