# The two commands of the README are `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
JOBS ?= 2
BESIDE ?= lint types  # parts of `make test` that run side by side, as each needs one core
TIMED = tests/statistical/test_timing.py tests/performance  # alone, so that nothing else takes their cores

NUMERIC = tests/unit/curator/divergences tests/unit/curator/sanitizer tests/unit/curator/mechanisms \
	tests/unit/analyst/test_generators.py tests/unit/analyst/test_embedding.py \
	--ignore=tests/unit/curator/mechanisms/test_described.py
NEWEST = tests/contract tests/unit/analyst tests/unit/cli tests/unit/curator/rest tests/unit/curator/rpc tests/unit/curator/telemetry
SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)  # a part's output in one piece
OTHER_MACHINE = ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Haswell

.PHONY: help demo test install lint types unit e2e numeric oldest newest kernels protos bench sbom clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

install: $(STAMP) ## make a virtual environment with everything in it

demo: $(STAMP) ## a curator, an analyst, digits, and the refusal at the end of the budget
	$(BIN)/python examples/demo.py

test: $(STAMP) ## everything that CI checks
	@$(MAKE) --jobs=2 $(SYNC) JOBS=0 $(BESIDE) \
		|| { echo "make test: a part failed; above, '***' ends what it printed"; exit 1; }
	$(MAKE) unit e2e

lint: $(STAMP) ## style, import contracts, generated stubs and schemas
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/protos.py --check
	$(BIN)/python scripts/mechanism_schemas.py --check
	@find curator analyst audit scripts -name '*.py' -exec wc -l {} + | awk \
		'$$1 > 350 && $$2 != "total" {print "warning: " $$2 " has " $$1 " lines: is it still one idea?"}'

# mypy joins types in the order of a set, which differs from run to run without a fixed seed.
types: $(STAMP) ## mypy in strict mode
	PYTHONHASHSEED=0 $(BIN)/mypy

unit: $(STAMP) ## unit, contract, property, statistical and architecture tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests --ignore=tests/e2e --ignore=tests/browser $(TIMED:%=--ignore=%)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(wildcard $(TIMED))

e2e: $(STAMP) ## tests with real processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/e2e tests/browser

# Other instruction sets add in another order; a bound that only holds in one of them is a bug.
numeric: $(STAMP) ## the numeric tests again as on another processor
	$(OTHER_MACHINE) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(NUMERIC)

oldest: $(STAMP) ## the analyst's client on the oldest protobuf that pyproject.toml admits
	$(BIN)/pip install --quiet --upgrade --target $(VENV)/protobuf-5 'protobuf==5.28.*'
	PYTHONPATH=$(VENV)/protobuf-5 OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit/analyst/client

# Torch stays pinned: builds of another version are gigabytes.
newest: $(STAMP) ## upgrade this environment past constraints.txt; tests again if that changed anything
	$(BIN)/pip freeze --exclude-editable > $(VENV)/tested
	$(BIN)/pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]' $$(grep '^torch==' constraints.txt)
	@$(BIN)/pip freeze --exclude-editable | diff $(VENV)/tested - && echo "nothing is newer than what was tested" \
		|| { $(MAKE) numeric && OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(NEWEST); }

kernels: $(STAMP) ## the graphics card's kernels in Triton's interpreter, without a card
	$(BIN)/pip install --quiet --upgrade --target $(VENV)/triton triton==3.9.0
	PYTHONPATH=$(VENV)/triton TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) tests/unit/curator/divergences/test_cuda_kernels.py

protos: $(STAMP) ## generate the stubs after a change of a .proto file
	$(BIN)/python scripts/protos.py

bench: $(STAMP) ## measure everything; JSON rows on standard output, some minutes
	@for one in barrier transport training concurrency scaling; do \
		OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.$$one || exit 1; done

sbom: $(STAMP) ## what this environment is made of, as CycloneDX JSON; deploy/sbom.sh does the images
	mkdir -p sbom
	$(BIN)/python deploy/image/sbom.py $(BIN)/python sbom/weir.cdx.json

clean: ## remove the environment and what the demo wrote
	rm -rf $(VENV) demo
