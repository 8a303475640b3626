//! The tests of the caches are one program, and the files beside this file are its modules: `common` and the generic
//! code of the caches are compiled once.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod cachegrind;
mod common;
mod counters;
mod direct_mapped;
mod dma;
mod dram;
mod fast;
mod fast_paths_allowed;
mod known_hits;
mod oracle;
mod recurring_bugs;
mod rules;
mod stack;
mod textbook;
