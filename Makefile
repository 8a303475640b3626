# Each target sets itself up from a bare clone. It needs cargo, Python >= 3.11 and a C compiler.
#   make demo       simulates two workloads under 32 page placements each; writes tables and figures
#                   under out/demo/; prints what 1, 32 and 1,024 placements cost
#   make test       runs the Rust and Python tests side by side. If the extension is not built or not up to date, the
#                   tests build it with checks; `make build` then builds the fast extension again
#   make test-long  runs the tests that take minutes or gigabytes, and draws many cases of each Rust property; `make
#                   test` runs a short form of each
#   make check      checks formatting, lints, types and stubs, then runs `make test`
#   make bench      measures the references per second of each stage, of pycachesim on the same trace, and of recording
#                   beside lackey, and of device data behind a memory controller; then of rows of one reference, beside
#                   a naive loop and pycachesim's C core
#   make gallery    records and simulates five programs (docs/gallery.md), under out/gallery/
#   make fuzz       gives every reader damaged input for FUZZ_SECONDS=60 each; TARGETS="din trace" chooses readers. It
#                   needs rustup's nightly compiler and cargo-fuzz
#   make docs       makes the API documentation under target/doc, and checks the generated pages and every document
.PHONY: demo test test-long check bench gallery fuzz docs build tested rust-test python-test lint clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1
# The tests start the command hundreds of times; without its bytecode each start compiles binhop again.
unexport PYTHONDONTWRITEBYTECODE

RUST_SOURCES := $(shell find crates machines -name '*.rs' -o -name '*.toml') Cargo.toml Cargo.lock

build: $(VENV)/.built

$(VENV)/.installed: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON): $$($(PYTHON) --version): binhop needs Python 3.11 or later; run make PYTHON=python3.11" >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	touch $@

$(VENV)/.built: $(VENV)/.installed pyproject.toml $(RUST_SOURCES)
	$(BIN)/maturin develop --release --quiet
	rm -f $(VENV)/.tested
	touch $@

# Python tests take the extension of `make build` if it is up to date. Otherwise they take an extension of the crates
# that the Rust tests have compiled: this needs 20 s of processor time in place of three minutes, and checks arithmetic
# here, too. `make test-long` takes the extension of `make build`.
tested: $(VENV)/.installed
	@$(MAKE) --question $(VENV)/.built 2>/dev/null || $(MAKE) --no-print-directory $(VENV)/.tested

$(VENV)/.tested: $(VENV)/.installed pyproject.toml $(RUST_SOURCES)
	MAKEFLAGS= $(BIN)/maturin develop --release --quiet $(TESTED)
	rm -f $(VENV)/.built
	touch $@
	@echo "The extension has checks and is slow: \`make build\` builds the fast one."

demo: build
	$(BIN)/binhop run kh90 mult2.2 --length 50M --seeds 32 --interval 1M --out out/demo/mult2.2
	$(BIN)/binhop run kh90 examples/traces/sort.parquet --seeds 32 --interval 100k --out out/demo/sort
	$(BIN)/python benches/placements.py demo

# Rust tests and Python tests run side by side: one uses the processors while the other waits for a linker, a
# subprocess or its last test. The output of each appears when it has ended.
test:
	@echo "Rust and Python tests run side by side; the output of each follows when it has ended."
	@$(MAKE) --no-print-directory --jobs=2 --keep-going \
	  $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) rust-test python-test

# Rust tests use the extension's profile and the features of the whole workspace, so that the dependencies of both are
# compiled once. Python tests cover the extension: its crate has no Rust tests. To compile takes several times as long
# as to run the tests, so what tests use little is optimised little, and crates are not optimised across the units that
# are compiled apart (`lto`). binhop's own crates check their arithmetic.
OWN := $(notdir $(wildcard crates/*))
SETTINGS := debug-assertions=true overflow-checks=true opt-level=1 codegen-units=16
UNOPTIMISED := parquet arrow-array arrow-data arrow-schema num-bigint chrono serde_json rustix
LITTLE_OPTIMISED := zstd-sys liblzma-sys
# Most programs of the Rust tests are compiled without optimisation, and the libraries that they link are compiled with
# it. The script runs the user's own wrapper, if the environment names one.
TEST_RUSTC = BINHOP_WRAPPER="$$RUSTC_WRAPPER" RUSTC_WRAPPER="$(CURDIR)/tests/rustc_of_tests.sh"
TESTED := --config 'profile.release.lto="off"' \
  $(foreach crate,$(OWN),$(foreach setting,$(SETTINGS),--config profile.release.package.$(crate).$(setting))) \
  $(foreach crate,$(UNOPTIMISED),--config profile.release.package.$(crate).opt-level=0) \
  $(foreach crate,$(LITTLE_OPTIMISED),--config profile.release.package.$(crate).opt-level=1)
# The long tests have optimised programs. Cargo does not see which wrapper compiled a program, so a setting of their own
# keeps the programs of `make test` and `make test-long` apart: the later value replaces the value in SETTINGS.
LONG_TESTED := $(TESTED) $(foreach crate,$(OWN),--config profile.release.package.$(crate).codegen-units=17)

# Examples and benchmarks are compiled by `make lint`.
# The tests of corpora are compiled first, because they need every library and little else. Cargo builds for one command
# at a time: it builds the extension next, and Python tests begin while the other Rust tests are compiled.
# Cargo and rustdoc would take make's two jobs as their limit, so they do not see them.
rust-test:
	MAKEFLAGS= $(TEST_RUSTC) cargo test --release --locked --quiet --workspace --test corpus --no-run $(TESTED)
	MAKEFLAGS= $(TEST_RUSTC) cargo test --release --locked --quiet --workspace --tests $(TESTED)
	MAKEFLAGS= cargo test --release --locked --quiet --workspace --doc $(TESTED)

# Tests run on all processors. `loadscope` keeps the tests of a file or class together, so that their fixtures are
# made once. Files begin in the order of tests/conftest.py, the longest first.
python-test: tested
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadscope --no-loadscope-reorder

# The environment makes the other Rust tests draw more cases (`crates/binhop-oracle/src/cases.rs`).
test-long: build
	$(BIN)/python -m pytest -q -rA -m long
	BINHOP_LONG_TESTS=1 cargo test --release --locked --quiet --workspace --tests $(LONG_TESTED) -- --include-ignored

lint: tested
	@# `cargo fmt` does not see modules that a macro declares (the placement policies), so rustfmt gets every file.
	rustfmt --check $(shell find crates fuzz/src fuzz/fuzz_targets -name '*.rs')
	cargo clippy --locked --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check python tests examples benches
	$(BIN)/ruff check python tests examples benches
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest binhop._binhop

check: lint test

bench: build
	cargo run --locked --release --quiet -p binhop-sim --example bench
	cargo run --locked --release --quiet -p binhop-sim --example import_bench
	cargo run --locked --release --quiet -p binhop-sim --example device_data_bench
	cargo test --locked --release --quiet -p binhop-trace --test import lines_per_second -- --ignored --nocapture
	$(BIN)/python benches/pycachesim_bench.py
	$(BIN)/python benches/record_bench.py
	$(BIN)/python benches/single_bench.py

gallery: build
	BINHOP="$(CURDIR)/$(BIN)/binhop" sh examples/gallery/record.sh out/gallery

# A run starts from the committed inputs. It keeps its findings under fuzz/artifacts/NAME and new inputs under
# fuzz/corpus/NAME. Sanitizers cost speed, and look for errors that safe Rust cannot make. FUZZ_SANITIZER=address
# checks the C libraries of compression.
FUZZ_SECONDS ?= 60
FUZZ_SANITIZER ?= none
TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

fuzz:
	@set -e; for target in $(TARGETS); do \
	  mkdir -p fuzz/corpus/$$target; \
	  nice -n 19 cargo +nightly fuzz run --sanitizer $(FUZZ_SANITIZER) $$target fuzz/corpus/$$target crates/*/tests/corpus/$$target \
	    -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -timeout=20 -print_final_stats=1; \
	done

docs: build
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --workspace --exclude binhop-py
	$(BIN)/python -m pytest -q tests/docs

clean:
	rm -rf $(VENV) out
	cargo clean
