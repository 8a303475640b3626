//! `Scheme` is the interface between a front, which sends events, and a scheme for device data, which answers them.

use binhop_base::{Problem, Result};

use super::{
    DmaCounters, LineMemory, LineState, ServedBy, TapAnswer, TapEvent,
    counters::LineCounters,
    hub::Hub,
    lines::{DEVICE, LineArray, PREFETCHED},
    notes::UNREAD,
};

/// `HeldLine` is a line in a cache of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldLine {
    /// The cache: [`ServedBy::LastLevel`] or [`ServedBy::DmaCache`].
    pub cache: ServedBy,
    /// The set.
    pub set: usize,
    /// The way, counted among the ways that the cache has for this kind of data.
    pub way: usize,
    /// The line.
    pub line: u64,
    /// The state.
    pub state: LineState,
    /// True if the line holds device data.
    pub of_device: bool,
    /// True if the line was prefetched, and nothing has used it since.
    pub prefetched: bool,
}

/// `Scheme` is a machine's caches below the front under one scheme. [`TapEvent`] states the rules that a front keeps.
pub trait Scheme: Send {
    /// The front reads a line, and holds it from then on: dirty if a `store` asked for it.
    fn cpu_read(&mut self, line: u64, store: bool, memory: &mut dyn LineMemory) -> TapAnswer;

    /// A dirty line leaves the front.
    fn cpu_write_back(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer;

    /// The front passes a dirty line down, and keeps it clean.
    fn cpu_cleaned(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer;

    /// The front passes a store into a part of a line down.
    fn cpu_partial_store(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer;

    /// A clean line leaves the front. `whole` is false if the last part of the line leaves it.
    fn clean_eviction(&mut self, line: u64, whole: bool, memory: &mut dyn LineMemory);

    /// A clean line of the front becomes dirty.
    fn upgrade(&mut self, line: u64);

    /// A device reads a line.
    fn device_read(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer;

    /// A device writes a line, or a part of it.
    fn device_write(&mut self, line: u64, whole: bool, memory: &mut dyn LineMemory) -> TapAnswer;

    /// The frame of a line changes hands: the line leaves every cache, and dirty data go to memory.
    fn flushed(&mut self, line: u64, memory: &mut dyn LineMemory);

    /// The operating system writes dirty data of the front to memory, past the caches of the scheme.
    fn system_write(&mut self, line: u64, memory: &mut dyn LineMemory);

    /// Gives ways of the last-level cache to I/O data: bit `w` of the mask stands for way `w`. The ways that change are
    /// flushed. Returns the number of dirty lines written to memory.
    ///
    /// # Errors
    /// The scheme has no such mask, or the mask names no way, all ways, or ways that the cache lacks.
    fn set_io_ways(&mut self, mask: u64, memory: &mut dyn LineMemory) -> Result<u64>;

    /// Returns the counts since the start.
    fn counters(&self) -> &DmaCounters;

    /// Returns the counts of the lines of a cache; `None` if the scheme has no such cache.
    fn line_counters(&self, cache: ServedBy) -> Option<&LineCounters>;

    /// Returns every line of the caches.
    fn contents(&self) -> Vec<HeldLine>;

    /// Returns the number of lines that a device wrote and that the processor has not read since, counted by looking
    /// at the lines.
    fn unread_lines(&self) -> u64;

    /// Handles an event. Only a reference has an answer.
    #[inline]
    fn event(&mut self, event: TapEvent, memory: &mut dyn LineMemory) -> Option<TapAnswer> {
        Some(match event {
            TapEvent::Read { line, store } => self.cpu_read(line, store, memory),
            TapEvent::WriteBack { line } => self.cpu_write_back(line, memory),
            TapEvent::Cleaned { line } => self.cpu_cleaned(line, memory),
            TapEvent::PartialStore { line } => self.cpu_partial_store(line, memory),
            TapEvent::DeviceRead { line, .. } => self.device_read(line, memory),
            TapEvent::DeviceWrite { line, whole, .. } => self.device_write(line, whole, memory),
            TapEvent::CleanEviction { line, whole } => {
                self.clean_eviction(line, whole, memory);
                return None;
            }
            TapEvent::Upgrade { line } => {
                self.upgrade(line);
                return None;
            }
            TapEvent::Flushed { line } => {
                self.flushed(line, memory);
                return None;
            }
            TapEvent::SystemWrite { line } => {
                self.system_write(line, memory);
                return None;
            }
        })
    }
}

/// `DevicePart` is the part of a scheme that serves devices. It is used where device data have no cache of their
/// own.
pub(super) trait DevicePart: Send {
    fn device_read(&mut self, hub: &mut Hub, line: u64, memory: &mut dyn LineMemory) -> TapAnswer;

    /// A device writes a line, and the notes of the line are already made.
    fn device_write(
        &mut self,
        hub: &mut Hub,
        line: u64,
        whole: bool,
        memory: &mut dyn LineMemory,
    ) -> TapAnswer;
}

/// `OneCache` is a scheme without a DMA cache.
pub(super) struct OneCache<D> {
    pub(super) hub: Hub,
    pub(super) device: D,
}

impl<D: DevicePart> Scheme for OneCache<D> {
    #[inline]
    fn cpu_read(&mut self, line: u64, store: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.cpu_read(line, store, memory)
    }

    #[inline]
    fn cpu_write_back(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.cpu_write(line, true, memory)
    }

    fn cpu_cleaned(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.cpu_write(line, false, memory)
    }

    fn cpu_partial_store(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.cpu_partial_store(line, memory)
    }

    fn clean_eviction(&mut self, line: u64, _whole: bool, _memory: &mut dyn LineMemory) {
        self.hub.note_clean_eviction(line);
    }

    fn upgrade(&mut self, line: u64) {
        self.hub.note_update(line, false);
    }

    #[inline]
    fn device_read(&mut self, line: u64, memory: &mut dyn LineMemory) -> TapAnswer {
        self.device.device_read(&mut self.hub, line, memory)
    }

    #[inline]
    fn device_write(&mut self, line: u64, whole: bool, memory: &mut dyn LineMemory) -> TapAnswer {
        self.hub.note_device_write(line);
        self.device.device_write(&mut self.hub, line, whole, memory)
    }

    fn flushed(&mut self, line: u64, memory: &mut dyn LineMemory) {
        self.hub.purge_last(line, memory);
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

    fn line_counters(&self, cache: ServedBy) -> Option<&LineCounters> {
        (cache == ServedBy::LastLevel).then_some(&self.hub.last.counters)
    }

    fn contents(&self) -> Vec<HeldLine> {
        held(ServedBy::LastLevel, &self.hub.last).collect()
    }

    fn unread_lines(&self) -> u64 {
        self.hub.notes.count(UNREAD)
    }
}

/// Returns the problem of a mask for a scheme without ways for I/O data.
pub(super) fn no_io_ways(mask: u64) -> Box<Problem> {
    Problem::request(
        &format!("{mask:#x}"),
        "io-ways",
        "only pbdc gives ways of the last-level cache to I/O data",
        "choose the scheme pbdc, or give no mask",
    )
}

/// Returns the lines of an array.
pub(super) fn held(cache: ServedBy, array: &LineArray) -> impl Iterator<Item = HeldLine> {
    array.lines().map(move |(set, way, entry)| HeldLine {
        cache,
        set,
        way,
        line: entry.line(),
        state: entry.state(),
        of_device: entry.has(DEVICE),
        prefetched: entry.has(PREFETCHED),
    })
}
