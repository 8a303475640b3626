//! This module holds what the tests share: drawn events, and the machines on which the events run.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports, unused_macros)]

mod events;
mod machines;
mod touches;

use proptest::test_runner::Config;

pub use events::{Event, Fixed, batch, behind_warm_up, event, named, reference};
pub use machines::{SMALL, flushes, flushes_caches, flushing, inclusive, machine, metric, run};
pub use touches::{TouchedUnit, touched_units};

/// Returns the configuration of a property that draws `few` cases in `make test`, and `many` in `make test-long`.
pub fn cases(few: u32, many: u32) -> Config {
    Config::with_cases(binhop_oracle::cases::cases(few, many))
}

/// Declares properties with few cases for `make test`. A module of the given name declares the same properties with
/// many cases for `make test-long`.
macro_rules! short_and_long {
    ($long:ident: $few:literal, $many:literal; $(fn $name:ident($($argument:tt)*) $body:block)+) => {
        proptest::proptest! {
            #![proptest_config(proptest::test_runner::Config::with_cases($few))]

            $(#[test]
            fn $name($($argument)*) $body)+
        }

        mod $long {
            use super::*;

            proptest::proptest! {
                #![proptest_config(proptest::test_runner::Config::with_cases($many))]

                $(#[test]
                #[ignore = "takes long: many cases"]
                fn $name($($argument)*) $body)+
            }
        }
    };
}
pub(crate) use short_and_long;
