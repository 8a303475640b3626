#!/bin/sh
# Cargo runs this script in place of rustc (RUSTC_WRAPPER) when `make test` compiles the Rust tests. The script passes
# the call on, and switches the optimisation of most test programs off. Such a program spends its time in the libraries,
# which stay optimised: it compiles in a quarter of the time, and saves more than it loses when it runs. The programs
# that are excepted spend their time in their own code, or in generic code of a library that is compiled with the
# program.
# BINHOP_WRAPPER is the user's own wrapper, or empty. Cargo does not see the contents of this script: after an edit the
# programs are compiled anew only by `cargo clean`.
case "$CARGO_PKG_NAME $* " in
  "binhop-hw "*"--crate-name coherence "*) ;;
  "binhop-workload "*"--crate-name streams "*) ;;
  *" --test "*) set -- "$@" -C opt-level=0 ;;
esac
exec ${BINHOP_WRAPPER:+"$BINHOP_WRAPPER"} "$@"
