#!/bin/sh
# Cargo runs this script in place of rustc (RUSTC_WRAPPER) when `make test` compiles the Rust tests. The script passes
# the call on, and switches the optimisation of most test programs off. Such a program spends its time in the libraries,
# which stay optimised: it compiles in a quarter of the time, and runs little longer. The programs that are excepted
# spend their time in their own code, or in generic code of a library that is compiled with the program.
rustc=$1
shift
case "$CARGO_PKG_NAME $* " in
  "binhop-hw "*"--crate-name integration "* | "binhop-hw "*"--crate-name coherence "*) exec "$rustc" "$@" ;;
  *" --test "*) exec "$rustc" "$@" -C opt-level=0 ;;
  *) exec "$rustc" "$@" ;;
esac
