//! `SharedCache` serves devices by the last-level cache (TB10 §5.4): their reads and writes bring lines in like the
//! processor's. A partial write that misses reads the line first. Written lines stay dirty (IO-MOESI), or go to memory
//! as whole lines at once (IO-ESI). The processor's data are written back in both cases.

use super::{
    IO_ESI, IO_MOESI, LineAction, LineEvent, LineMemory, ServedBy, TapAnswer, TapClass, TransitionTable,
    hub::Hub,
    lines::{DEVICE, LineArray},
    scheme::DevicePart,
    transition,
};

#[derive(Clone, Copy, Debug)]
pub(super) struct SharedCache {
    /// True if written device data go to memory at once.
    pub(super) through: bool,
}

impl DevicePart for SharedCache {
    #[inline]
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        let class = TapClass::DmaRead;
        let event = LineEvent::LocalReadAlone;
        if let Some(slot) = hub.last.find(line) {
            let (_, waited) = hub.use_last(slot, &IO_MOESI, event, memory);
            return hub.answer(class, ServedBy::LastLevel, hub.cycles + waited, true);
        }
        let mut cycles = hub.cycles + hub.read_memory(line, class, memory);
        cycles += hub.fill_last(line, DEVICE, (&IO_MOESI, event, hub.last.ways()), class, memory);
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
        let table = if self.through { &IO_ESI } else { &IO_MOESI };
        write_last(hub, line, whole, (table, hub.last.ways()), memory)
    }
}

/// A device writes into the last-level cache: in place, or else into one of the lowest `among` ways.
#[inline]
pub(super) fn write_last(
    hub: &mut Hub,
    line: u64,
    whole: bool,
    (table, among): (&TransitionTable, usize),
    memory: &mut dyn LineMemory,
) -> TapAnswer {
    let class = TapClass::DmaWrite;
    let found = hub.last.find(line);
    let mut cycles = hub.cycles;
    if let Some(slot) = found.and_then(|slot| keep(&mut hub.last, slot, table)) {
        let (action, waited) = hub.use_last(slot, table, LineEvent::LocalWrite, memory);
        hub.last.set(slot, DEVICE, true);
        cycles += waited + hub.act(action, line, class, memory);
    } else {
        if !whole && found.is_none() {
            cycles += hub.read_memory(line, class, memory);
        }
        cycles += hub.fill_last(line, DEVICE, (table, LineEvent::LocalWrite, among), class, memory);
    }
    hub.answer(class, ServedBy::LastLevel, cycles, found.is_some())
}

/// Returns the slot of a line that a device writes, if the line stays in its slot. IO-ESI has no dirty lines: a
/// dirty line of the processor leaves its protocol by a probe, and enters IO-ESI as a new line.
#[inline]
fn keep(last: &mut LineArray, slot: usize, table: &TransitionTable) -> Option<usize> {
    let state = last.entry(slot).state();
    if transition(table, state, LineEvent::LocalWrite).action == LineAction::Never {
        last.apply(slot, &IO_MOESI, LineEvent::ProbeWrite);
        return None;
    }
    Some(slot)
}
