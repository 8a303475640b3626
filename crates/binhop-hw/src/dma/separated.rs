//! `Separated` is a scheme whose device data have a cache of their own beside the processor's: DDC and PBDC.
//!
//! - The last-level cache holds the processor's data, and the DMA cache holds I/O data. No line is in both.
//! - A read of the processor that the DMA cache serves goes to the front alone, tagged as I/O data. A read for a store
//!   takes the line out of the DMA cache: it is the processor's data from then on.
//! - A clean tagged line that leaves the front as a whole returns to the DMA cache. Data that the processor updated
//!   go to the last-level cache, and the DMA cache loses its copy.
//! - A line that the DMA cache writes back to memory is the processor's data from then on: the front's copy loses its
//!   tag.
//! - A device's write that finds the line in the last-level cache invalidates the line there. A device's read that
//!   finds the line there is supplied by the last-level cache, and does not bring the line into the DMA cache
//!   (ours).
//! - After each read of a device, the prefetcher fetches the lines behind it in the same page that neither the caches
//!   nor the front hold (ours: a line that the front holds may be dirty there).

use binhop_base::{Result, Rng};

use super::{
    DmaCounters, HeldLine, IO_ESI, IO_MOESI, LineAction, LineEvent, LineMemory, MOESI, Scheme, SchemeConfig,
    ServedBy, TapAnswer, TapClass, TransitionTable,
    counters::LineCounters,
    hub::Hub,
    lines::{DEVICE, LineArray, LineEntry, PREFETCHED, VictimRule},
    notes::{HELD, TAGGED, UNREAD},
    scheme::held,
};
use crate::WritePolicy;

/// The number of the DMA cache in the streams of draws.
const DMA_CACHE: u64 = 1;

/// `IoPlace` says where the DMA cache lies.
pub(super) trait IoPlace: Send {
    /// Gives ways of the last-level cache to I/O data.
    fn set_io_ways(&mut self, parts: &mut Parts, mask: u64, memory: &mut dyn LineMemory) -> Result<u64>;
}

/// `Parts` holds both caches with what they share.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) hub: Hub,
    pub(super) io: LineArray,
    table: &'static TransitionTable,
    /// Cycles of a read of the processor that the DMA cache serves.
    cpu_cycles: u64,
    /// Cycles of a device's access to the DMA cache.
    io_cycles: u64,
    degree: u64,
    /// The lines of a page − 1.
    page_mask: u64,
}

/// `IoShape` is the shape of a DMA cache, and the cycles of its users.
pub(super) struct IoShape {
    pub(super) sets: u64,
    pub(super) ways: usize,
    pub(super) cpu_cycles: u64,
    pub(super) io_cycles: u64,
}

impl Parts {
    /// Makes empty caches. The processor's data have `cpu_ways` of the last-level cache.
    pub(super) fn new(config: &SchemeConfig, cpu_ways: usize, io: &IoShape) -> Result<Self> {
        let rng = Rng::new(config.seed);
        Ok(Self {
            hub: Hub::new(config, cpu_ways)?,
            io: LineArray::new(io.sets, io.ways, VictimRule::CleanLru, rng, DMA_CACHE),
            table: if config.write == WritePolicy::Through { &IO_ESI } else { &IO_MOESI },
            cpu_cycles: io.cpu_cycles,
            io_cycles: io.io_cycles,
            degree: u64::from(config.prefetch_degree),
            page_mask: (config.page.bytes() >> config.line.log2()) - 1,
        })
    }

    /// Completes the departure of a line of the DMA cache. Returns the cycles.
    #[inline]
    fn io_replaced(
        &mut self,
        victim: Option<(LineEntry, LineAction)>,
        class: TapClass,
        memory: &mut dyn LineMemory,
    ) -> u64 {
        if let Some((entry, LineAction::WriteBack)) = victim {
            *self.hub.notes.at(entry.line()) &= !TAGGED;
        }
        self.hub.replaced(victim, true, class, memory)
    }

    /// Brings a line into the DMA cache. Returns the cycles.
    #[inline]
    fn fill_io(
        &mut self,
        line: u64,
        flags: u64,
        event: LineEvent,
        class: TapClass,
        memory: &mut dyn LineMemory,
    ) -> u64 {
        let (action, victim) = self.io.insert(line, DEVICE | flags, self.table, event, self.io.ways());
        let waited = self.hub.act(action, line, class, memory);
        waited + self.io_replaced(victim, class, memory)
    }

    /// Uses a line of the DMA cache. Returns the action that the table names for the line, and the cycles that the
    /// reference waits for a prefetched line.
    #[inline]
    fn use_io(&mut self, slot: usize, event: LineEvent, memory: &mut dyn LineMemory) -> (LineAction, u64) {
        self.io.touch(slot);
        let waited = if self.io.take_prefetched(slot) {
            self.hub.counters.device_data.prefetches_used += u64::from(event != LineEvent::LocalWrite);
            memory.await_prefetch(self.io.entry(slot).line())
        } else {
            0
        };
        (self.io.apply(slot, self.table, event), waited)
    }

    /// Takes a line from the DMA cache for the processor's side, or because the line is overwritten. Returns
    /// whether the line was there.
    #[inline]
    fn take_from_io(&mut self, line: u64) -> bool {
        let slot = self.io.find(line);
        if let Some(slot) = slot {
            self.io.apply(slot, self.table, LineEvent::ProbeWrite);
        }
        slot.is_some()
    }

    /// Prefetches the lines behind a line that a device reads. Returns the cycles that the reference waits for room.
    fn prefetch_behind(&mut self, line: u64, memory: &mut dyn LineMemory) -> u64 {
        let mut waited = 0;
        let last = (line | self.page_mask).min(line + self.degree);
        for next in line + 1..=last {
            if self.io.find(next).is_none()
                && *self.hub.notes.at(next) & HELD == 0
                && self.hub.last.find(next).is_none()
            {
                waited += self.hub.prefetch(next, TapClass::DmaRead, memory);
                waited +=
                    self.fill_io(next, PREFETCHED, LineEvent::LocalReadAlone, TapClass::DmaRead, memory);
            }
        }
        waited
    }

    /// Writes a line of the processor's data or of I/O data to memory if it is dirty, and takes it out.
    pub(super) fn flush(&mut self, from_io: bool, slot: usize, memory: &mut dyn LineMemory) -> bool {
        let array = if from_io { &mut self.io } else { &mut self.hub.last };
        let entry = array.entry(slot);
        let action = array.flush(slot);
        let written = action == LineAction::WriteBack;
        if from_io {
            self.hub.note_departure(entry.line());
            if written {
                *self.hub.notes.at(entry.line()) &= !TAGGED;
            }
        }
        let class = if from_io { TapClass::DmaWrite } else { TapClass::CpuWrite };
        let waited = self.hub.act(action, entry.line(), class, memory);
        self.hub.pass_wait(waited, class, memory);
        written
    }
}

/// `Separated` is a scheme with a DMA cache.
pub(super) struct Separated<P> {
    pub(super) parts: Parts,
    pub(super) place: P,
}

impl<P: IoPlace> Scheme for Separated<P> {
    #[inline]
    fn cpu_read(&mut self, line: u64, store: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        let parts = &mut self.parts;
        let class = TapClass::CpuRead;
        let event = LineEvent::LocalReadAlone;
        let (served, cycles) = if let Some(slot) = parts.hub.last.find(line) {
            let (_, waited) = parts.hub.use_last(slot, &MOESI, event, memory);
            (ServedBy::LastLevel, parts.hub.cycles + waited)
        } else if let Some(slot) = parts.io.find(line) {
            let event = if store { LineEvent::ProbeWrite } else { LineEvent::ProbeRead };
            let (_, waited) = parts.use_io(slot, event, memory);
            (ServedBy::DmaCache, parts.cpu_cycles + waited)
        } else {
            let waited = parts.hub.read_memory(line, class, memory);
            (ServedBy::Memory, parts.hub.cycles + waited + parts.hub.fill_for_cpu(line, event, memory))
        };
        parts.hub.note_read(line, store, served, served == ServedBy::DmaCache);
        parts.hub.answer(class, served, cycles, served != ServedBy::Memory)
    }

    #[inline]
    fn cpu_write_back(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.parts.take_from_io(line);
        self.parts.hub.cpu_write(line, true, memory)
    }

    fn cpu_cleaned(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.parts.take_from_io(line);
        self.parts.hub.cpu_write(line, false, memory)
    }

    fn cpu_partial_store(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        if self.parts.take_from_io(line) {
            // The DMA cache supplies the rest of the line.
            self.parts.hub.cpu_write(line, false, memory)
        } else {
            self.parts.hub.cpu_partial_store(line, memory)
        }
    }

    #[inline]
    fn clean_eviction(&mut self, line: u64, whole: bool, memory: &mut dyn LineMemory) {
        let parts = &mut self.parts;
        if !parts.hub.note_clean_eviction(line) {
            return;
        }
        if let Some(slot) = parts.io.find(line) {
            parts.io.apply(slot, parts.table, LineEvent::Return);
        } else if whole {
            let class = TapClass::CpuWrite;
            let waited = parts.fill_io(line, 0, LineEvent::Return, class, memory);
            parts.hub.pass_wait(waited, class, memory);
        }
    }

    fn upgrade(&mut self, line: u64) {
        self.parts.hub.note_update(line, false);
        self.parts.take_from_io(line);
    }

    #[inline]
    fn device_read(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        let parts = &mut self.parts;
        let class = TapClass::DmaRead;
        let (served, cycles) = if let Some(slot) = parts.hub.last.find(line) {
            let (_, waited) = parts.hub.use_last(slot, &MOESI, LineEvent::ProbeRead, memory);
            (ServedBy::LastLevel, parts.hub.cycles + waited)
        } else {
            let shared = *parts.hub.notes.at(line) & HELD != 0;
            let event = if shared { LineEvent::LocalReadShared } else { LineEvent::LocalReadAlone };
            if let Some(slot) = parts.io.find(line) {
                let (_, waited) = parts.use_io(slot, event, memory);
                (ServedBy::DmaCache, parts.io_cycles + waited)
            } else {
                let waited = parts.hub.read_memory(line, class, memory);
                (ServedBy::Memory, parts.io_cycles + waited + parts.fill_io(line, 0, event, class, memory))
            }
        };
        let waited = parts.prefetch_behind(line, memory);
        parts.hub.answer(class, served, cycles + waited, served != ServedBy::Memory)
    }

    #[inline]
    fn device_write(&mut self, line: u64, whole: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        let parts = &mut self.parts;
        let class = TapClass::DmaWrite;
        parts.hub.note_device_write(line);
        let mut cycles = parts.io_cycles;
        let in_last = parts.hub.last.find(line);
        if let Some(slot) = in_last {
            parts.hub.last.apply(slot, &MOESI, LineEvent::ProbeWrite);
        }
        let in_io = parts.io.find(line);
        if let Some(slot) = in_io {
            let (action, waited) = parts.use_io(slot, LineEvent::LocalWrite, memory);
            cycles += waited + parts.hub.act(action, line, class, memory);
        } else {
            if !whole && in_last.is_none() {
                cycles += parts.hub.read_memory(line, class, memory);
            }
            cycles += parts.fill_io(line, 0, LineEvent::LocalWrite, class, memory);
        }
        parts.hub.answer(class, ServedBy::DmaCache, cycles, in_io.is_some())
    }

    fn flushed(&mut self, line: u64, memory: &mut dyn LineMemory) {
        let parts = &mut self.parts;
        parts.hub.purge_last(line, memory);
        if let Some(slot) = parts.io.find(line) {
            let action = parts.io.purge(slot);
            parts.hub.purged(line, true, action, memory);
        }
        parts.hub.note_frame_change(line);
    }

    fn system_write(&mut self, line: u64, memory: &mut dyn LineMemory) {
        self.parts.hub.write_for_system(line, memory);
    }

    fn set_io_ways(&mut self, mask: u64, memory: &mut dyn LineMemory) -> Result<u64> {
        self.place.set_io_ways(&mut self.parts, mask, memory)
    }

    fn counters(&self) -> &DmaCounters {
        &self.parts.hub.counters
    }

    fn line_counters(&self, cache: ServedBy) -> Option<&LineCounters> {
        match cache {
            ServedBy::Memory => None,
            ServedBy::LastLevel => Some(&self.parts.hub.last.counters),
            ServedBy::DmaCache => Some(&self.parts.io.counters),
        }
    }

    fn contents(&self) -> Vec<HeldLine> {
        let last = held(ServedBy::LastLevel, &self.parts.hub.last);
        last.chain(held(ServedBy::DmaCache, &self.parts.io)).collect()
    }

    fn unread_lines(&self) -> u64 {
        self.parts.hub.notes.count(UNREAD)
    }
}
