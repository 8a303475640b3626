//! `Ddio` is Intel's Data Direct I/O: a device's write updates the line in place if the last-level cache holds it in
//! any way, and otherwise allocates in the lowest few ways. A device's read is served by the cache if it holds the
//! line, and never allocates. Written data stay dirty (IO-MOESI).

use super::{
    IO_MOESI, LineEvent, LineMemory, ServedBy, TapAnswer, TapClass, hub::Hub, scheme::DevicePart,
    shared_cache::write_last,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct Ddio {
    /// The ways that writes of devices may bring lines into.
    pub(super) ways: usize,
}

impl DevicePart for Ddio {
    #[inline]
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        let class = TapClass::DmaRead;
        if let Some(slot) = hub.last.find(line) {
            let (_, waited) = hub.use_last(slot, &IO_MOESI, LineEvent::LocalReadAlone, memory);
            return hub.answer(class, ServedBy::LastLevel, hub.cycles + waited, true);
        }
        let cycles = hub.cycles + hub.read_memory(line, class, memory);
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
        write_last(hub, line, whole, (&IO_MOESI, self.ways), memory)
    }
}
