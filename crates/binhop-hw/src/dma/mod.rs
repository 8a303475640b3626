//! This module holds the schemes for device data, which handle what passes below the front. Each scheme has a file, and
//! all schemes have one interface ([`Scheme`]).
//!
//! Counting rules
//! - A reference is one line. A read of the processor, data that the processor passes down, a device's read and a
//!   device's write are references. A clean eviction of the front and an upgrade are no references.
//! - A reference costs one access to the cache in which it is looked up, and the cycles that it waits for memory. A
//!   demand read waits for the latency, a posted write or a prefetch waits for room, and the first use of a
//!   prefetched line waits for the line to arrive. A reference of a device to memory alone costs no access to a
//!   cache. The cycles that a clean eviction waits for room are counted with the processor's writes. The cycles
//!   that a flush waits are counted with the writes of the class for which it writes.
//! - When a frame changes hands, its lines leave every cache, and the front's notes of them end. Dirty lines of the front
//!   and of the caches go to memory. These writes are the operating system's: they count in the class of the processor's
//!   writes, and are no references.
//! - A miss reads its line first; then what is written through is written, and then the victim is written back.
//! - Every change of a line's state is one entry of a table in `coherence.rs`.
//!
//! The interface does not show which of the front's lines are I/O data: `notes.rs` keeps this for every line. So one
//! front serves all schemes, and one pass of a front can be compared under all of them.
//!
//! To add a scheme, write its file, a line in `kind.rs`, and its case in [`make_scheme`]. The tests then ask for its
//! rules in `binhop-oracle/src/dma.rs`.

mod coherence;
mod config;
mod counters;
mod ddc;
mod ddio;
mod flush;
mod hub;
mod invariants;
mod kind;
mod lines;
mod memory;
mod notes;
mod off;
mod pbdc;
mod posted;
mod prefetch_hint;
mod scheme;
mod separated;
mod shared_cache;
mod snooping_cache;
mod table_check;
mod tap;

pub use coherence::{
    ESI, IO_ESI, IO_MOESI, LineAction, LineEvent, LineState, MOESI, PROTOCOLS, Transition, TransitionTable,
    transition,
};
pub use config::{DmaCacheConfig, LastLevelConfig, SchemeConfig, check_cycles};
pub use counters::{DeviceDataCounters, DmaCounters, FateCounters, LineCounters, ReferenceCounters};
pub use invariants::check_scheme;
pub use kind::SchemeKind;
pub use memory::{FixedLatency, LineMemory, LineUse};
pub use posted::PostedMemory;
pub use scheme::{HeldLine, Scheme};
pub use table_check::{check_table, reached_states};
pub use tap::{ServedBy, TapAnswer, TapClass, TapEvent};

use binhop_base::Result;
use hub::Hub;
use scheme::OneCache;

use crate::WritePolicy;

/// Makes the scheme of a machine, with empty caches.
///
/// # Errors
/// The configuration is refused by [`SchemeConfig::check`], or a protocol by [`check_table`].
pub fn make_scheme(config: &SchemeConfig) -> Result<Box<dyn Scheme>> {
    config.check()?;
    PROTOCOLS.iter().try_for_each(|(name, table)| check_table(name, table))?;
    let hub = || Hub::new(config, config.last_level.ways as usize);
    let through = config.write == WritePolicy::Through;
    Ok(match config.kind {
        SchemeKind::Off => Box::new(OneCache { hub: hub()?, device: off::Off }),
        SchemeKind::SnoopingCache => {
            Box::new(OneCache { hub: hub()?, device: snooping_cache::SnoopingCache })
        }
        SchemeKind::SharedCache => {
            Box::new(OneCache { hub: hub()?, device: shared_cache::SharedCache { through } })
        }
        SchemeKind::PrefetchHint => Box::new(OneCache { hub: hub()?, device: prefetch_hint::PrefetchHint }),
        SchemeKind::Ddc => Box::new(ddc::make(config)?),
        SchemeKind::Pbdc => Box::new(pbdc::make(config)?),
        SchemeKind::Ddio => {
            Box::new(OneCache { hub: hub()?, device: ddio::Ddio { ways: config.ddio_ways as usize } })
        }
        SchemeKind::Flush => Box::new(flush::Flush::new()),
    })
}
