# Two commands do everything on a fresh machine: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint docs sanitize wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make demo      set up .venv, break an object, put it together and write a report"
	@echo "make test      set up what is missing and run the tests"
	@echo "make lint      ruff, mypy and import-linter"
	@echo "make docs      the documentation as a site in docs/_build/html"
	@echo "make sanitize  thousands of calls of the compiled module under sanitizers"
	@echo "make wheel     a wheel and an sdist in dist/"
	@echo "make clean     remove .venv and every cache"

# The stamp is newer than the files it depends on only after an install that succeeded.
.venv/.installed: pyproject.toml setup.py constraints.txt $(wildcard src/eda/native/*.cpp src/eda/native/*.h src/eda/native/*.inc)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

setup: .venv/.installed

# A kind of object that the model was not trained on.
demo: setup
	rm -rf demo
	$(BIN)/eda fracture demo/broken --puzzles 1 --shapes bust --pieces 3-3 --seed 7 --as meshes --quiet
	$(BIN)/eda assemble demo/broken/000000-bust --out demo/assembled --in-place

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The compiled module under AddressSanitizer and UBSan, with random and with wrong calls. Needs GCC on Linux. The build
# takes four and a half minutes of CPU time and is kept in build/sanitized; 7,000 calls then take about a minute.
sanitize: setup
	$(BIN)/python tests/kernels/sanitized.py

wheel: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation

# Sphinx is needed for nothing else, so it is installed only here. The package is there already: pip adds what the
# extra asks for, and builds nothing again.
.venv/.installed-docs: .venv/.installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'eda-assembly[docs]'
	touch $@

docs: .venv/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf demo dist .venv docs/_build docs/api .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build
	find . -name __pycache__ -type d -exec rm -rf {} +
