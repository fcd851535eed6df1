# The two commands of the README are `make demo` and `make test`.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
MADE = $(VENV)/pyvenv.cfg
STAMP = $(VENV)/.installed
JOBS ?= 2
E2E_JOBS ?= $(shell expr $(JOBS) + 1)  # each of them waits for other processes half of the time
BESIDE ?= types timed lint  # parts of `make test` that run side by side, as each needs one core
TIMED = $(wildcard tests/statistical/test_timing*.py) tests/performance  # beside one process at most

NUMERIC = tests/unit/curator/divergences tests/unit/curator/sanitizer tests/unit/curator/mechanisms \
	tests/unit/analyst/test_generators.py tests/unit/analyst/test_embedding.py \
	tests/unit/analyst/test_scattering.py tests/unit/analyst/test_last_layers.py \
	--ignore=tests/unit/curator/mechanisms/test_described.py
NEWEST = tests/contract/test_ledgers.py tests/contract/test_mechanisms.py tests/unit/analyst tests/unit/cli tests/unit/curator/rest tests/unit/curator/rpc tests/unit/curator/telemetry
SYNC = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)  # a part's output in one piece
OR_SAY = || { echo "make test: a part failed; above, '***' ends what it printed"; exit 1; }
CARD = tests/unit/curator/divergences tests/unit/curator/sanitizer tests/unit/curator/mechanisms/test_dp_sinkhorn_step.py \
	tests/unit/curator/mechanisms/test_mean_embedding.py tests/unit/analyst/test_captured.py tests/unit/analyst/test_captured_embedding.py
OTHER_MACHINE = ATEN_CPU_CAPABILITY=default NUMBA_CPU_NAME=generic OPENBLAS_CORETYPE=Haswell

# Else every process that a test starts compiles the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test install protobuf triton lint types timed unit waits e2e numeric oldest newest kernels card proofs protos bench sbom clean

help: ## show the targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Not compiled: most files are never imported, and an import compiles what it needs.
$(STAMP): pyproject.toml constraints.txt | $(MADE)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

# What two parts put before the environment, each in a folder of its own.
protobuf triton: %: $(VENV)/%/.installed
$(VENV)/protobuf/.installed: PACKAGE = protobuf==5.28.*
$(VENV)/triton/.installed: PACKAGE = triton==3.9.0
$(VENV)/%/.installed: Makefile | $(MADE)
	$(BIN)/pip install --quiet --no-compile --no-deps --upgrade --target $(@D) '$(PACKAGE)'
	touch $@

install: $(STAMP) ## make a virtual environment with everything in it

demo: $(STAMP) ## a curator, an analyst, digits, and the refusal at the end of the budget
	$(BIN)/python examples/demo.py

test: $(STAMP) ## everything that CI checks
	@$(MAKE) --jobs=2 $(SYNC) JOBS=0 $(BESIDE) $(OR_SAY)
	@$(MAKE) --jobs=2 unit waits $(OR_SAY)
	$(MAKE) e2e

lint: $(STAMP) ## style, import contracts and generated stubs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/protos.py --check
	@find curator analyst audit scripts -name '*.py' -exec wc -l {} + | awk \
		'$$1 > 350 && $$2 != "total" {print "warning: " $$2 " has " $$1 " lines: is it still one idea?"}'

# mypy joins types in the order of a set, which differs from run to run without a fixed seed.
types: $(STAMP) ## mypy in strict mode
	PYTHONHASHSEED=0 $(BIN)/mypy

unit: $(STAMP) ## unit, contract, property, statistical and architecture tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests --ignore=tests/e2e --ignore=tests/browser --ignore=tests/proofs $(TIMED:%=--ignore=%)

timed: $(STAMP) ## tests that measure time
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(wildcard $(TIMED))

e2e: $(STAMP) ## tests with real processes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(E2E_JOBS) --dist worksteal -m 'not waits' tests/e2e tests/browser

# Beside tests that compute, so it prints when it is done.
waits: $(STAMP) ## those of them that mostly wait for something to run out
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m waits tests/e2e >$(VENV)/waits 2>&1; \
		code=$$?; cat $(VENV)/waits; exit $$code

# Other instruction sets add in another order; a bound that only holds in one of them is a bug.
numeric: $(STAMP) ## the numeric tests again as on another processor
	$(OTHER_MACHINE) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(NUMERIC)

oldest: $(STAMP) protobuf ## the analyst's client on the oldest protobuf that pyproject.toml admits
	PYTHONPATH=$(VENV)/protobuf OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/unit/analyst/client

# Torch stays pinned: builds of another version are gigabytes. The numeric tests are among these in
# any case, so that CI needs no third run of them; `make clean numeric` tells a fault of a newer
# library from one of other instruction sets.
newest: $(STAMP) ## upgrade this environment past constraints.txt; numeric, and if that changed anything, more
	$(BIN)/pip freeze --exclude-editable > $(VENV)/tested
	$(BIN)/pip install --quiet --no-compile --upgrade --upgrade-strategy eager --editable '.[dev]' $$(grep '^torch==' constraints.txt)
	@if $(BIN)/pip freeze --exclude-editable | diff $(VENV)/tested -; then \
		echo "nothing is newer than what was tested"; $(MAKE) numeric; \
	else $(MAKE) numeric NUMERIC='$(NUMERIC) $(NEWEST)'; fi

kernels: $(STAMP) triton ## the graphics card's kernels in Triton's interpreter, without a card
	PYTHONPATH=$(VENV)/triton TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) tests/unit/curator/divergences/test_cuda_kernels.py

# Each goes on whatever became of the one before: the card may be rented by the minute.
card: $(STAMP) ## on a machine with a graphics card: the tests that need one, and card.jsonl of what it takes and gives
	@$(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' \
		|| { echo "no graphics card for this torch: nvidia-smi shows the card, torch.version.cuda the build"; exit 1; }
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(CARD); code=$$?; \
		$(BIN)/python -m benchmarks.gpu > card.jsonl || code=1; \
		$(BIN)/python -m benchmarks.dp_cgan_check --device cuda >> card.jsonl || code=1; \
		cat card.jsonl; exit $$code

proofs: $(STAMP) ## let Coq and interval arithmetic check the proofs, and find every mutant of the code
	$(BIN)/python -m proofs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/proofs

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
