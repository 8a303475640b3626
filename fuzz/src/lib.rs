//! The readers that the fuzz targets call, as the tests of their crates define them.
//!
//! A target has the name of its reader and of its corpus, `crates/*/tests/corpus/NAME`. A corpus holds small
//! valid inputs, and inputs that once caused an error. Tests and fuzz targets read the same corpora. Add each
//! finding of a run to the corpus, after `cargo +nightly fuzz tmin` has made it small.

use std::sync::Once;

#[path = "../../crates/binhop-sim/tests/corpus/reader.rs"]
pub mod machine;
#[path = "../../crates/binhop-record/tests/corpus/reader.rs"]
pub mod pipe;
#[path = "../../crates/binhop-trace/tests/corpus/readers.rs"]
pub mod trace;

/// Lets a target continue after a panic that its reader catches.
///
/// Parquet's decoder may panic on another program's damaged file, and its callers catch the panic.
/// libFuzzer's hook would end the process at every panic; the hook set here prints the panic, so that only a
/// panic that nobody catches ends the process.
pub fn allow_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
}
