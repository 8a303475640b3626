//! The protocol of the caches for device data is checked in all states that two processor caches, a DMA cache and a
//! line or two reach. The tables are those that the schemes run on.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod explore;
mod machine;
mod mutants;
mod page;
mod properties;
mod safe;
mod state;
mod step;
