//! `SnoopingCache` is the baseline (TB10 §2): device data go to memory. A device's write invalidates the line in the
//! last-level cache; before a partial write, a dirty line is written back. A device's read makes the cache write a
//! dirty line back; the line stays, and the device reads memory.

use super::{LineEvent, LineMemory, MOESI, ServedBy, TapAnswer, TapClass, hub::Hub, scheme::DevicePart};

#[derive(Clone, Copy, Debug)]
pub(super) struct SnoopingCache;

impl DevicePart for SnoopingCache {
    #[inline]
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        let class = TapClass::DmaRead;
        let mut cycles = 0;
        if let Some(slot) = hub.last.find(line) {
            let action = hub.last.apply(slot, &MOESI, LineEvent::Clean);
            cycles += hub.act(action, line, class, memory);
        }
        cycles += hub.read_memory(line, class, memory);
        hub.answer(class, ServedBy::Memory, cycles, false)
    }

    #[inline]
    fn device_write(
        &mut self,
        hub: &mut Hub,
        line: u64,
        whole: bool,
        memory: &mut dyn LineMemory,
    ) -> TapAnswer {
        let cycles = write_memory(hub, line, whole, memory);
        hub.answer(TapClass::DmaWrite, ServedBy::Memory, cycles, false)
    }
}

/// A device writes memory, and the last-level cache loses the line. Returns the cycles.
#[inline]
pub(super) fn write_memory(hub: &mut Hub, line: u64, whole: bool, memory: &mut dyn LineMemory) -> u64 {
    let class = TapClass::DmaWrite;
    let mut cycles = 0;
    if let Some(slot) = hub.last.find(line) {
        if !whole {
            let action = hub.last.apply(slot, &MOESI, LineEvent::Clean);
            cycles += hub.act(action, line, class, memory);
        }
        hub.last.apply(slot, &MOESI, LineEvent::ProbeWrite);
    }
    cycles + hub.write_memory(line, class, memory)
}
