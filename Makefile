# `make demo` and `make test` set up what is missing and share one environment (.venv) and the package managers' caches.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test bench lint setup clean
demo: setup
	$(RUN) examples/minimal-sft/demo.py

test: setup
	$(RUN) -m pytest

lint: setup
	$(RUN) -m pytest tests/test_style.py

bench: setup
	for script in bench/sidecar.py bench/engine/sampling.py bench/engine/store.py bench/engine/training.py; do $(RUN) $$script || exit 1; done

setup:
	@$(PYTHON) src/machine/bootstrap.py --venv $(VENV) --dev --pi

clean:
	rm -rf $(VENV) node_modules .pytest_cache .mypy_cache .ruff_cache
