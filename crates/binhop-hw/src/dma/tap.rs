//! `TapEvent` is what passes below the front, and `TapAnswer` is what a scheme answers.

/// `TapEvent` is one event below the front (the processor's private caches). Lines are physical line numbers.
///
/// The front keeps these rules:
/// - It reads a line that it does not hold, or holds clean. (Where the front's instruction cache does not look at
///   the data cache, one of the two may read a line that the other holds dirty, unless an inclusive cache stands
///   behind both. A stream buffer reads lines ahead whether or not the front holds them, even dirty lines.)
/// - It writes back what it holds dirty, and passes down what the processor stores past the caches. It reports when the
///   last clean copy of a line leaves. A line in a stream buffer is a copy. The buffer discards its lines, so they
///   leave as parts do.
/// - Under [`SchemeKind::Flush`](super::SchemeKind::Flush) the lines of a page leave the front before a device
///   reads or writes one of them. Dirty lines leave as a [`TapEvent::WriteBack`], and clean lines without an event.
///   The next two rules are about the other schemes.
/// - Before a device reads a line that the front holds dirty, the front cleans it: [`TapEvent::Cleaned`].
/// - Before a device writes a line, the front gives up its copies without an event. If the write is partial, a dirty
///   copy leaves as a [`TapEvent::WriteBack`] first.
/// - Before the processor stores past the caches, the front gives up its copies in the same way. Behind the
///   [`TapEvent::PartialStore`] of a part of a line it says so: [`TapEvent::CleanEviction`], even if it held no copy.
/// - When a frame changes hands, the front gives up the lines of the frame: a [`TapEvent::Flushed`] for each line of
///   the frame, held or not, and then a [`TapEvent::SystemWrite`] for each line or part that a cache of the front held
///   dirty. Two caches may have held the same line dirty. The flush comes first because what lies behind the front is
///   older.
/// - A line is as long as a line of the last level. A cache of the front with shorter lines holds *parts* of a
///   line. It reads a part as a [`TapEvent::Read`] without `store`, because the rest of the line may be newer
///   elsewhere. So it reads a whole line for a store that makes only a part dirty: the rest of the line stays clean. A
///   dirty part that leaves, or is cleaned, is a [`TapEvent::PartialStore`]. The front holds the line until its last
///   part has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapEvent {
    /// The front reads a line, and holds it from then on.
    Read {
        /// The line.
        line: u64,
        /// True if the front's copy becomes dirty, because a store asked for the line.
        store: bool,
    },
    /// A dirty line leaves the front, or the processor stores a whole line past the front, which gives up its copies.
    WriteBack {
        /// The line.
        line: u64,
    },
    /// A clean line leaves the front, or the last part of a line leaves the front.
    CleanEviction {
        /// The line.
        line: u64,
        /// True if a whole line leaves a cache, and not a part of a line or a line of a stream buffer.
        whole: bool,
    },
    /// A dirty line of the front is passed down, and the front still holds it, clean: a device is about to read it, or
    /// another cache of the front has a copy.
    Cleaned {
        /// The line.
        line: u64,
    },
    /// A store hit a clean line of the front, which becomes dirty. A front may leave this event out. Then a DMA cache
    /// keeps its copy, which is stale and which nobody can read, until the line is written back.
    Upgrade {
        /// The line.
        line: u64,
    },
    /// A store into a part of a line is passed down by a write-through front, which does not hold the line dirty; or
    /// a front with shorter lines passes a dirty part of the line down.
    PartialStore {
        /// The line.
        line: u64,
    },
    /// A device reads a line.
    DeviceRead {
        /// The line.
        line: u64,
        /// The number of the DMA request.
        request: u32,
    },
    /// A device writes a line.
    DeviceWrite {
        /// The line.
        line: u64,
        /// True if the whole line is written.
        whole: bool,
        /// The number of the DMA request.
        request: u32,
    },
    /// The frame of the line changes hands, and the front gives up its copies. Every copy behind the front leaves, too.
    Flushed {
        /// The line.
        line: u64,
    },
    /// The operating system writes a dirty line of the front, or a dirty part of a line, to memory, because the frame
    /// changes hands.
    SystemWrite {
        /// The line.
        line: u64,
    },
}

impl TapEvent {
    /// Returns the line of the event.
    #[must_use]
    pub const fn line(&self) -> u64 {
        match *self {
            Self::Read { line, .. }
            | Self::WriteBack { line }
            | Self::CleanEviction { line, .. }
            | Self::Cleaned { line }
            | Self::Upgrade { line }
            | Self::PartialStore { line }
            | Self::DeviceRead { line, .. }
            | Self::DeviceWrite { line, .. }
            | Self::Flushed { line }
            | Self::SystemWrite { line } => line,
        }
    }

    /// Returns the class of references that the event belongs to. `None`: the event is no reference.
    #[must_use]
    pub const fn class(&self) -> Option<TapClass> {
        match self {
            Self::Read { .. } => Some(TapClass::CpuRead),
            Self::WriteBack { .. } | Self::Cleaned { .. } | Self::PartialStore { .. } => {
                Some(TapClass::CpuWrite)
            }
            Self::DeviceRead { .. } => Some(TapClass::DmaRead),
            Self::DeviceWrite { .. } => Some(TapClass::DmaWrite),
            Self::CleanEviction { .. }
            | Self::Upgrade { .. }
            | Self::Flushed { .. }
            | Self::SystemWrite { .. } => None,
        }
    }
}

/// `ServedBy` is the place that served a reference: the place from which a read got its data, or into which a write
/// put its data first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServedBy {
    /// Memory.
    Memory,
    /// The last-level cache. In PBDC: the ways of the last-level cache for the processor's data.
    LastLevel,
    /// The DMA cache. In PBDC: the ways of the last-level cache for I/O data.
    DmaCache,
}

/// `TapAnswer` says where a reference was served, and how many cycles it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapAnswer {
    /// The place that served the reference.
    pub served: ServedBy,
    /// The cycles until the reference is complete.
    pub cycles: u64,
}

/// `TapClass` is a class of references: who makes them, and in which direction data move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TapClass {
    /// The processor reads a line.
    CpuRead,
    /// The processor passes data down: write-backs, cleaned lines, partial stores.
    CpuWrite,
    /// A device reads a line.
    DmaRead,
    /// A device writes a line.
    DmaWrite,
}

impl TapClass {
    /// Every class.
    pub const ALL: &'static [Self] = &[Self::CpuRead, Self::CpuWrite, Self::DmaRead, Self::DmaWrite];

    /// Returns the name of the class in a metric.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CpuRead => "cpu-read",
            Self::CpuWrite => "cpu-write",
            Self::DmaRead => "dma-read",
            Self::DmaWrite => "dma-write",
        }
    }

    /// Returns whether a device makes the references.
    #[must_use]
    pub const fn is_of_a_device(self) -> bool {
        matches!(self, Self::DmaRead | Self::DmaWrite)
    }
}
