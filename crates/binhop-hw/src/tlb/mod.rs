//! `tlb` has TLBs in one or two levels, and the walk caches behind them. [`Mmu`] answers whether a page is found, and
//! where.
//!
//! Counting rules
//! - A reference makes one lookup for each virtual page that it touches, at its port: the fetch port or the data port.
//!   The caller names the page at its own size; a port asks the one first-level TLB that holds pages of this size.
//! - A miss at the first level is one lookup at the second level, if there is one that holds pages of this size. A hit
//!   there fills the first level.
//! - A walk follows a miss at every level. [`Mmu::fill`] then fills the first and the second level. The repeated
//!   reference is no further lookup.
//! - The levels are independent: an entry that leaves one level stays in the other.
//!
//! Rules of the slots
//! - A page goes to set `number % sets`, where `number` is the page's number at its own size. Sets may be any number.
//! - An entry takes the lowest empty slot of its set; only a full set has a victim.
//! - A fill of a page that is present is a use of its entry, and is not counted.
//! - The wired slots stand before the other slots, and only wired fills use them. A wired fill takes the lowest empty
//!   wired slot, or the slot of a victim among the wired entries. Wired slots have the same rule of replacement as the
//!   other slots. Random draws count the victims of the wired slots apart.
//! - Entries of [`GLOBAL_SPACE`] belong to every space. They survive flushes, but not their invalidation.
//! - Random victims depend on no seed: the contents of a TLB are the same in every lane until pages are evicted.
//!
//! Why references may be dropped
//! - The last page that a port found or filled stays where it is until a fill or an invalidation removes its entry.
//!   Another reference to this page hits the first level. It is the most recent use already, so it changes nothing:
//!   it need not be looked up, only counted ([`Mmu::is_last`], [`Mmu::note_last_use`]).
//! - If something else uses the same TLB, and its replacement notes hits, the order of the uses counts. The other
//!   user may be the other port, or the misses of a first-level TLB whose second level this TLB is. Then the
//!   pending uses of both ports are noted, in the order in which they were last used, before anything else happens.
//!   One use each is enough: further uses in between leave LRU's order and PLRU's bits the same.
//!
//! Why references to any page that is present may be dropped
//! - Where a hit changes at most the time of its entry (LRU, FIFO, random), a reference to an entry that is known to be
//!   present need not be looked up. The caller notes its time, and tells the TLBs the time when a victim is chosen
//!   ([`LastUses`]). The TLBs follow the caller's clock ([`Mmu::advance`]), so such uses and look-ups have one order.
//!   [`Mmu::take_left`] says which entries are present no longer.

mod array;
mod config;
mod mmu;
mod oldest;
mod page;
mod use_times;
mod walk_caches;

pub use config::{MmuConfig, TlbConfig, WalkCacheConfig};
pub use mmu::{DATA_PORT, FETCH_PORT, Mmu, MmuCounts, TlbCounts, TlbOutcome};
pub use page::{GLOBAL_SPACE, TlbPage};
pub use use_times::LastUses;
