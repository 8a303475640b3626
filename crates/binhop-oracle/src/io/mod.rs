//! `Server` serves calls on files, sockets and pipes, page by page and byte by byte, with lists that it searches from
//! the front. It answers with the same steps as the fast path.

mod disk_queue;
mod files;
mod memory;
mod page_cache;
mod pipes;
mod queues;
mod read_ahead;
mod rings;
mod sockets;
mod step;
mod user;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use queues::Byte;
use read_ahead::Reader;
use sockets::Packet;
pub use step::{IoEvent, IoPlace, MemoryPlace, Room, Sizes, UserPlace};

/// `Page` is a page in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The file.
    pub file: u64,
    /// The page in the file.
    pub page: u64,
    /// If the page is dirty: the ordinal of the write that made it dirty, and the time.
    pub dirty: Option<(u64, u64)>,
}

/// `Server` is the state of the path.
#[derive(Debug)]
pub struct Server {
    sizes: Sizes,
    /// The cached pages, least recently used first.
    pub cached: Vec<Page>,
    /// The sizes of files in bytes.
    pub files: BTreeMap<u64, u64>,
    /// The files whose size is known before their first call.
    pub known: Vec<u64>,
    readers: BTreeMap<u64, Reader>,
    /// The requests that the disk has not served yet, the first at the front: the file, the pages.
    arriving: Vec<(u64, Vec<u64>)>,
    /// The time at which the disk began with the first of these requests.
    disk_began: u64,
    /// The writes that the disk has not served yet. `writes_began` is the time at which the disk began with the
    /// first write.
    leaving: Vec<(u64, Vec<u64>)>,
    writes_began: u64,
    /// The packets that the card has not sent yet; the packets of one interrupt stand together. `sends_began` is
    /// the time at which the card began with the first packets.
    sending: Vec<Vec<Packet>>,
    sends_began: u64,
    slots: [u32; 3],
    requests: [u64; 3],
    posted: Vec<u32>,
    /// The pieces of packets in the receive ring that the driver has not seen: the number of the packet, slot, length.
    unseen: Vec<(u64, u32, u64)>,
    free: [Vec<u32>; 2],
    made: [u32; 2],
    sockets: BTreeMap<u64, VecDeque<Byte>>,
    pipes: BTreeMap<u64, VecDeque<Byte>>,
    now: u64,
    /// The time of the first store through a mapping since the flusher has looked at the pages.
    stored: Option<u64>,
    writes: u64,
    runs: u64,
    /// The number of look-ups of a page by a call or a fault that found the page in the cache, and the number of
    /// look-ups that did not find the page.
    pub looked_up: [u64; 2],
    /// The pages in memory with their colors, in order of their last reference, the oldest page first. A page that
    /// has died is `None`.
    pub memory: Vec<(u64, Option<MemoryPlace>)>,
    /// The pages that a process has had in a mapping.
    mapped: BTreeSet<MemoryPlace>,
    /// The memory behind a page of the user, where it is not the user's own page of this number.
    pub named: BTreeMap<u64, UserPlace>,
    /// The steps of the present call.
    pub events: Vec<IoEvent>,
}

impl Server {
    /// Makes an empty path.
    #[must_use]
    pub fn new(sizes: Sizes) -> Self {
        Self {
            sizes,
            cached: Vec::new(),
            files: BTreeMap::new(),
            known: Vec::new(),
            readers: BTreeMap::new(),
            arriving: Vec::new(),
            disk_began: 0,
            leaving: Vec::new(),
            writes_began: 0,
            sending: Vec::new(),
            sends_began: 0,
            slots: [0; 3],
            requests: [0; 3],
            posted: Vec::new(),
            unseen: Vec::new(),
            free: [Vec::new(), Vec::new()],
            made: [0; 2],
            sockets: BTreeMap::new(),
            pipes: BTreeMap::new(),
            now: 0,
            stored: None,
            writes: 0,
            runs: 0,
            looked_up: [0; 2],
            memory: Vec::new(),
            mapped: BTreeSet::new(),
            named: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    /// Lets time pass, one instruction after the other.
    pub fn pass_time(&mut self, now: u64) {
        while self.now < now {
            while self.act() {}
            self.now += 1;
        }
        while self.act() {}
    }

    /// Lets one device or the flusher, whose time has come, do one thing. The order is: the disk that reads, the
    /// disk that writes, the card, the flusher. Returns false if none of them has anything to do now.
    fn act(&mut self) -> bool {
        let size = self.sizes.page;
        let is_due = |began: u64, bytes: u64, rate: Option<u64>| {
            began + bytes * 1_000_000 / rate.expect("a queue has a rate") <= self.now
        };
        if let Some((_, pages)) = self.arriving.first()
            && is_due(self.disk_began, pages.len() as u64 * size, self.sizes.disk_rate)
        {
            self.disk_began = self.now;
            self.serve_first();
        } else if let Some((_, pages)) = self.leaving.first()
            && is_due(self.writes_began, pages.len() as u64 * size, self.sizes.disk_write_rate)
        {
            self.writes_began = self.now;
            self.serve_first_write();
        } else if let Some(packets) = self.sending.first()
            && is_due(
                self.sends_began,
                packets.iter().flat_map(|packet| &packet.2).map(|data| data.1).sum(),
                self.sizes.send_rate,
            )
        {
            self.sends_began = self.now;
            let made = self.events.len();
            self.send_first();
            self.admit(made);
        } else if let Some(page) = self.oldest_dirty()
            && page.dirty.is_some_and(|(_, since)| self.now - since >= self.sizes.dirty_age.max(1))
        {
            self.flush_around(page.file, page.page);
        } else if self.stored.is_some_and(|since| self.now > since) {
            self.stored = None;
            self.flush_some();
        } else {
            return false;
        }
        true
    }

    /// Returns four numbers of pages or packets: the pages that wait to be read, the pages that wait to be written,
    /// the packets that wait to be sent, and the dirty pages.
    #[must_use]
    pub fn waiting(&self) -> [usize; 4] {
        let pages = |queue: &[(u64, Vec<u64>)]| queue.iter().map(|(_, pages)| pages.len()).sum();
        let dirty = self.cached.iter().filter(|page| page.dirty.is_some()).count();
        [pages(&self.arriving), pages(&self.leaving), self.sending.iter().map(Vec::len).sum(), dirty]
    }

    /// Copies between the kernel and the user; the user's side is cut at pages.
    fn copy(&mut self, kernel: IoPlace, user: u64, bytes: u64, to_kernel: bool) {
        for (start, length) in self.parts(user, bytes) {
            let ours = kernel.behind(start - user);
            let theirs = IoPlace::User(start);
            self.events.push(if to_kernel {
                IoEvent::Copy(theirs, ours, length)
            } else {
                IoEvent::Copy(ours, theirs, length)
            });
        }
    }

    /// Cuts a range at pages.
    fn parts(&self, start: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for byte in start..start + bytes {
            match parts.last_mut() {
                Some(part) if !byte.is_multiple_of(self.sizes.page) => part.1 += 1,
                _ => parts.push((byte, 1)),
            }
        }
        parts
    }
}
