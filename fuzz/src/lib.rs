//! What the fuzz targets call: the readers as their crates' tests know them.
//!
//! A target's name is that of its reader and of its corpus, `crates/*/tests/corpus/NAME`: small sound inputs, and what was
//! once found. Tests walk both; what a new run finds belongs there, made small with `cargo +nightly fuzz tmin`.

use std::sync::Once;

#[path = "../../crates/binhop-sim/tests/corpus/reader.rs"]
pub mod machine;
#[path = "../../crates/binhop-record/tests/corpus/reader.rs"]
pub mod pipe;
#[path = "../../crates/binhop-trace/tests/corpus/readers.rs"]
pub mod trace;

/// Parquet's decoder may panic on another program's damaged file, which its callers catch. libFuzzer's hook would
/// end the process all the same; from here on only panics that nobody catches do.
pub fn allow_caught_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
}
