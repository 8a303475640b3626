//! This file names the places and sizes of the path, and the steps of which its answers consist.

/// `IoPlace` is the first byte of a piece of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoPlace {
    /// A byte of the caller's memory.
    User(u64),
    /// A byte of a file, in the page cache: the file, the byte.
    File(u64, u64),
    /// A byte of a packet's buffer: the buffer, the byte.
    Packet(u32, u64),
    /// A byte of a pipe's page: the page, the byte.
    Pipe(u32, u64),
    /// A descriptor: the ring (0 disk, 1 receive, 2 send), the slot.
    Descriptor(u8, u32),
}

impl IoPlace {
    pub(super) fn behind(self, bytes: u64) -> Self {
        match self {
            Self::User(byte) => Self::User(byte + bytes),
            Self::File(file, byte) => Self::File(file, byte + bytes),
            Self::Packet(buffer, byte) => Self::Packet(buffer, byte + bytes),
            Self::Pipe(page, byte) => Self::Pipe(page, byte + bytes),
            Self::Descriptor(..) => self,
        }
    }
}

/// `IoEvent` is a step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoEvent {
    /// The kernel copies bytes: from, to, the number.
    Copy(IoPlace, IoPlace, u64),
    /// The kernel writes zeros: where, the number.
    Zero(IoPlace, u64),
    /// The driver accesses a descriptor: true if it writes, the ring, the slot.
    Driver(bool, u8, u32),
    /// A device accesses memory.
    Device {
        /// The ring.
        ring: u8,
        /// The request's number in the ring.
        request: u64,
        /// True if the device writes memory.
        writes: bool,
        /// The first byte.
        at: IoPlace,
        /// The number of bytes.
        bytes: u64,
        /// The file and its byte, for a file's data.
        of: Option<(u64, u64)>,
    },
    /// The device of a ring interrupts.
    Interrupt(u8),
    /// A page leaves the cache: the file, the page.
    Drop(u64, u64),
}

/// `Sizes` are the sizes of the path.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the names are those of `IoConfig`
pub struct Sizes {
    pub page: u64,
    pub cache_pages: usize,
    pub read_ahead: u64,
    pub request_pages: usize,
    pub extent_pages: u64,
    pub disk_rate: Option<u64>,
    pub disk_write_rate: Option<u64>,
    pub send_rate: Option<u64>,
    pub dirty_pages: usize,
    pub dirty_age: u64,
    pub ring: u32,
    pub buffer: u64,
    pub packet: u64,
    pub coalesce: usize,
    pub backlog: usize,
    pub memory: Option<Room>,
}

/// `Room` is the memory in which pages compete.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// The pages of each color for which memory has room.
    pub pages: usize,
    /// The number of colors.
    pub colors: u64,
    /// True if dead frames are reused at once.
    pub reuses: bool,
}

/// `UserPlace` is what lies behind a page of the user's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPlace {
    /// The page does not fault.
    Own(MemoryPlace),
    /// The page shows a page of a file in a mapping.
    Mapped {
        /// The file.
        file: u64,
        /// The page in the file.
        page: u64,
        /// True if the page is in the page tables.
        entered: bool,
        /// The page that the process gets at a store, if the mapping is private.
        copy: Option<MemoryPlace>,
    },
}

/// `MemoryPlace` is a page of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryPlace {
    /// A page of a file: the file, the page.
    File(u64, u64),
    /// A page of packets' buffers.
    Packets(u64),
    /// A page of pipes.
    Pipes(u64),
    /// A process's own page: its number, its color.
    Own(u64, u64),
}

impl MemoryPlace {
    /// Returns the color of the page.
    pub(super) fn color(self, colors: u64) -> u64 {
        match self {
            Self::File(_, page) | Self::Packets(page) | Self::Pipes(page) => page % colors,
            Self::Own(_, color) => color,
        }
    }
}
