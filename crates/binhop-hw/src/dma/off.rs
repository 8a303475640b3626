//! `Off` lets a device's reference invalidate the line in the last-level cache, and does nothing else for the device:
//! it reads and writes memory. The cache writes a dirty line back first, unless the device overwrites it whole.

use super::{LineMemory, ServedBy, TapAnswer, TapClass, hub::Hub, scheme::DevicePart, snooping_cache};

#[derive(Clone, Copy, Debug)]
pub(super) struct Off;

impl DevicePart for Off {
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        let class = TapClass::DmaRead;
        let mut cycles = 0;
        if let Some(slot) = hub.last.find(line) {
            let action = hub.last.flush(slot);
            cycles += hub.act(action, line, class, memory);
        }
        cycles += hub.read_memory(line, class, memory);
        hub.answer(class, ServedBy::Memory, cycles, false)
    }

    fn device_write(
        &mut self,
        hub: &mut Hub,
        line: u64,
        whole: bool,
        memory: &mut dyn LineMemory,
    ) -> TapAnswer {
        let cycles = snooping_cache::write_memory(hub, line, whole, memory);
        hub.answer(TapClass::DmaWrite, ServedBy::Memory, cycles, false)
    }
}
