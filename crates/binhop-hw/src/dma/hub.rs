//! `Hub` holds what every scheme has: the last-level cache, the notes of lines, and the counters. It serves the
//! processor where device data have no cache of their own.

use binhop_base::{Result, Rng};

use super::{
    DmaCounters, LineAction, LineEvent, LineMemory, LineUse, MOESI, SchemeConfig, ServedBy, TapAnswer,
    TapClass, TransitionTable,
    lines::{DEVICE, LineArray, LineEntry, VictimRule},
    notes::{EVICTED, HELD, IO_DATA, LineNotes, TAGGED, UNREAD},
};
use crate::Replacement;

/// The number of the last-level cache in the streams of draws.
pub(super) const LAST_LEVEL: u64 = 0;

#[derive(Clone, Debug)]
pub(super) struct Hub {
    pub(super) last: LineArray,
    pub(super) notes: LineNotes,
    pub(super) counters: DmaCounters,
    /// Cycles of an access to the last-level cache.
    pub(super) cycles: u64,
}

impl Hub {
    /// Makes the hub of a machine. The processor's data have `ways` ways of the last-level cache.
    pub(super) fn new(config: &SchemeConfig, ways: usize) -> Result<Self> {
        let rule = match config.last_level.replacement {
            Replacement::Lru => VictimRule::Lru,
            _ => VictimRule::Random,
        };
        let rng = Rng::new(config.seed);
        Ok(Self {
            last: LineArray::new(config.last_level_sets()?, ways, rule, rng, LAST_LEVEL),
            notes: LineNotes::default(),
            counters: DmaCounters::default(),
            cycles: config.last_level.cycles,
        })
    }

    /// Reads a line from memory for a reference that waits. Returns the cycles.
    #[inline]
    pub(super) fn read_memory(&mut self, line: u64, class: TapClass, memory: &mut dyn LineMemory) -> u64 {
        self.counters[class].memory_reads += 1;
        memory.access(line, class, LineUse::Demand)
    }

    /// Reads a line from memory ahead of its use. Returns the cycles that the reference waits for room.
    #[inline]
    pub(super) fn prefetch(&mut self, line: u64, class: TapClass, memory: &mut dyn LineMemory) -> u64 {
        self.counters[class].memory_reads += 1;
        self.counters.device_data.prefetches += 1;
        memory.access(line, class, LineUse::Prefetch)
    }

    /// Counts the cycles that an event waited for memory, and lets memory pass this time. The event is no
    /// reference.
    #[inline]
    pub(super) fn pass_wait(&mut self, cycles: u64, class: TapClass, memory: &mut dyn LineMemory) {
        if cycles > 0 {
            self.counters[class].cycles += cycles;
            memory.pass(class, cycles);
        }
    }

    /// Writes a line to memory. Returns the cycles that the reference waits for room.
    #[inline]
    pub(super) fn write_memory(&mut self, line: u64, class: TapClass, memory: &mut dyn LineMemory) -> u64 {
        self.counters[class].memory_writes += 1;
        memory.access(line, class, LineUse::PostedWrite)
    }

    /// Does the action that the table names for a line. Returns the cycles.
    #[inline]
    pub(super) fn act(
        &mut self,
        action: LineAction,
        line: u64,
        class: TapClass,
        memory: &mut dyn LineMemory,
    ) -> u64 {
        match action {
            LineAction::WriteBack | LineAction::WriteThrough => self.write_memory(line, class, memory),
            _ => 0,
        }
    }

    /// Completes the departure of a line that another line replaced. Returns the cycles.
    #[inline]
    pub(super) fn replaced(
        &mut self,
        victim: Option<(LineEntry, LineAction)>,
        by_device: bool,
        class: TapClass,
        memory: &mut dyn LineMemory,
    ) -> u64 {
        let Some((victim, action)) = victim else { return 0 };
        let of_device = victim.has(DEVICE);
        let data = &mut self.counters.device_data;
        data.cpu_lines_evicted += u64::from(by_device && !of_device);
        data.device_lines_evicted += u64::from(!by_device && of_device);
        data.writes_replacing_dirty +=
            u64::from(action == LineAction::WriteBack && class == TapClass::DmaWrite);
        if of_device {
            self.note_departure(victim.line());
        }
        self.act(action, victim.line(), class, memory)
    }

    /// Notes that a line of device data left the caches.
    pub(super) fn note_departure(&mut self, line: u64) {
        let note = self.notes.at(line);
        if *note & (UNREAD | EVICTED) == UNREAD {
            *note |= EVICTED;
            self.counters.fates.evicted_unread += 1;
        }
    }

    /// Writes a line to memory because its frame changes hands. The operating system writes it, so the class is the
    /// processor's.
    pub(super) fn write_for_system(&mut self, line: u64, memory: &mut dyn LineMemory) {
        let class = TapClass::CpuWrite;
        self.counters.device_data.system_writes += 1;
        let waited = self.write_memory(line, class, memory);
        self.pass_wait(waited, class, memory);
    }

    /// Completes the departure of a line whose frame changes hands.
    pub(super) fn purged(
        &mut self,
        line: u64,
        of_device: bool,
        action: LineAction,
        memory: &mut dyn LineMemory,
    ) {
        if of_device {
            self.note_departure(line);
        }
        if action == LineAction::WriteBack {
            self.write_for_system(line, memory);
        }
    }

    /// Takes a line out of the last-level cache, if it is there, because its frame changes hands.
    pub(super) fn purge_last(&mut self, line: u64, memory: &mut dyn LineMemory) {
        if let Some(slot) = self.last.find(line) {
            let of_device = self.last.entry(slot).has(DEVICE);
            let action = self.last.purge(slot);
            self.purged(line, of_device, action, memory);
        }
    }

    /// Notes that the frame of a line changes hands. Everything that the hub knew of the line concerned the old page.
    /// From now on no cache holds the line, its data are no I/O data, and nobody will read what a device wrote there.
    pub(super) fn note_frame_change(&mut self, line: u64) {
        let note = self.notes.at(line);
        self.counters.fates.purged_unread += u64::from(*note & UNREAD != 0);
        *note = 0;
    }

    /// Brings a line into the last-level cache, in one of its lowest `among` ways. Returns the cycles.
    #[inline]
    pub(super) fn fill_last(
        &mut self,
        line: u64,
        flags: u64,
        how: (&TransitionTable, LineEvent, usize),
        class: TapClass,
        memory: &mut dyn LineMemory,
    ) -> u64 {
        let (table, event, among) = how;
        let (action, victim) = self.last.insert(line, flags, table, event, among);
        let waited = self.act(action, line, class, memory);
        waited + self.replaced(victim, flags & DEVICE != 0, class, memory)
    }

    /// Brings a line of the processor's data into the last-level cache. Returns the cycles.
    #[inline]
    pub(super) fn fill_for_cpu(&mut self, line: u64, event: LineEvent, memory: &mut dyn LineMemory) -> u64 {
        let class = if event == LineEvent::LocalWrite { TapClass::CpuWrite } else { TapClass::CpuRead };
        self.fill_last(line, 0, (&MOESI, event, self.last.ways()), class, memory)
    }

    /// Counts a reference, and makes its answer.
    #[inline]
    pub(super) fn answer(&mut self, class: TapClass, served: ServedBy, cycles: u64, hit: bool) -> TapAnswer {
        let of_class = &mut self.counters[class];
        of_class.references += 1;
        of_class.cycles += cycles;
        of_class.hits_last_level += u64::from(hit && served == ServedBy::LastLevel);
        of_class.hits_dma_cache += u64::from(hit && served == ServedBy::DmaCache);
        if class.is_of_a_device() {
            self.counters.device_data.io_accesses += 1;
            self.counters.device_data.io_hits += u64::from(hit);
        }
        TapAnswer { served, cycles }
    }

    /// Notes that the front reads a line, and how the fate of its data ends. `tagged` is true if the front's copy is
    /// I/O data.
    #[inline]
    pub(super) fn note_read(&mut self, line: u64, store: bool, served: ServedBy, tagged: bool) {
        let note = self.notes.at(line);
        if *note & IO_DATA != 0 {
            self.counters.device_data.io_accesses += 1;
            self.counters.device_data.io_hits += u64::from(served != ServedBy::Memory);
        }
        if *note & UNREAD != 0 {
            let fates = &mut self.counters.fates;
            *match served {
                ServedBy::DmaCache => &mut fates.read_from_dma_cache,
                ServedBy::LastLevel => &mut fates.read_from_last_level,
                ServedBy::Memory if *note & EVICTED != 0 => &mut fates.read_after_eviction,
                ServedBy::Memory => &mut fates.read_from_memory,
            } += 1;
        }
        // The front may still have held the line tagged, when another of its caches read it into the last-level cache.
        *note = *note & !(UNREAD | EVICTED | TAGGED) | HELD;
        if store {
            *note &= !IO_DATA;
        } else if tagged {
            *note |= TAGGED;
        }
    }

    /// Notes that the processor updated a line. If `leaves`, the front does not hold the line any more.
    #[inline]
    pub(super) fn note_update(&mut self, line: u64, leaves: bool) {
        let note = self.notes.at(line);
        self.counters.fates.overwritten_by_cpu += u64::from(*note & UNREAD != 0);
        *note &= !(TAGGED | IO_DATA | UNREAD | EVICTED);
        if leaves {
            *note &= !HELD;
        }
    }

    /// Notes that a clean line leaves the front. Returns whether it is tagged as I/O data.
    #[inline]
    pub(super) fn note_clean_eviction(&mut self, line: u64) -> bool {
        let note = self.notes.at(line);
        let tagged = *note & TAGGED != 0;
        *note &= !(HELD | TAGGED);
        tagged
    }

    /// Notes that a device writes a line.
    #[inline]
    pub(super) fn note_device_write(&mut self, line: u64) {
        let note = self.notes.at(line);
        self.counters.fates.overwritten_by_device += u64::from(*note & UNREAD != 0);
        self.counters.fates.written += 1;
        *note = IO_DATA | UNREAD;
    }

    /// Uses a line of the last-level cache for a reference of the processor or of a device. Returns the action that
    /// the table names for the line, and the cycles that the reference waits for a prefetched line.
    #[inline]
    pub(super) fn use_last(
        &mut self,
        slot: usize,
        table: &TransitionTable,
        event: LineEvent,
        memory: &mut dyn LineMemory,
    ) -> (LineAction, u64) {
        self.last.touch(slot);
        let waited = if self.last.take_prefetched(slot) {
            self.counters.device_data.prefetches_used += u64::from(event != LineEvent::LocalWrite);
            memory.await_prefetch(self.last.entry(slot).line())
        } else {
            0
        };
        (self.last.apply(slot, table, event), waited)
    }

    /// The processor reads a line of the last-level cache or of memory.
    #[inline]
    pub(super) fn cpu_read(&mut self, line: u64, store: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        let class = TapClass::CpuRead;
        let event = LineEvent::LocalReadAlone;
        let (served, cycles) = if let Some(slot) = self.last.find(line) {
            let (_, waited) = self.use_last(slot, &MOESI, event, memory);
            (ServedBy::LastLevel, self.cycles + waited)
        } else {
            let waited = self.read_memory(line, class, memory);
            (ServedBy::Memory, self.cycles + waited + self.fill_for_cpu(line, event, memory))
        };
        self.note_read(line, store, served, false);
        self.answer(class, served, cycles, served == ServedBy::LastLevel)
    }

    /// Takes a whole line that the processor passes down. If `leaves`, the front does not hold the line any more.
    #[inline]
    pub(super) fn cpu_write(&mut self, line: u64, leaves: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        self.note_update(line, leaves);
        self.write_last(line, |_, _| 0, memory)
    }

    /// The processor passes a part of a line down.
    pub(super) fn cpu_partial_store(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.note_update(line, false);
        self.write_last(line, |hub, memory| hub.read_memory(line, TapClass::CpuWrite, memory), memory)
    }

    /// Writes the processor's data into the last-level cache. `fetch` gets the rest of a line that misses.
    #[inline]
    pub(super) fn write_last(
        &mut self,
        line: u64,
        fetch: impl FnOnce(&mut Self, &mut dyn LineMemory) -> u64,
        memory: &mut dyn LineMemory,
    ) -> TapAnswer {
        let slot = self.last.find(line);
        let waited = if let Some(slot) = slot {
            let (_, waited) = self.use_last(slot, &MOESI, LineEvent::LocalWrite, memory);
            self.last.set(slot, DEVICE, false);
            waited
        } else {
            let fetched = fetch(self, memory);
            fetched + self.fill_for_cpu(line, LineEvent::LocalWrite, memory)
        };
        self.answer(TapClass::CpuWrite, ServedBy::LastLevel, self.cycles + waited, slot.is_some())
    }
}
