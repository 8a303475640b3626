//! A property draws few cases in `make test`, and many in `make test-long`.

use std::env;

/// Returns how many cases a property draws: `few`, or `many` if the environment has `BINHOP_LONG_TESTS`, which
/// `make test-long` sets.
#[must_use]
pub fn cases(few: u32, many: u32) -> u32 {
    if env::var_os("BINHOP_LONG_TESTS").is_some() { many } else { few }
}
