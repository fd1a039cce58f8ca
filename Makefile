# One virtual environment in .venv, made once from requirements.lock; every target brings it up to date first.
PYTHON  ?= $(shell for p in python3.11 python3; do $$p -c $(RECENT) 2>/dev/null && echo $$p && break; done)
RECENT  := 'import sys; sys.exit(sys.version_info < (3, 11))'
PROFILE ?= quick
TASK    ?= letter-2
ARGS    ?=

BIN   := .venv/bin
READY := .venv/.ready
BENCH := .venv/.ready-bench
SITE  := .venv/.ready-site
FIGURES_OF_TESTS := $(CURDIR)/build/nbval/figures

# Processes, not threads, use the cores; and results do not depend on the number of threads.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help reproduce faults test test-unit test-notebooks lab bench site notebooks lint clean test-browser playground discover

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(BIN)/python:
	@$(or $(PYTHON),false) -c $(RECENT) || { \
	  echo "Python 3.11 or later is needed$(if $(PYTHON),; $(PYTHON) is not): make PYTHON=/path/to/python"; exit 1; }
	@$(PYTHON) -m venv .venv

$(READY): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing requirements.lock into .venv (once)"
	@$(BIN)/pip install --quiet --no-compile -r requirements.lock
	@$(BIN)/pip install --quiet --no-compile --no-deps --editable .
	@touch $@

$(BENCH): requirements-bench.txt $(READY)
	@echo "Installing requirements-bench.txt into .venv (once)"
	@$(BIN)/pip install --quiet -r requirements-bench.txt
	@touch $@

$(SITE): requirements-site.txt $(READY)
	@echo "Installing requirements-site.txt into .venv (once)"
	@$(BIN)/pip install --quiet -r requirements-site.txt
	@touch $@

reproduce: $(READY) ## Run every notebook and draw every figure: PROFILE=smoke|quick|paper|saved, ARGS="--only fsm"
	$(BIN)/python -m lstoc_core reproduce --profile $(PROFILE) $(ARGS)

test: test-unit test-notebooks ## Unit tests, then the notebooks against their committed outputs

test-unit: $(READY)
	$(BIN)/pytest -n 2 tests --ignore tests/browser

test-notebooks: $(READY)
	LSTOC_FIGURES=$(FIGURES_OF_TESTS) $(BIN)/pytest -n 2 --dist loadscope --nbval --nbval-sanitize-with nbval.cfg notebooks

test-browser: $(READY) ## Live view, playground, panels and site in a real Chromium; skipped with a reason where there is none
	$(BIN)/pytest -rs tests/browser

discover: $(READY) ## Find the hidden subgoals of a task: TASK=office-2, ARGS="--gif film.gif"
	$(BIN)/python -m lstoc_core discover $(TASK) $(ARGS)

lab: $(READY) ## Open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir=. notebooks/00_overview.ipynb

playground: $(READY) ## Serve the playground as a page of its own, by Voilà
	$(BIN)/voila notebooks/12_playground.ipynb

faults: $(READY) ## Try faults on purpose and write docs/faults.md; ARGS="violations": the proof's assumptions, half an hour
	$(BIN)/python tests/faults.py $(ARGS)

bench: $(BENCH) ## Run the benchmarks, other libraries beside ours: ARGS="envs --quick"
	$(BIN)/python -m lstoc_core bench $(ARGS)

site: $(SITE) ## Build the site in build/site: notebooks, API, claims, gallery; open build/site/index.html
	$(BIN)/python docs/site/sources.py
	$(BIN)/python -m sphinx -q -E -b html build/site-source build/site
	$(BIN)/python docs/site/check.py build/site

notebooks: $(READY) ## Execute the notebooks in place with their default parameters, so that committed outputs are fresh
	$(BIN)/jupyter nbconvert --to notebook --execute --inplace --ExecutePreprocessor.record_timing=False \
	  --ExecutePreprocessor.extra_arguments="['--log-level=CRITICAL']" \
	  --ClearMetadataPreprocessor.enabled=True --ClearMetadataPreprocessor.preserve_cell_metadata_mask="{'tags'}" \
	  --ClearMetadataPreprocessor.preserve_nb_metadata_mask="{'kernelspec', 'language_info'}" notebooks/*.ipynb

lint: $(READY) ## Style, types, and the rings: who may import whom
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

clean: ## Remove what commands made, except .venv, data/ and figures/
	rm -rf build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
