//! `Ddc` is the Decoupled DMA Cache (TB10 §3.1): the DMA cache stands beside the last-level cache.

use binhop_base::Result;

use super::{
    LineMemory, SchemeConfig,
    scheme::no_io_ways,
    separated::{IoPlace, IoShape, Parts, Separated},
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ddc;

impl IoPlace for Ddc {
    fn set_io_ways(&mut self, _parts: &mut Parts, mask: u64, _memory: &mut dyn LineMemory) -> Result<u64> {
        Err(no_io_ways(mask))
    }
}

pub(super) fn make(config: &SchemeConfig) -> Result<Separated<Ddc>> {
    let shape = IoShape {
        sets: config.dma_cache_sets()?,
        ways: config.dma_cache.ways as usize,
        cpu_cycles: config.dma_cache.cycles,
        io_cycles: config.dma_cache.cycles,
    };
    let parts = Parts::new(config, config.last_level.ways as usize, &shape)?;
    Ok(Separated { parts, place: Ddc })
}
