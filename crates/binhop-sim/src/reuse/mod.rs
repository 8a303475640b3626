//! `reuse` measures the reuse distances of a trace, and the miss-ratio curve that they imply.
//!
//! Counting rules
//! - The *reuse distance* of an access is the number of distinct other units touched since the last access to its unit
//!   (also LRU stack distance; TB10 §2). A unit is a line or a page. The first access to a unit has no distance.
//! - All accesses of the options' kinds form one stream, in program order, whatever process makes them. Each access of
//!   this stream counts for one process and for one segment; no process has a stream of its own. So the counts of
//!   processes, and the counts of segments, add up to all accesses.
//! - A reference accesses each unit that it touches, in ascending order. A fetch run of n instructions over k units
//!   makes max(n, k) accesses, as in a cache: the accesses beyond k are repeated accesses, with distance 0. A modify is
//!   a load and a store.
//! - A page that several address spaces share is one page, and its units are one. A copy on write is a new page. Memory
//!   that is mapped anew is new.
//! - A fully associative LRU cache of c units misses an access if the distance of the access is c or more, or if the
//!   access has no distance. The cache neither evicts pages nor loses lines at switches.

mod histogram;
mod pass;
mod stack;

use std::collections::BTreeMap;

use binhop_base::{Asid, Bytes, PowerOfTwo, Problem, Result};
use binhop_trace::transform::head;
use binhop_trace::{Ahead, Source};

pub use histogram::{Histogram, ReuseCurve};
pub use stack::ReuseStack;

use crate::Progress;
use pass::ReusePass;

/// `ReuseKinds` are the references that a pass measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReuseKinds {
    /// All references.
    #[default]
    All,
    /// Instruction fetches.
    Fetch,
    /// Loads and stores.
    Data,
}

/// `ReuseOptions` states what a pass measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReuseOptions {
    /// The size of a unit: a line or a page.
    pub unit: Bytes,
    /// The references that are measured.
    pub kinds: ReuseKinds,
    /// The number of references to read; `None` reads the whole trace.
    pub length: Option<u64>,
    /// True if the trace is decoded (or generated) on a thread of its own. The thread changes no result.
    pub ahead: bool,
}

/// `Reuse` is the result of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// The references read: instructions fetched plus data references, of all kinds.
    pub references: u64,
    /// The instructions fetched.
    pub instructions: u64,
    /// The accesses measured at each distance, and the first accesses.
    pub curve: ReuseCurve,
    /// The accesses of each address space.
    pub processes: BTreeMap<Asid, Histogram>,
    /// The accesses to each segment, by the segment's name.
    pub segments: BTreeMap<String, Histogram>,
    /// The number of pages first touched outside every map, if the trace has maps at all.
    pub outside: u64,
    /// The number of pages that lie only partly in a segment of the trace. They are simulated as private.
    pub unaligned: u64,
}

/// The bytes of the smallest unit.
const LEAST_UNIT: u64 = 4;

/// Reads a trace once, and measures the reuse distance of every access.
///
/// The pass calls `progress` often, on the calling thread. An error that `progress` returns ends the pass.
///
/// # Errors
/// The unit is no power of two of at least 4 bytes, the trace is damaged, or it holds an event that is not simulated.
pub fn reuse(
    source: Box<dyn Source>,
    options: &ReuseOptions,
    progress: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Reuse> {
    let unit = PowerOfTwo::check(options.unit, "a line or page", "unit")?;
    let refuse = |value: String, place: &str, rule: &str, remedy: &str| {
        Err(Problem::request(&value, place, rule, remedy))
    };
    if unit.bytes() < LEAST_UNIT {
        let rule = format!("a line or page has at least {LEAST_UNIT} bytes");
        return refuse(options.unit.to_string(), "unit", &rule, "ask for, say, 64B");
    }
    if options.length == Some(0) {
        let rule = "a pass reads at least one reference";
        return refuse("0".to_owned(), "length", rule, "ask for, say, 50M");
    }
    let source = head(source, options.length);
    let mut source = if options.ahead { Box::new(Ahead::new(source)) as Box<dyn Source> } else { source };
    let mut pass = ReusePass::new(unit, options.kinds, source.as_ref());
    while let Some(batch) = source.next_batch()? {
        pass.feed(&batch)?;
        progress(&Progress { references: pass.references(), of: options.length })?;
    }
    Ok(pass.finish())
}
