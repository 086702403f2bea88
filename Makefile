# Each target sets up what it needs: a fresh clone, Python 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
TESTS ?= tests

.PHONY: sweep test test-vllm lint bench bench-gpu setup clean

sweep: setup  ## Run the default sweep; ARGS="budget=1e10" adds overrides.
	$(BIN)/python -m isosweep $(ARGS)

test: setup  ## Run the test suite.
	$(BIN)/python -m pytest $(TESTS)

test-vllm: $(VENV)-vllm/.done  ## Train through vLLM on a CPU, in an environment of its own.
	$(VENV)-vllm/bin/python -m pytest -p no:hypothesispytest -m vllm tests/training/test_vllm.py

lint: setup  ## Lint, check formatting, type-check.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## Speed and memory of the planner, of the fits, of a worker beside TRL.
	$(BIN)/python benchmarks/plan.py
	$(BIN)/python benchmarks/fits.py
	$(BIN)/python benchmarks/worker.py

bench-gpu: setup  ## Predicted against measured memory and time of real GRPO steps.
	$(BIN)/python benchmarks/gpu.py $(ARGS)

setup: $(VENV)/.done

# torch first and alone: a range resolved together with the rest could pull another build of it.
$(VENV)/.done: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[train,dev]'
	touch $@

# vLLM last and without its list of dependencies, which would replace what is there.
$(VENV)-vllm/.done: pyproject.toml constraints.txt requirements-vllm.txt requirements-vllm-needs.txt
	$(PYTHON) -m venv $(VENV)-vllm
	$(VENV)-vllm/bin/python -m pip install --quiet -c constraints.txt torch
	$(VENV)-vllm/bin/python -m pip install --quiet -c constraints.txt -e '.[train,dev]'
	$(VENV)-vllm/bin/python -m pip install --quiet -c constraints.txt -r requirements-vllm-needs.txt
	$(VENV)-vllm/bin/python -m pip install --quiet --no-deps -r requirements-vllm.txt
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-vllm dist build
