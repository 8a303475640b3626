//! `Pbdc` is the Partition-Based DMA Cache (TB10 §3.2): some ways of the last-level cache are the DMA cache.
//!
//! A read of the processor goes to the processor's ways, and on a miss to the I/O ways (Figure 12). A hit in the
//! I/O ways takes two accesses. A device's reference goes to the I/O ways, and probes the processor's ways at the
//! same time. A new mask flushes the ways that change sides.

use binhop_base::Result;

use super::{
    LineMemory, SchemeConfig,
    config::check_io_ways,
    separated::{IoPlace, IoShape, Parts, Separated},
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Pbdc {
    mask: u64,
    ways: u32,
}

pub(super) fn make(config: &SchemeConfig) -> Result<Separated<Pbdc>> {
    let (mask, ways, cycles) = (config.io_ways, config.last_level.ways, config.last_level.cycles);
    check_io_ways(mask, ways)?;
    let io_ways = mask.count_ones();
    let shape = IoShape {
        sets: config.last_level_sets()?,
        ways: io_ways as usize,
        cpu_cycles: 2 * cycles,
        io_cycles: cycles,
    };
    let parts = Parts::new(config, (ways - io_ways) as usize, &shape)?;
    Ok(Separated { parts, place: Pbdc { mask, ways } })
}

impl IoPlace for Pbdc {
    fn set_io_ways(&mut self, parts: &mut Parts, mask: u64, memory: &mut dyn LineMemory) -> Result<u64> {
        check_io_ways(mask, self.ways)?;
        let changed = self.mask ^ mask;
        let mut written = 0;
        for (from_io, before, after) in [(false, !self.mask, !mask), (true, self.mask, mask)] {
            let array = if from_io { &parts.io } else { &parts.hub.last };
            let columns = array.ways();
            let leaving: Vec<_> = array
                .lines()
                .map(|(set, column, _)| (set * columns + column, column))
                .filter(|&(_, column)| changed >> nth(before, column) & 1 == 1)
                .collect();
            for (slot, _) in leaving {
                written += u64::from(parts.flush(from_io, slot, memory));
            }
            let kept: Vec<_> = (0..self.ways)
                .filter(|way| after >> way & 1 == 1)
                .map(|way| (before >> way & 1 == 1).then(|| rank(before, way)))
                .collect();
            let array = if from_io { &mut parts.io } else { &mut parts.hub.last };
            array.regroup(&kept);
        }
        self.mask = mask;
        Ok(written)
    }
}

/// Returns the way that is number `column` of a mask.
fn nth(mut mask: u64, column: usize) -> u32 {
    for _ in 0..column {
        mask &= mask - 1;
    }
    mask.trailing_zeros()
}

/// Returns how many ways of a mask lie below a way.
fn rank(mask: u64, way: u32) -> usize {
    (mask & ((1 << way) - 1)).count_ones() as usize
}
