//! The hardware of binhop: caches in a tree, and the write buffers between them.
//!
//! It knows no operating system: what it must know of a page it asks through [`binhop_base::Translation`].
//! What one access counts as is written at the top of `flow.rs`; how a write waits, at the top of
//! `buffer.rs`; how a victim is chosen, in one file per policy under `replacement/`.
#![forbid(unsafe_code)]

mod back;
mod buffer;
mod cache;
mod cachegrind;
mod choice;
mod computer;
mod config;
mod counter;
mod fast;
mod flow;
mod front;
mod invariants;
mod lines;
mod memory;
mod replacement;
mod request;
mod stage;
mod witness;

pub use back::{Back, Bound, WitnessedBack};
pub use cache::Resident;
pub use choice::{CostRule, IndexBy, Replacement, Rules, TagBy, WritePolicy, WritebackOrder};
pub use computer::{Answer, Computer, DirtyData, Invalidation};
pub use config::{CacheConfig, Next, Tree, TreeConfig, WriteBufferConfig};
pub use counter::{AgentCounters, AgentMemoryCounters, CacheCounters, CounterInfo, MemoryCounters};
pub use fast::direct_mapped::{CommonCounts, DirectMappedFilter};
pub use fast::known_hits::KnownHitFilter;
pub use fast::lru_stack::{LruStack, LruStackShape, Member};
pub use fast::two_phase::Access;
pub use fast::{FastPath, FastPathSet, FastPaths};
pub use front::Front;
pub use invariants::{Counted, check};
pub use request::{Below, MEMORY, Origin, PART, Request};
pub use witness::{Departure, Left, Level, Witness};
