# The commands of this project.  Each works alone on a fresh Debian 12: it first
# installs the packages it needs (root or sudo), then builds into
# build/<preset>.  `make` lists them.
#
#   JOBS=n           parallel compilations and tests (default: all cores)
#   CTEST_ARGS=...   more for ctest, for example CTEST_ARGS="-R Visibility"
#   BENCH_ARGS=...   more for kernel_bench, for example --benchmark_filter=rope
#   FUZZ_SECONDS=n   per fuzzer of `make fuzz` (default 60)
#   ATTND_FUZZ_SECONDS=n  of changed inputs per fuzzer in test and asan (0)
#   PROOF=name       only the scenarios whose name holds it
#   PROOF_SECONDS=n  per load scenario (default 30)
#   LINT_ALL=1       clang-tidy on all files, not only on the changed ones
#   PARITY_PYTHON=.. for `make parity`: a Python that has torch and transformers
#   IMAGE=name       tag of the image (default attnd:dev)
#   IMAGE_ARGS=...   more for the engine, for example "--build-arg BASE=..."

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.DEFAULT_GOAL := help

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60
PROOF_SECONDS ?= 30
IMAGE ?= attnd:dev

INSTALL := deploy/install-packages.sh
RELEASE := build/release
CTEST := ctest --output-on-failure -j $(JOBS)
# In continuous integration a warning is an error in the release build as well.
STRICT := $(if $(CI),-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)

.PHONY: help
help: ## this list
	@awk -F':.*## ' '/^[a-z -]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' \
	  $(firstword $(MAKEFILE_LIST))

.PHONY: packages
packages: ## install every Debian package that any command here needs
	@$(INSTALL) build test tools

.PHONY: demo
demo: ## build, start attnd, run the real-data example through it
	@$(INSTALL) build
	# A tree that was configured with tests keeps them.
	[ -f $(RELEASE)/CMakeCache.txt ] || no_tests=-DATTND_TESTS=OFF
	cmake --preset release $${no_tests-} --log-level=WARNING >/dev/null
	cmake --build $(RELEASE) -j $(JOBS) --target attnd attnctl
	client/examples/demo.sh $(RELEASE)

.PHONY: test
test: ## build everything and run all tests
	@seconds=; since=$$SECONDS
	lap() { seconds+=" $$1 $$((SECONDS - since)) s"; since=$$SECONDS; }
	$(INSTALL) build test
	lap packages
	cmake --preset release -DATTND_TESTS=ON $(STRICT) --log-level=WARNING
	lap configure
	cmake --build $(RELEASE) -j $(JOBS)
	lap build
	echo "make test:$$seconds"
	$(CTEST) --test-dir $(RELEASE) --no-tests=error $(CTEST_ARGS)

.PHONY: bench
bench: ## kernels to build/bench/kernel.json, transport to transport.json
	@$(INSTALL) build test
	cmake --preset release -DATTND_TESTS=ON --log-level=WARNING
	cmake --build $(RELEASE) -j $(JOBS) --target attnd kernel_bench \
	  transport_bench
	mkdir -p build/bench
	$(RELEASE)/kernel_bench --benchmark_out=build/bench/kernel.json \
	  --benchmark_out_format=json --benchmark_counters_tabular=true $(BENCH_ARGS)
	$(RELEASE)/transport_bench | tee build/bench/transport.json

.PHONY: proof soak
proof: ## what is promised under load and faults, as figures (PROOF=name: one)
	@$(INSTALL) build test
	cmake --preset release -DATTND_TESTS=ON --log-level=WARNING
	cmake --build $(RELEASE) -j $(JOBS) --target proof_test transport_bench
	ATTND_PROOF_SECONDS=$(PROOF_SECONDS) $(RELEASE)/test-bin/proof_test \
	  --gtest_brief=1 --gtest_filter='*$(PROOF)*-*Soak'
	[ -n "$(PROOF)" ] || $(RELEASE)/transport_bench

soak: ## 20 minutes of mixed sizes at 70 % load
	@$(INSTALL) build test
	cmake --preset release -DATTND_TESTS=ON --log-level=WARNING
	cmake --build $(RELEASE) -j $(JOBS) --target proof_test
	ATTND_PROOF_SECONDS=1200 $(RELEASE)/test-bin/proof_test \
	  --gtest_filter=*Soak

.PHONY: lint
lint: lint-format ## formatting, and clang-tidy on what changed
	@$(INSTALL) build test
	cmake --preset release -DATTND_TESTS=ON --log-level=WARNING
	# The generated headers must be there to be included.
	cmake --build $(RELEASE) -j $(JOBS) --target attnd_proto
	.ci/tidy $(RELEASE) $(JOBS)

.PHONY: lint-format
lint-format: ## formatting only
	@$(INSTALL) tools
	git ls-files -z '*.h' '*.cc' '*.proto' |
	  xargs -0 -r clang-format-14 --dry-run -Werror
	/usr/bin/black -q --check client tests/client tests/parity
	echo "formatting: good"

.PHONY: asan tsan
asan tsan: ## kernel and server tests under ASan+UBSan or under TSan
	@$(INSTALL) build test
	cmake --preset $@ --log-level=WARNING
	cmake --build build/$@ -j $(JOBS) --target sanitized_tests
	ctest --preset $@ -j $(JOBS) $(CTEST_ARGS)

.PHONY: fuzz
fuzz: ## every fuzzer for FUZZ_SECONDS, from the committed corpus
	@$(INSTALL) build test tools
	cmake --preset fuzz --log-level=WARNING
	cmake --build build/fuzz -j $(JOBS) --target fuzzers
	while read -r program corpus; do
	  name=$$(basename "$$program")
	  found=build/fuzz/found/$$name
	  mkdir -p "$$found"
	  echo "== $$name, $(FUZZ_SECONDS) s"
	  "$$program" -max_total_time=$(FUZZ_SECONDS) -timeout=20 \
	    -print_final_stats=1 -artifact_prefix="build/fuzz/$$name-" \
	    "$$found" "$$corpus" </dev/null
	done <build/fuzz/fuzzers.txt

.PHONY: image
image: ## the container image, with docker, podman or buildah
	@revision=$$(git rev-parse HEAD 2>/dev/null || echo unknown)
	# Of the commit, so that the same sources make the same labels.
	created=$$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ \
	  2>/dev/null || echo 1970-01-01T00:00:00Z)
	arguments=(--build-arg "REVISION=$$revision" --build-arg "CREATED=$$created"
	  $(IMAGE_ARGS) -t $(IMAGE) .)
	if docker info >/dev/null 2>&1; then
	  docker build "$${arguments[@]}"
	elif command -v podman >/dev/null; then
	  podman build --format docker "$${arguments[@]}"
	elif command -v buildah >/dev/null; then
	  buildah build --format docker "$${arguments[@]}"
	else
	  echo "make image: no docker, podman or buildah that works here" >&2
	  exit 1
	fi

.PHONY: autoscale
autoscale: ## a day's load on attnd processes that scale, to build/autoscale/
	@$(INSTALL) build test
	cmake --preset release --log-level=WARNING >/dev/null
	cmake --build $(RELEASE) -j $(JOBS) --target attnd attnctl
	/usr/bin/python3 -B tests/deploy/autoscale.py $(RELEASE)/attnd \
	  $(RELEASE)/attnctl build/autoscale

.PHONY: deploy-check
deploy-check: ## the chart, with Helm and the schemas of Kubernetes
	@$(INSTALL) build test
	cmake --preset release --log-level=WARNING >/dev/null
	cmake --build $(RELEASE) -j $(JOBS) --target attnd
	tests/deploy/deploy_check.sh build/deploy-tools $(RELEASE)/attnd

.PHONY: parity
parity: ## rotary encodings beside those of transformers and torch (needs PyPI)
	@$(INSTALL) build test
	cmake --preset release --log-level=WARNING >/dev/null
	cmake --build $(RELEASE) -j $(JOBS) --target attnd attnctl
	python=$(PARITY_PYTHON)
	if [ -z "$$python" ]; then
	  venv=build/parity-venv
	  [ -x $$venv/bin/python ] || /usr/bin/python3 -m venv $$venv
	  $$venv/bin/pip install --quiet --requirement tests/parity/requirements.txt
	  python=$$venv/bin/python
	fi
	$$python -B tests/parity/rope_parity.py $(RELEASE)/attnd $(RELEASE)/attnctl

.PHONY: clean
clean: ## remove build/
	rm -rf build
