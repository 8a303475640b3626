//! `IoConfig` holds the sizes of the path.

use alloc::format;
use alloc::string::ToString;
use core::num::NonZeroU64;

use binhop_base::{Problem, Result, counted};

use crate::placement::PageColors;

/// `FileWrites` says how the kernel copies the data that a call writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileWrites {
    /// The stores go through the caches.
    Cached,
    /// Stores of whole lines bypass the caches (Linux 2.6.18 on, on x86-64: `__copy_from_user_inatomic_nocache`).
    NonTemporal,
}

impl FileWrites {
    /// Every way to copy.
    pub const ALL: &'static [Self] = &[Self::Cached, Self::NonTemporal];

    /// Returns the name that users see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::NonTemporal => "non-temporal",
        }
    }
}

/// `MemoryRoom` is the memory for which the page cache competes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// The most pages of each color in memory.
    pub pages: u64,
    /// The colors of pages. A page takes the place of a page of its color alone.
    pub colors: PageColors,
    /// True if the frame of a dead page is reused before any page is evicted.
    pub reuses_frames: bool,
}

/// `IoConfig` holds the sizes of the path of device data, and how the path works.
///
/// The sizes obey these rules. A window of read-ahead, and a request, fit into half of the page cache, so that a
/// page stays in the cache until its call has copied it. Each of them also fits into half of the memory for which
/// the pages of one color compete. A request, the packets between two interrupts and the backlog each fit into a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoConfig {
    /// The bytes of a page; a power of two.
    pub page: u64,
    /// The most pages in the page cache.
    pub cache_pages: u64,
    /// The most pages of a window of read-ahead; at least 1.
    pub read_ahead: u64,
    /// The most pages of a request to the disk.
    pub request_pages: u64,
    /// The pages of a file that lie side by side on the disk; at least 1. A request ends where such pages end.
    pub extent_pages: u64,
    /// The bytes that the disk reads into the page cache while the processor executes a million instructions. `None`:
    /// the disk reads at once.
    pub disk_rate: Option<NonZeroU64>,
    /// The bytes that the disk writes from the page cache while the processor executes a million instructions.
    /// `None`: the disk writes at once.
    pub disk_write_rate: Option<NonZeroU64>,
    /// The bytes that the network card sends from the kernel's buffers while the processor executes a million
    /// instructions. `None`: the card sends at once.
    pub send_rate: Option<NonZeroU64>,
    /// The most dirty pages at which the flusher does not write.
    pub dirty_pages: u64,
    /// The instructions after which a dirty page is written.
    pub dirty_age: u64,
    /// The descriptors in each ring.
    pub ring: u32,
    /// The bytes of a packet's buffer; a power of two, at most a page.
    pub buffer: u64,
    /// The most bytes of a packet.
    pub packet: u64,
    /// The packets between two interrupts.
    pub coalesce: u32,
    /// The number of packets that wait in the receive ring while no call asks for them, because the sender is ahead
    /// of the processor. If the number is 0, packets arrive when a call asks for them.
    pub backlog: u32,
    /// The stores by which the kernel copies what a call writes to a file.
    pub file_writes: FileWrites,
    /// The memory for which the page cache competes with all other pages. `None`: the page cache does
    /// not compete.
    pub memory: Option<MemoryRoom>,
}

impl IoConfig {
    /// The bytes of a descriptor: an address of 8 bytes, a length and a status (Intel 82599 data sheet, §7.1.6).
    pub const DESCRIPTOR: u64 = 16;

    /// Returns the buffers that the longest packet takes.
    fn packet_buffers(&self) -> u64 {
        self.packet.div_ceil(self.buffer)
    }

    /// Checks the rules.
    ///
    /// # Errors
    /// A rule is broken: the problem names the key.
    pub fn check(&self) -> Result<()> {
        let refuse = |value: u64, key: &str, rule: &str, remedy: &str| {
            Err(Problem::request(&value.to_string(), key, rule, remedy))
        };
        // The keys of pages take bytes, so the value has its unit.
        let refuse_pages = |pages: u64, key: &str, rule: &str, remedy: &str| {
            Err(Problem::request(&counted(pages, ["page", "pages"]), key, rule, remedy))
        };
        let half = self.cache_pages / 2;
        if !self.page.is_power_of_two() {
            return refuse(self.page, "page", "a page is a power of two of bytes", "say 4096");
        }
        if self.ring == 0 {
            return refuse(0, "ring", "a ring has 1 descriptor at least", "say 256");
        }
        if self.read_ahead == 0 || self.read_ahead > half {
            let rule = "a window of read-ahead has 1 page at least and half of the page cache at most";
            return refuse_pages(
                self.read_ahead,
                "read-ahead",
                rule,
                "make it smaller, or the page cache larger",
            );
        }
        if self.request_pages == 0 || self.request_pages > half || self.request_pages > u64::from(self.ring) {
            let rule = "a request has 1 page at least, and half of the page cache and the ring's descriptors at most";
            return refuse_pages(
                self.request_pages,
                "request",
                rule,
                "make it smaller, or the page cache and ring larger",
            );
        }
        if let Some(room) = self.memory
            && self.read_ahead.max(self.request_pages) > room.pages / 2
        {
            let longest = if self.read_ahead > self.request_pages { "read-ahead" } else { "request" };
            let rule = format!(
                "a window of read-ahead and a request take half of the memory at most for which pages{} compete, which has {} pages",
                if room.colors.number > 1 { " of a color" } else { "" },
                room.pages
            );
            return refuse_pages(
                self.read_ahead.max(self.request_pages),
                longest,
                &rule,
                if room.colors.number > 1 {
                    "make it smaller, or memory.size larger, or placement.colors fewer"
                } else {
                    "make it smaller, or memory.size larger, or placement.pool smaller"
                },
            );
        }
        if self.extent_pages == 0 {
            return refuse_pages(0, "extent", "an extent of a file has 1 page at least", "say 128MiB");
        }
        if !self.buffer.is_power_of_two() || self.buffer > self.page {
            return refuse(
                self.buffer,
                "buffer",
                "a buffer is a power of two of bytes, at most a page",
                "say 2048",
            );
        }
        if self.packet == 0 {
            return refuse(0, "packet", "a packet has 1 byte at least", "say 1500B");
        }
        if self.coalesce == 0 {
            return refuse(0, "coalesce", "an interrupt comes after 1 packet at least", "say 1");
        }
        let buffers = u64::from(self.coalesce).saturating_mul(self.packet_buffers());
        if buffers > u64::from(self.ring) {
            let rule = format!(
                "the ring holds the buffers of all packets between two interrupts, which are {buffers}"
            );
            return refuse(
                u64::from(self.ring),
                "ring",
                &rule,
                "make the ring larger, or the packets fewer or smaller",
            );
        }
        let buffers = u64::from(self.backlog).saturating_mul(self.packet_buffers());
        if buffers > u64::from(self.ring) {
            let rule =
                format!("the ring holds the buffers of all packets that wait in it, which are {buffers}");
            let remedy = "make it smaller, or the ring larger";
            return refuse(u64::from(self.backlog), "backlog", &rule, remedy);
        }
        Ok(())
    }
}
