//! `io` is the path of device data. The path leads from a system call through the page cache, or through the buffers of
//! the network and of pipes, to the device.
//!
//! [`IoPath`] takes calls, and answers each with the [`IoStep`]s that it takes: what the processor copies, what the
//! driver writes for the device, what the device transfers. The steps of a call stand in the order in which memory
//! sees them. The path decides by calls alone, so the steps are the same under every placement. The caller turns
//! them into references of the kernel and of devices.
//!
//! # Rules
//! - A file lies in pages. [`read`](IoPath::read) and [`write`](IoPath::write) go through the *page cache*, which
//!   keeps pages after the call and after the last mapping, up to [`IoConfig::cache_pages`]. Page by page, in
//!   ascending order, a call brings the page into the cache and copies the call's part of it.
//! - A page that is not in the cache is read by the device, alone or in a window (`read_ahead`). A write brings
//!   nothing in if it covers all bytes of the page that exist; the kernel then fills the rest of the page with
//!   zeros. Files have no holes: a page that was never written is read as zeros.
//! - The page used least recently leaves a full cache. If it is dirty, it is written to the device first, with its
//!   dirty neighbours.
//! - With a [room](IoConfig::memory) in memory the page cache also competes with all other pages for memory
//!   (`memory`): a page that was referenced longest ago leaves full memory.
//! - A device request covers neighbouring pages, [`IoConfig::request_pages`] at most. It transfers whole pages. The
//!   pages of one request lie side by side on the disk, where a file lies in extents of [`IoConfig::extent_pages`].
//! - With a [rate](IoConfig::disk_rate) the disk reads one request after the other, and the pages of a window arrive
//!   when the disk has served their request. A call may need a page that has not arrived. Then the call waits for the
//!   request of the page and for all requests before it, because the processor is faster than its disk. Descriptors are
//!   written when a request is served.
//! - With a [rate of writes](IoConfig::disk_write_rate) the disk also serves the writes of the page cache one after the
//!   other, beside its reads. A page is clean from the moment at which its write is asked for, and a store makes it
//!   dirty again. Some steps wait until the write of a page and all writes before it are done. These steps are the
//!   departure of the page from the cache, a further write of the page, `fsync`, `sync`, and a direct transfer of the
//!   page. Direct transfers themselves are served at once.
//! - The *flusher* works after each write: if more than [`IoConfig::dirty_pages`] are dirty, it writes the page that
//!   has been dirty longest, with its neighbours, until at most half of that number is dirty. A page that has been
//!   dirty for [`IoConfig::dirty_age`] is written then. Stores through mappings wake the flusher, too, one instruction
//!   after their fault.
//! - Devices and the flusher act on their own when their times have [passed](IoPath::pass_time), the earliest
//!   first. If several are due at one time, the order is: the disk that reads, the disk that writes, the card, the
//!   flusher.
//! - A buffer of a call may lie in a mapped file. Then its page faults before the kernel or a device reads or stores
//!   there, as it does for the program (`user`).
//! - Direct transfers go between the device and the user's buffer. Dirty pages of the range are written first, and a
//!   direct write drops the pages of its range from the cache (Linux, `generic_file_direct_write`).
//! - No range ends behind byte [`IoPath::LARGEST`], the last offset that Linux takes: the caller refuses longer ranges.
//! - A store through a mapping is a [`fault`](IoPath::fault) if the page is not in the cache or not dirty. So each
//!   transfer of a page to the disk ends the right to write to the page through mappings.
//! - Every request has *descriptors* in a ring (TB10 §2.1), one for each piece of memory. The driver writes them, the
//!   device fetches them (a line of four at once), transfers the data, and marks the last descriptor as done. At the
//!   interrupt the driver reads this descriptor.
//! - The network's receive ring always holds buffers for packets to come, and uses them in turn. At an interrupt the
//!   driver hands the buffers of the packets on and puts fresh buffers into their slots; the buffer freed last is
//!   used first. So the ring's size decides how much memory packets pass through.
//! - A packet is [`IoConfig::packet`] bytes long at most. A call's last packet is as long as the rest of the call.
//!   A packet that is longer than a buffer takes several buffers. An interrupt comes after every
//!   [`IoConfig::coalesce`] packets and after the last packet of a call.
//! - With a [backlog](IoConfig::backlog) the sender is ahead of the processor: that many packets wait in the
//!   receive ring, each as long as a packet may be. When a call asks for bytes, the driver sees the oldest packets,
//!   and as many new packets arrive behind them. A packet belongs to the socket of the call for which the driver
//!   sees it, so the path need not know later calls. What a call leaves of its last packet waits in the socket.
//! - With a [rate of sending](IoConfig::send_rate) packets wait in the send ring. The card first sends the packets
//!   of the oldest interrupt together, then the packets of the next interrupt. A call waits for the oldest packets
//!   if the ring has no room. A part of a file that is sent from the page cache waits for all packets before it,
//!   and is sent at once.
//! - A pipe is a queue of bytes in pages of its own. A page returns to the free pages when its last byte has been
//!   read.
//! - `splice` and `tee` move bytes by the pages and buffers in which they lie. A pipe may hold pages of the page
//!   cache, buffers of packets and pages of other pipes, and several pipes may hold the same page; a buffer is free
//!   when its last byte has left the last pipe. The card reads spliced bytes where they lie. What goes into a file is
//!   copied into the page cache (Linux, `iter_file_splice_write`).
//! - Bytes of a file that were spliced into a pipe have the values that the file's page has when they are read from
//!   the pipe. If the page has left the page cache by then, it is read again (ours: Linux keeps it). Bytes that the
//!   file does not have any more are read as zeros, and the card sends none of them.
//! - A socket or pipe that is closed loses the bytes that wait in it. Their buffers are free in the order of the bytes.
//!
//! Ours: the cache replaces in one order of use (Linux has two lists), the flusher's lower mark is half of the upper
//! one, and a request is complete when the call goes on.

mod cached;
mod clock;
mod config;
mod copies;
mod counts;
mod disk;
mod disk_queue;
mod files;
mod memory;
mod page_cache;
mod pipes;
mod queues;
mod read_ahead;
mod rings;
mod user;

use alloc::collections::BTreeMap;

use binhop_base::{Result, VirtAddr};

pub use config::{FileWrites, IoConfig, MemoryRoom};
pub use counts::{IoCounts, IoWaiting};
pub use memory::MemoryPage;
pub use user::UserPage;

use disk_queue::DiskQueue;
use memory::MemoryOrder;
use page_cache::PageCache;
use queues::{Buffers, Queue};
use read_ahead::ReadAhead;
use rings::{Network, Ring};

/// `FileId` is the number of a file, as the trace numbers files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// `QueueId` is the number of a socket or a pipe, as the trace numbers files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u64);

/// `FilePage` is a page of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePage {
    /// The file.
    pub file: FileId,
    /// The number of the page in the file, from 0.
    pub page: u64,
}

/// `Device` is a device that transfers data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Device {
    /// The disk, which holds all files.
    Disk,
    /// The network card.
    Network,
}

/// `RingId` names a ring of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RingId {
    /// The requests to the disk.
    Disk,
    /// The packets that the network card receives.
    Receive,
    /// The packets that the network card sends.
    Send,
}

impl RingId {
    /// Returns the device that works through the ring.
    #[must_use]
    pub const fn device(self) -> Device {
        match self {
            Self::Disk => Device::Disk,
            Self::Receive | Self::Send => Device::Network,
        }
    }
}

/// `BufferPool` is a kind of kernel buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferPool {
    /// The buffers of packets, of [`IoConfig::buffer`] bytes.
    Packets,
    /// The pages of pipes.
    Pipes,
}

/// `Location` is the first byte of a piece of memory that a step touches. The piece never crosses a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Location {
    /// A byte of the memory of the process that calls.
    User(VirtAddr),
    /// A byte of a page in the page cache, by its byte in the file.
    File(FileId, u64),
    /// A byte of a kernel buffer: the pool, the buffer's number, the byte in the buffer.
    Buffer(BufferPool, u32, u64),
    /// A descriptor: the ring, and the slot in the ring. It is [`IoConfig::DESCRIPTOR`] bytes long.
    Descriptor(RingId, u32),
}

/// `IoStep` is a step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoStep {
    /// The kernel copies bytes.
    Copy {
        /// The first byte that is read.
        from: Location,
        /// The first byte that is written.
        to: Location,
        /// The number of bytes.
        bytes: u64,
    },
    /// The kernel fills bytes with zeros.
    Fill {
        /// The first byte.
        at: Location,
        /// The number of bytes.
        bytes: u64,
    },
    /// The driver writes a descriptor.
    WriteDescriptor(RingId, u32),
    /// The driver reads a descriptor.
    ReadDescriptor(RingId, u32),
    /// A device transfers data between itself and memory, or reads or writes a descriptor.
    Transfer {
        /// The ring of the request.
        ring: RingId,
        /// The number of the request in the ring, from 0.
        request: u64,
        /// True if the device writes memory; false if it reads memory.
        writes: bool,
        /// The first byte in memory.
        at: Location,
        /// The number of bytes.
        bytes: u64,
        /// For a file's data: the file, and the first byte in the file.
        of: Option<(FileId, u64)>,
    },
    /// The device of a ring interrupts the processor, whose handler runs.
    Interrupt(RingId),
    /// A page leaves the page cache. Mappings of the page end, and its frame is free.
    Dropped(FilePage),
}

/// `Emit` takes the steps of a call, in order.
pub type Emit<'a> = &'a mut dyn FnMut(IoStep);

/// `File` is what the path knows of a file.
#[derive(Clone, Debug, Default)]
struct File {
    bytes: u64,
    /// True if the caller told the path how long the file is.
    is_known: bool,
    ahead: ReadAhead,
}

/// `IoPath` is the state of the path: page cache, rings, buffers, queues.
#[derive(Debug)]
pub struct IoPath {
    config: IoConfig,
    cache: PageCache,
    /// The reads that the disk has not served.
    arriving: DiskQueue,
    /// The writes that the disk has not served.
    leaving: DiskQueue,
    files: BTreeMap<FileId, File>,
    disk: Ring,
    network: Network,
    /// The packets that wait in sockets.
    sockets: BTreeMap<QueueId, Queue>,
    pipes: BTreeMap<QueueId, Queue>,
    pipe_pages: Buffers,
    /// The order of the pages in memory; `None` if the page cache does not compete for memory.
    memory: Option<MemoryOrder>,
    /// The memory behind each virtual page of the buffers of a call.
    user_pages: BTreeMap<u64, UserPage>,
    /// The time in instructions, as the caller tells it.
    now: u64,
    /// The time at which the flusher looks at the pages that stores through mappings have made dirty.
    flusher_wakes: Option<u64>,
    counts: IoCounts,
}

impl IoPath {
    /// The end of the longest range of a file or of memory.
    pub const LARGEST: u64 = i64::MAX as u64;

    /// Makes an empty path.
    ///
    /// # Errors
    /// The configuration breaks a rule ([`IoConfig`]).
    pub fn new(config: IoConfig) -> Result<Self> {
        config.check()?;
        Ok(Self {
            cache: PageCache::default(),
            arriving: DiskQueue::default(),
            leaving: DiskQueue::default(),
            files: BTreeMap::new(),
            disk: Ring::new(RingId::Disk, config.ring),
            network: Network::new(config.ring),
            sockets: BTreeMap::new(),
            pipes: BTreeMap::new(),
            pipe_pages: Buffers::default(),
            memory: config.memory.map(MemoryOrder::new),
            user_pages: BTreeMap::new(),
            now: 0,
            flusher_wakes: None,
            counts: IoCounts::default(),
            config,
        })
    }

    /// Tells the path how long a file is, before any call on the file. If the path is not told, a file ends behind the
    /// last byte that a call has moved, and behind the last page that was touched in a mapping.
    ///
    /// # Panics
    /// A call has used the file.
    pub fn set_bytes(&mut self, file: FileId, bytes: u64) {
        let told = File { bytes, is_known: true, ..File::default() };
        assert!(self.files.insert(file, told).is_none(), "a file's length is told before its first call");
    }

    /// Returns the sizes of the path.
    #[must_use]
    pub const fn config(&self) -> &IoConfig {
        &self.config
    }

    /// Returns what the path has counted.
    #[must_use]
    pub const fn counts(&self) -> &IoCounts {
        &self.counts
    }

    /// Returns the pages in the page cache, least recently used first, each with true if it is dirty.
    pub fn cached(&self) -> impl Iterator<Item = (FilePage, bool)> {
        self.cache.by_use()
    }

    /// Returns whether the page cache holds a page, and the page is dirty.
    #[must_use]
    pub fn is_dirty(&self, page: FilePage) -> bool {
        self.cache.is_dirty(page)
    }

    /// Returns a number that changes whenever a page of the page cache becomes clean or leaves.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.cache.revision()
    }
}
