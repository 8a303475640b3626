//! The hardware of binhop: caches in a tree, with write buffers and stream buffers between them, and TLBs.
//!
//! The crate knows no operating system: it asks for the frame of a page through [`binhop_base::Translation`]. The top
//! of `cache/access.rs` says what one access counts as, the top of `cache/write_buffer.rs` how a write waits,
//! and the top of `cache/stream_buffers.rs` how lines are fetched ahead. The top of `tlb/mod.rs` says what a lookup
//! of a TLB counts as. One file per policy under `replacement/` says how a victim is chosen.
// `cache/lines/search.rs` alone may use unsafe code, and says why.
#![deny(unsafe_code)]

mod back;
mod cache;
mod choice;
mod computer;
mod config;
mod counters;
mod dma;
mod dram;
mod fast;
mod front;
mod invariants;
mod memory;
mod replacement;
mod request;
mod tlb;
mod tree;
mod witness;

pub use back::{Back, Bound, ReplayedByAgent, WitnessedBack};
pub use cache::{Resident, SparseBytes};
pub use choice::{CostRule, IndexBy, Rules, TagBy, TlbReplacement, WritePolicy, WritebackOrder};
pub use computer::Computer;
pub use config::{CacheConfig, Next, StreamConfig, TreeConfig, WriteBufferConfig};
pub use counters::{
    AgentCounters, AgentMemoryCounters, CacheCounters, Counted, CountedCaches, CounterInfo, MemoryCounters,
    TlbCounters, TlbPortCounters, WalkCacheCounters,
};
pub use dma::{
    DeviceDataCounters, DmaCacheConfig, DmaCounters, ESI, FateCounters, FixedLatency, HeldLine, IO_ESI,
    IO_MOESI, LastLevelConfig, LineAction, LineCounters, LineEvent, LineMemory, LineState, LineUse, MOESI,
    PROTOCOLS, PostedMemory, ReferenceCounters, Scheme, SchemeConfig, SchemeKind, ServedBy, TapAnswer,
    TapClass, TapEvent, Transition, TransitionTable, check_cycles, check_scheme, check_table, make_scheme,
    reached_states, transition,
};
pub use dram::{
    AddressMapping, DRAM_PRESETS, Dram, DramAddress, DramCommand, DramCommandKind, DramConfig, DramCounters,
    DramListener, DramMemory, DramOrganisation, DramPreset, DramRequest, DramTiming, DramUseCounters,
    PagePolicy, RowOutcome,
};
pub use fast::direct_mapped::{CommonCounts, DirectMappedFilter};
pub use fast::known_hits::KnownHitFilter;
pub use fast::lane_bits::{BitsAccess, By, CountsOfLane, LaneBits, MOST_LANES, MOST_MARKS, SetsBytes};
pub use fast::lru_stack::{LruStack, LruStackShape, Member};
pub use fast::two_levels::TwoLevels;
pub use fast::{FastPath, FastPathSet, FastPaths};
pub use front::Front;
pub use invariants::check;
pub use replacement::Replacement;
pub use request::{Access, Answer, Below, DirtyData, Invalidation, MEMORY, Origin, PART, Request};
pub use tlb::{
    DATA_PORT, FETCH_PORT, GLOBAL_SPACE, LastUses, Mmu, MmuConfig, MmuCounts, TlbConfig, TlbCounts,
    TlbOutcome, TlbPage, WalkCacheConfig,
};
pub use tree::Tree;
pub use witness::{Level, MissedLine, RemovalCause, RemovedLine, Witness};
