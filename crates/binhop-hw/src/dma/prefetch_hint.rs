//! `PrefetchHint` writes device data to memory as the baseline does, and then prefetches the line into the last-level
//! cache, before the processor asks for it (TB10 §5.4, its reference 18). A device's read works as in the baseline.

use super::{
    IO_MOESI, LineEvent, LineMemory, ServedBy, TapAnswer, TapClass,
    hub::Hub,
    lines::{DEVICE, PREFETCHED},
    scheme::DevicePart,
    snooping_cache::{self, SnoopingCache},
};

#[derive(Clone, Copy, Debug)]
pub(super) struct PrefetchHint;

impl DevicePart for PrefetchHint {
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        SnoopingCache.device_read(hub, line, memory)
    }

    #[inline]
    fn device_write(
        &mut self,
        hub: &mut Hub,
        line: u64,
        whole: bool,
        memory: &mut dyn LineMemory,
    ) -> TapAnswer {
        let class = TapClass::DmaWrite;
        let mut cycles = snooping_cache::write_memory(hub, line, whole, memory);
        cycles += hub.prefetch(line, class, memory);
        let how = (&IO_MOESI, LineEvent::LocalReadAlone, hub.last.ways());
        cycles += hub.fill_last(line, DEVICE | PREFETCHED, how, class, memory);
        hub.answer(class, ServedBy::Memory, cycles, false)
    }
}
