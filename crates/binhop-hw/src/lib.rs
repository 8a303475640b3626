//! The hardware of binhop: caches in a tree, and the write buffers between them.
//!
//! It knows no operating system: what it must know of a page it asks through [`binhop_base::Translation`].
//! What one access counts as is written at the top of `flow.rs`; how a write waits, at the top of
//! `buffer.rs`; how a victim is chosen, in one file per policy under `replacement/`.
#![forbid(unsafe_code)]

mod back;
mod block;
mod buffer;
mod cache;
mod cachegrind;
mod choice;
mod computer;
mod config;
mod counter;
mod fan;
mod fast;
mod flow;
mod front;
mod law;
mod leaf;
mod lines;
mod memory;
mod replacement;
mod request;
mod sieve;
mod stack;
mod stage;
mod witness;

pub use back::{Back, Bound, WitnessedBack};
pub use block::Access;
pub use cache::Resident;
pub use choice::{CostRule, IndexBy, Replacement, Rules, TagBy, WritePolicy, WritebackOrder};
pub use computer::{Answer, Computer, DirtyData, Invalidation};
pub use config::{CacheConfig, Next, Tree, TreeConfig, WriteBufferConfig};
pub use counter::{AgentCounters, AgentMemoryCounters, CacheCounters, CounterInfo, MemoryCounters};
pub use fan::{Alike, Fan};
pub use fast::{FastPath, FastPathSet, FastPaths};
pub use front::Front;
pub use law::{Counted, check};
pub use request::{Below, MEMORY, Origin, PART, Request};
pub use sieve::Sieve;
pub use stack::{Member, Stack, StackShape};
pub use witness::{Departure, Left, Level, Witness};
