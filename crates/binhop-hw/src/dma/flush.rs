//! `Flush` is the scheme of caches with virtual tags (JM97 §4.3), which a device's physical address does not find.
//! The operating system flushes the pages of a transfer from every cache before the transfer begins, and withholds
//! them from the processor until it ends. So device data are in memory alone while a device works.
//!
//! - The front is all caches of the machine, with the last level. The front flushes the page: every dirty line of the
//!   page is written back, and every clean line leaves. This includes lines that the device does not touch, and lines
//!   that it overwrites as a whole.
//! - Memory serves what passes below the front. No reference costs an access to a cache.
//! - A transfer takes no time in a trace: a row of the trace flushes a page, moves its data and gives the page back. So
//!   no reference to a withheld page has to wait.
//! - A store that a write-through front passes down is written to memory, which takes parts of lines.

use binhop_base::{Result, Rng};

use super::{
    DmaCounters, HeldLine, LineMemory, Scheme, ServedBy, TapAnswer, TapClass,
    counters::LineCounters,
    hub::{Hub, LAST_LEVEL},
    lines::{LineArray, VictimRule},
    notes::{LineNotes, UNREAD},
    scheme::no_io_ways,
};

pub(super) struct Flush {
    /// The notes and the counters. Nothing enters the hub's cache.
    hub: Hub,
}

impl Flush {
    pub(super) fn new() -> Self {
        let last = LineArray::new(1, 1, VictimRule::Lru, Rng::new(0), LAST_LEVEL);
        let (notes, counters) = (LineNotes::default(), DmaCounters::default());
        Self { hub: Hub { last, notes, counters, cycles: 0 } }
    }

    fn read(&mut self, line: u64, class: TapClass, memory: &mut dyn LineMemory) -> TapAnswer {
        let cycles = self.hub.read_memory(line, class, memory);
        self.hub.answer(class, ServedBy::Memory, cycles, false)
    }

    fn write(&mut self, line: u64, class: TapClass, memory: &mut dyn LineMemory) -> TapAnswer {
        let cycles = self.hub.write_memory(line, class, memory);
        self.hub.answer(class, ServedBy::Memory, cycles, false)
    }
}

impl Scheme for Flush {
    fn cpu_read(&mut self, line: u64, store: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_read(line, store, ServedBy::Memory, false);
        self.read(line, TapClass::CpuRead, memory)
    }

    fn cpu_write_back(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_update(line, true);
        self.write(line, TapClass::CpuWrite, memory)
    }

    fn cpu_cleaned(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_update(line, false);
        self.write(line, TapClass::CpuWrite, memory)
    }

    fn cpu_partial_store(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_update(line, false);
        self.write(line, TapClass::CpuWrite, memory)
    }

    fn clean_eviction(&mut self, line: u64, _whole: bool, _memory: &mut dyn LineMemory) {
        self.hub.note_clean_eviction(line);
    }

    fn upgrade(&mut self, line: u64) {
        self.hub.note_update(line, false);
    }

    fn device_read(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.read(line, TapClass::DmaRead, memory)
    }

    fn device_write(&mut self, line: u64, _whole: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_device_write(line);
        self.write(line, TapClass::DmaWrite, memory)
    }

    fn flushed(&mut self, line: u64, _memory: &mut dyn LineMemory) {
        self.hub.note_frame_change(line);
    }

    fn system_write(&mut self, line: u64, memory: &mut dyn LineMemory) {
        self.hub.write_for_system(line, memory);
    }

    fn set_io_ways(&mut self, mask: u64, _memory: &mut dyn LineMemory) -> Result<u64> {
        Err(no_io_ways(mask))
    }

    fn counters(&self) -> &DmaCounters {
        &self.hub.counters
    }

    fn line_counters(&self, _cache: ServedBy) -> Option<&LineCounters> {
        None
    }

    fn contents(&self) -> Vec<HeldLine> {
        Vec::new()
    }

    fn unread_lines(&self) -> u64 {
        self.hub.notes.count(UNREAD)
    }
}
