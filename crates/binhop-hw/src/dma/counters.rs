//! This file declares the counters of a scheme, each once, with name, unit and meaning.

use core::ops::{AddAssign, Index, IndexMut, Sub};

use binhop_base::Kind;

use super::TapClass;
use crate::counters::{CounterInfo, Value, counters};

counters! {
    /// `ReferenceCounters` holds the counts of the references of one class.
    ReferenceCounters {
        references: u64 = "references", "references", "References of the class, one per line.";
        hits_last_level: u64 = "last-level.hits", "references", "References that found their line in the last-level cache and used it there; of PBDC, in the ways for the processor's data.";
        hits_dma_cache: u64 = "dma-cache.hits", "references", "References that found their line in the DMA cache; of PBDC, in the ways for I/O data.";
        memory_reads: u64 = "memory.reads", "lines", "Lines read from memory because of the references, prefetches included.";
        memory_writes: u64 = "memory.writes", "lines", "Lines written to memory because of the references, the write-backs of replaced lines included.";
        cycles: u64 = "cycles", "cycles", "Cycles that the references took.";
    }
}

counters! {
    /// `DeviceDataCounters` holds the counts of device data in the caches, and of the operating system's writes.
    DeviceDataCounters {
        io_accesses: u64 = "io.accesses", "references", "References to I/O data: all references of devices, and the processor's reads of lines that a device wrote and the processor has not updated since. A store that hits in a cache of the front updates the line here when that cache writes it back.";
        io_hits: u64 = "io.hits", "references", "References to I/O data that the last-level cache or the DMA cache served.";
        writes_replacing_dirty: u64 = "dma-write.replaced-dirty", "references", "Writes of devices that replaced a dirty line.";
        prefetches: u64 = "prefetches", "lines", "Lines that were prefetched.";
        prefetches_used: u64 = "prefetches.used", "lines", "Prefetched lines that the processor or a device read from the cache.";
        cpu_lines_evicted: u64 = "cpu-lines.evicted-by-device", "lines", "Lines of the processor's data that left a cache because device data needed the room.";
        device_lines_evicted: u64 = "device-lines.evicted-by-cpu", "lines", "Lines of device data that left a cache because the processor's data needed the room.";
        system_writes: u64 = "system.writes", "lines", "Lines that the operating system wrote to memory because their frame changed hands: dirty lines of the front and of the scheme's caches. `cpu-write.memory.writes` counts them, too.";
    }
}

counters! {
    /// `FateCounters` counts the fates of the lines that devices wrote. Every write begins a fate, and the first
    /// event that ends the fate decides it.
    FateCounters {
        written: u64 = "fate.written", "lines", "Lines that devices wrote.";
        read_from_dma_cache: u64 = "fate.read-dma-cache", "lines", "Lines that the processor first read from the DMA cache.";
        read_from_last_level: u64 = "fate.read-last-level", "lines", "Lines that the processor first read from the last-level cache.";
        read_after_eviction: u64 = "fate.read-after-eviction", "lines", "Lines that the processor first read from memory, because they had left the caches before.";
        read_from_memory: u64 = "fate.read-memory", "lines", "Lines that the processor first read from memory, because the scheme put them there.";
        overwritten_by_device: u64 = "fate.overwritten-by-device", "lines", "Lines that a device wrote again before the processor read them.";
        overwritten_by_cpu: u64 = "fate.overwritten-by-cpu", "lines", "Lines into which the processor wrote before it read them.";
        evicted_unread: u64 = "fate.evicted-unread", "lines", "Lines that left the caches before the processor read them. Their fate is still open then.";
        purged_unread: u64 = "fate.purged-unread", "lines", "Lines whose frame changed hands before the processor read them. `fate.unread` counts them, too.";
    }
}

impl FateCounters {
    /// Returns the number of lines that a device wrote, and that the processor has not read and nobody has overwritten
    /// since. Lines whose frame changed hands are among these lines, because nobody will ever read them.
    #[must_use]
    pub const fn unread(&self) -> u64 {
        self.written
            - self.read_from_dma_cache
            - self.read_from_last_level
            - self.read_after_eviction
            - self.read_from_memory
            - self.overwritten_by_device
            - self.overwritten_by_cpu
    }
}

counters! {
    /// `LineCounters` holds the counts of the lines of one cache.
    LineCounters {
        fills: u64 = "fills", "lines", "Lines brought in.";
        evictions: u64 = "evictions", "lines", "Lines that left because another line needed the room.";
        invalidated: u64 = "invalidated", "lines", "Lines that left because the other side wrote them or took them to write them.";
        flushed: u64 = "flushed", "lines", "Lines that left because their way was given to other data, or because a device read them under the scheme `off`.";
        purged: u64 = "purged", "lines", "Lines that left because their frame changed hands.";
        purged_dirty: u64 = "purged.dirty", "lines", "Purged lines that were dirty and went to memory.";
        dirtied: u64 = "dirtied", "lines", "Times a clean or new line became dirty.";
        written_back: u64 = "written-back", "lines", "Dirty lines that were written to memory.";
        passed_on: u64 = "passed-on", "lines", "Dirty lines whose data the other side took over or overwrote.";
    }
}

/// `DmaCounters` holds all counts of a scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaCounters {
    /// The counts of each class, in the order of [`TapClass::ALL`]. `DmaCounters` can also be indexed by class.
    pub classes: [ReferenceCounters; 4],
    /// The counts of device data.
    pub device_data: DeviceDataCounters,
    /// The fates of the lines that devices wrote.
    pub fates: FateCounters,
}

impl Index<TapClass> for DmaCounters {
    type Output = ReferenceCounters;
    #[inline]
    fn index(&self, class: TapClass) -> &ReferenceCounters {
        &self.classes[class as usize]
    }
}

impl IndexMut<TapClass> for DmaCounters {
    #[inline]
    fn index_mut(&mut self, class: TapClass) -> &mut ReferenceCounters {
        &mut self.classes[class as usize]
    }
}
