//! `WorstCase` bounds the cycles that rows may take on a machine, whatever they hit or miss.
//!
//! # Rules
//! - An instruction takes one cycle. An access of a line waits at most as long as all levels and memory together take,
//!   whether costs are totals or add up.
//! - A write into a full write buffer waits until the oldest write has drained, and this takes at most the drain of one
//!   entry. A level that is asked n times by the levels before it, for one access, asks the next level at most 3 n
//!   times: it evicts a line, reads a line and passes data down. So level k of a chain makes at most 3^(k+1) writes.
//! - A load or store touches the lines between its first and its last byte; a modify touches them twice.
//! - A placement, and a page whose frame changes hands, take no cycles.
//! - What a unit injects is not bounded. Where a unit acts at misses or page changes, no row is surely within any
//!   number of cycles. Where a unit acts at placements, such as the kernel's page-fault handler, only rows that place
//!   no page are surely within a number of cycles.

use binhop_hw::{Next, Tree};
use binhop_trace::{EventBatch, Op};

use crate::machine::Machine;
use crate::occasion::{OccasionKind, Subscription};

/// `WorstCase` bounds the cycles that rows may take on a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorstCase {
    /// The logarithms of the lines of fetches and of data.
    line_log2: [u32; 2],
    /// The most cycles that an access of one line waits; `None`: nothing bounds them.
    access: Option<u64>,
    /// True if the bound does not hold for rows that place a page.
    excludes_placements: bool,
}

impl WorstCase {
    pub(crate) fn of(machine: &Machine, subscription: Option<&Subscription>) -> Self {
        let tree = machine.tree();
        let config = tree.config();
        let line = |cache: usize| config.caches[cache].line.log2();
        let acts = |at: [OccasionKind; 2]| {
            subscription.is_some_and(|subscription| subscription.kinds().any(|kind| at.contains(&kind)))
        };
        Self {
            line_log2: [line(config.fetch), line(config.data)],
            access: (!acts([OccasionKind::Miss, OccasionKind::PageChange])).then(|| of_an_access(tree)),
            excludes_placements: acts([OccasionKind::FirstTouch, OccasionKind::Return]),
        }
    }

    /// Returns the most cycles that an access of one line waits; `None` if nothing bounds them.
    pub(crate) fn of_an_access(&self) -> Option<u64> {
        self.access
    }

    /// Returns whether the bound does not hold for rows that place a page.
    pub(crate) fn excludes_placements(&self) -> bool {
        self.excludes_placements
    }

    /// Returns how many of the first rows take at most `left` cycles together.
    pub(crate) fn rows_within(&self, rows: &EventBatch, left: u64) -> usize {
        let Some(access) = self.access else { return 0 };
        let (op, addr, size, count) = (rows.op(), rows.addr(), rows.size(), rows.count());
        let mut most: u64 = 0;
        (0..rows.len())
            .find(|&row| {
                let lines = |log2: u32| {
                    let last = addr[row].saturating_add(u64::from(size[row].max(1)) - 1);
                    (last >> log2) - (addr[row] >> log2) + 1
                };
                let cycles = match op[row] {
                    fetch if fetch == Op::Fetch as u8 => {
                        (lines(self.line_log2[0]).saturating_mul(access)).saturating_add(count[row].into())
                    }
                    modify if modify == Op::Modify as u8 => {
                        lines(self.line_log2[1]).saturating_mul(2).saturating_mul(access)
                    }
                    data if data < Op::Modify as u8 => lines(self.line_log2[1]).saturating_mul(access),
                    _ => 0,
                };
                most = most.saturating_add(cycles);
                most > left
            })
            .unwrap_or(rows.len())
    }
}

/// Returns the most cycles that an access of one line waits.
fn of_an_access(tree: &Tree) -> u64 {
    let config = tree.config();
    let levels: u64 = config.caches.iter().map(|cache| cache.cost).sum();
    let stalls = |first: usize| {
        let (mut cache, mut writes, mut most) = (first, 1u64, 0u64);
        loop {
            let of_cache = &config.caches[cache];
            writes = writes.saturating_mul(3);
            let drain = of_cache.write_buffer.map_or(0, |buffer| buffer.drain_cycles);
            most = most.saturating_add(writes.saturating_mul(drain));
            match of_cache.next {
                Next::Cache(next) => cache = next,
                Next::Memory => return most,
            }
        }
    };
    let stalls = stalls(config.fetch).max(stalls(config.data));
    levels.saturating_add(config.memory_cost).saturating_add(stalls)
}
