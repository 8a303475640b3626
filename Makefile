# Each target sets itself up from a bare clone: cargo, Python >= 3.11 and a C compiler are all it needs.
#   make demo    two workloads under 32 page placements each; tables and pictures under out/demo/
#   make test    every test, Rust and Python
#   make test-long   the tests that take minutes or gigabytes: what `make test` does in a short form
#   make check   formatting, lints, types, stubs, then every test
#   make bench   references per second of each stage, and of pycachesim on the same trace; recording beside lackey; one reference
#                a row beside a naive loop and pycachesim's C core
#   make gallery five programs recorded and simulated (docs/gallery.md), under out/gallery/
#   make fuzz    every reader on damaged input, FUZZ_SECONDS=60 each (TARGETS="din trace" for some); rustup's nightly, cargo-fuzz
#   make docs    the API documentation under target/doc; the generated pages and every document are checked
.PHONY: demo test test-long check bench gallery fuzz docs build rust-test python-test lint clean
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1

# The extension knows Python and is tested through it; the other crates are tested as crates.
CRATES := --workspace --exclude binhop-py
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
	touch $@

demo: build
	$(BIN)/binhop run kh90 mult2.2 --length 50M --seeds 32 --interval 1M --out out/demo/mult2.2
	$(BIN)/binhop run kh90 examples/traces/sort.parquet --seeds 32 --interval 100k --out out/demo/sort

test: rust-test python-test

# Rust tests have the extension's profile, so that what both depend on is compiled once; our own arithmetic is checked.
CHECKS := debug-assertions overflow-checks
CHECKED := $(foreach crate,$(notdir $(wildcard crates/*)),\
  $(foreach check,$(CHECKS),--config profile.release.package.$(crate).$(check)=true))

rust-test:
	cargo test --release --locked --quiet $(CRATES) $(CHECKED)

# On all processors; what a file or class shares is made once.
python-test: build
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadscope

test-long: build
	$(BIN)/python -m pytest -q -rA -m long

lint: build
	@# Not cargo fmt: it does not see modules that a macro declares (the placement policies).
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
	$(BIN)/python benches/pycachesim_bench.py
	$(BIN)/python benches/record_bench.py
	$(BIN)/python benches/single_bench.py

gallery: build
	BINHOP=$(CURDIR)/$(BIN)/binhop sh examples/gallery/record.sh out/gallery

# What a run finds is under fuzz/artifacts/NAME; what it learned, under fuzz/corpus/NAME. It starts from what is committed. Sanitizers cost
# speed and look for what safe Rust cannot do wrong: FUZZ_SANITIZER=address has them for the C libraries of compression.
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
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps $(CRATES)
	$(BIN)/python -m pytest -q tests/docs

clean:
	rm -rf $(VENV) out
	cargo clean
