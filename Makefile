# `make demo` and `make test` set up what is missing and share one environment (.venv) and the package managers' caches.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test nightly bench lint setup clean
demo: setup
	$(RUN) examples/minimal-sft/demo.py

test: setup
	$(RUN) -m pytest -n 2 --dist loadfile

nightly: setup
	ORACLE_EXAMPLES=10000 $(RUN) -m pytest --timeout 3600 tests/capture/test_oracle.py
	$(RUN) tests/faults/table.py
	$(RUN) bench/engine/fuzz.py
	CROWD_SINGLES=500 $(RUN) -m pytest tests/store/test_fire.py
	OLD_PI=.pi-0.73.1 $(RUN) -m pytest tests/pi/test_old_pi.py tests/pi/test_old_retry.py tests/pi/test_old_student.py

lint: setup
	$(RUN) -m pytest tests/test_style.py

bench: setup
	for script in bench/sidecar.py bench/capture.py bench/pool.py bench/redaction.py bench/privacy.py bench/validate.py bench/training.py bench/engine/sampling.py bench/engine/store.py bench/engine/training.py; do $(RUN) $$script || exit 1; done

setup:
	@$(PYTHON) src/machine/bootstrap.py --venv $(VENV) --dev --pi

clean:
	rm -rf $(VENV) node_modules .pi-0.73.1 .pytest_cache .mypy_cache .ruff_cache
