//! `Server` serves calls on files, sockets and pipes, page by page and byte by byte, with lists that it searches from
//! the front. It answers with the same steps as the fast path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The first byte of a piece of memory.
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
    fn behind(self, bytes: u64) -> Self {
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
    /// The pages for which memory has room, and whether dead frames are reused at once.
    pub memory: Option<(usize, bool)>,
}

/// A page of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryPlace {
    /// A page of a file: the file, the page.
    File(u64, u64),
    /// A page of packets' buffers.
    Packets(u64),
    /// A page of pipes.
    Pipes(u64),
    /// A process's own page.
    Own(u64),
}

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

#[derive(Clone, Debug, Default)]
struct Reader {
    /// The pages of the present window.
    window: Vec<u64>,
    /// The page that, when it is found, asks for the next window.
    marker: Option<u64>,
    last: Option<u64>,
}

/// `Byte` is a byte that waits in a queue.
#[derive(Clone, Copy, Debug)]
struct Byte {
    at: IoPlace,
    /// The number of the run of bytes that came into the queue together.
    run: u64,
    /// True if a write may add bytes to the run.
    grows: bool,
}

/// A piece of memory that a request transfers: the first byte, the length, the file and its byte.
type Data = (IoPlace, u64, Option<(u64, u64)>);

/// A packet that waits: its request, its slots, what it sends, its buffers.
type Packet = (u64, Vec<u32>, Vec<Data>, Vec<u32>);

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
    /// The time at which the disk began with the first of them.
    disk_began: u64,
    /// The writes that the disk has not served yet, and the time at which it began with the first.
    leaving: Vec<(u64, Vec<u64>)>,
    writes_began: u64,
    /// The packets that the card has not sent yet, those of an interrupt together, and the time at which it began with the
    /// first.
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
    /// The look-ups of a page by a call or a fault that found the page in the cache, and the look-ups that did not find it.
    pub looked_up: [u64; 2],
    /// The pages in memory, the one referenced longest ago at the front. A page that has died is `None`.
    pub memory: Vec<Option<MemoryPlace>>,
    /// The pages that a process has had in a mapping.
    mapped: BTreeSet<MemoryPlace>,
    /// The page behind a virtual page of the user, where it is not the user's own.
    pub named: BTreeMap<u64, MemoryPlace>,
    /// The steps of the present call.
    pub events: Vec<IoEvent>,
}

const DISK: u8 = 0;
const RECEIVE: u8 = 1;
const SEND: u8 = 2;

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

    /// Reads from a file.
    pub fn read(&mut self, file: u64, offset: u64, bytes: u64, user: u64) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let last = (offset + bytes - 1) / self.sizes.page;
        for (start, length) in self.parts(offset, bytes) {
            let page = start / self.sizes.page;
            self.bring(file, page, last - page + 1);
            let made = self.events.len();
            self.copy(IoPlace::File(file, start), user + start - offset, length, false);
            self.admit(made);
        }
        self.readers.entry(file).or_default().last = Some(last);
    }

    /// Writes to a file.
    pub fn write(&mut self, file: u64, offset: u64, bytes: u64, user: u64) {
        for (start, length) in self.parts(offset, bytes) {
            self.prepare(file, start, length);
            self.reach(file, start + length);
            let made = self.events.len();
            self.copy(IoPlace::File(file, start), user + start - offset, length, true);
            self.admit(made);
            self.soil(file, start / self.sizes.page);
        }
        self.flush_some();
    }

    /// Makes a page ready for a write of some of its bytes.
    fn prepare(&mut self, file: u64, start: u64, length: u64) {
        let size = self.sizes.page;
        let page = start / size;
        let end = *self.files.entry(file).or_default();
        let exist = (page * size..page * size + size).filter(|&byte| byte < end);
        let kept = exist.filter(|byte| !(start..start + length).contains(byte)).count();
        if self.position(file, page).is_some() || kept > 0 {
            self.bring_one(file, page);
        } else {
            self.looked_up[1] += 1;
            self.join(file, page);
            let before = start - page * size;
            let behind = size - before - length;
            if before > 0 {
                self.put(IoEvent::Zero(IoPlace::File(file, page * size), before));
            }
            if behind > 0 {
                self.put(IoEvent::Zero(IoPlace::File(file, start + length), behind));
            }
        }
    }

    /// Copies between two files.
    pub fn copy_file(&mut self, (from, offset): (u64, u64), (to, to_offset): (u64, u64), bytes: u64) {
        if bytes == 0 {
            return;
        }
        let size = self.sizes.page;
        self.reach(from, offset + bytes);
        let last = (offset + bytes - 1) / size;
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for byte in 0..bytes {
            match pieces.last_mut() {
                Some(piece)
                    if !(offset + byte).is_multiple_of(size) && !(to_offset + byte).is_multiple_of(size) =>
                {
                    piece.1 += 1;
                }
                _ => pieces.push((byte, 1)),
            }
        }
        for (number, &(byte, length)) in pieces.iter().enumerate() {
            let page = (offset + byte) / size;
            if byte == 0 || (offset + byte).is_multiple_of(size) {
                self.bring(from, page, last - page + 1);
            } else {
                self.keep(from, page);
            }
            let target = to_offset + byte;
            // The bytes of this page that the call writes before the flusher works.
            let group = &pieces[number / 16 * 16..pieces.len().min(number / 16 * 16 + 16)];
            let in_page = group.iter().filter(|&&(other, _)| (to_offset + other) / size == target / size);
            let is_first = in_page.clone().next() == Some(&(byte, length));
            let whole = in_page.filter(|&&(other, _)| other >= byte).map(|&(_, length)| length).sum();
            let mut ready = !is_first;
            loop {
                self.touch(from, page);
                if ready && self.position(to, target / size).is_some() {
                    self.keep(to, target / size);
                } else {
                    self.prepare(to, target, whole);
                }
                ready = true;
                if self.position(from, page).is_some() {
                    break;
                }
                self.bring_one(from, page);
            }
            self.reach(to, to_offset + byte + length);
            self.put(IoEvent::Copy(
                IoPlace::File(from, offset + byte),
                IoPlace::File(to, to_offset + byte),
                length,
            ));
            self.soil(to, (to_offset + byte) / size);
            if number % 16 == 15 || number + 1 == pieces.len() {
                self.flush_some();
            }
        }
        self.readers.entry(from).or_default().last = Some(last);
    }

    /// Sends a part of a file from the page cache.
    pub fn send_file(&mut self, file: u64, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let last = (offset + bytes - 1) / self.sizes.page;
        for (start, length) in self.parts(offset, bytes) {
            let page = start / self.sizes.page;
            self.bring(file, page, last - page + 1);
            self.send_where_it_lies(IoPlace::File(file, start), length, Some((file, start)));
        }
        self.readers.entry(file).or_default().last = Some(last);
    }

    /// Sends bytes of a page from where they lie, behind all packets that wait.
    fn send_where_it_lies(&mut self, at: IoPlace, length: u64, of: Option<(u64, u64)>) {
        let made = self.events.len();
        while !self.sending.is_empty() {
            self.sends_began = self.now;
            self.send_first();
        }
        self.admit(made);
        if let IoPlace::File(file, byte) = at
            && self.position(file, byte / self.sizes.page).is_none()
        {
            self.bring_one(file, byte / self.sizes.page);
        }
        let made = self.events.len();
        let mut sent = 0;
        while sent < length {
            let mut done = Vec::new();
            for _ in 0..self.sizes.coalesce {
                let packet = (length - sent).min(self.sizes.packet);
                if packet > 0 {
                    let of = of.map(|(file, byte)| (file, byte + sent));
                    done.push(self.request(SEND, false, true, &[(at.behind(sent), packet, of)]));
                }
                sent += packet;
            }
            self.events.push(IoEvent::Interrupt(SEND));
            self.events.extend(done.into_iter().map(|slot| IoEvent::Driver(false, SEND, slot)));
        }
        self.admit(made);
    }

    /// Touches a page of a mapped file.
    pub fn fault(&mut self, file: u64, page: u64, writes: bool) {
        self.bring_mapped(file, page, writes, true);
    }

    /// Touches a page that another page of the same reference pushed out.
    pub fn fault_again(&mut self, file: u64, page: u64, writes: bool) {
        self.bring_mapped(file, page, writes, false);
    }

    fn bring_mapped(&mut self, file: u64, page: u64, writes: bool, ahead: bool) {
        let bytes = if self.known.contains(&file) { 1 } else { self.sizes.page };
        self.reach(file, page * self.sizes.page + bytes);
        self.mapped.insert(MemoryPlace::File(file, page));
        if ahead {
            self.bring(file, page, 1);
        } else {
            self.bring_one(file, page);
        }
        self.readers.entry(file).or_default().last = Some(page);
        if writes {
            self.soil(file, page);
            self.stored.get_or_insert(self.now);
        }
    }

    /// Maps the first bytes of a file.
    pub fn reach_mapped(&mut self, file: u64, bytes: u64) {
        if !self.known.contains(&file) {
            self.reach(file, bytes);
        }
    }

    /// Returns whether a page is in the cache and dirty.
    #[must_use]
    pub fn has_dirty(&self, file: u64, page: u64) -> bool {
        self.is_dirty(file, page)
    }

    /// Reads from the disk directly, or writes to the disk directly.
    pub fn direct(&mut self, writes_file: bool, file: u64, offset: u64, bytes: u64, user: u64) {
        if bytes == 0 {
            return;
        }
        let size = self.sizes.page;
        self.reach(file, offset + bytes);
        let pages: Vec<u64> = (0..bytes).map(|byte| (offset + byte) / size).collect();
        self.flush_pages(file, |page| pages.contains(&page));
        for &page in &pages {
            if !writes_file {
                self.wait_for_write(|of, written| of == file && written == page);
            }
        }
        if writes_file {
            for page in unique(&pages) {
                self.drop_page(file, page);
            }
        }
        // Each byte's page on both sides: a change of either begins a new piece.
        let mut pieces: Vec<(u64, u64)> = Vec::new();
        for byte in 0..bytes {
            let begins =
                byte == 0 || (offset + byte).is_multiple_of(size) || (user + byte).is_multiple_of(size);
            if begins {
                pieces.push((byte, 0));
            }
            pieces.last_mut().expect("the first byte begins a piece").1 += 1;
        }
        let mut request: Vec<Data> = Vec::new();
        for (byte, length) in pieces {
            let at = offset + byte;
            let new_extent = at.is_multiple_of(size) && self.begins_extent(at / size);
            if !request.is_empty() && (new_extent || request.len() == self.sizes.request_pages) {
                self.disk(!writes_file, &std::mem::take(&mut request));
            }
            request.push((IoPlace::User(user + byte), length, Some((file, at))));
        }
        self.disk(!writes_file, &request);
    }

    /// Writes a file's dirty pages.
    pub fn sync_file(&mut self, file: u64) {
        self.flush_pages(file, |_| true);
        self.wait_for_write(|of, _| of == file);
    }

    /// Writes the dirty pages of a range of a file.
    pub fn sync_range(&mut self, file: u64, offset: u64, bytes: u64) {
        let pages: Vec<u64> = (0..bytes).map(|byte| (offset + byte) / self.sizes.page).collect();
        self.flush_pages(file, |page| pages.contains(&page));
        self.wait_for_write(|of, page| of == file && pages.contains(&page));
    }

    /// Writes all dirty pages.
    pub fn sync(&mut self) {
        while let Some(page) = self.oldest_dirty() {
            self.flush_around(page.file, page.page);
        }
        self.wait_for_write(|_, _| true);
    }

    /// Changes a file's size.
    pub fn truncate(&mut self, file: u64, bytes: u64) {
        let size = self.sizes.page;
        let before = self.files.insert(file, bytes).unwrap_or_default();
        let mut gone: Vec<u64> =
            self.cached.iter().filter(|p| p.file == file && p.page * size >= bytes).map(|p| p.page).collect();
        gone.sort_unstable();
        for page in gone {
            self.drop_page(file, page);
        }
        let page = bytes / size;
        let cut = (bytes..page * size + size).filter(|&byte| byte < before).count() as u64;
        if !bytes.is_multiple_of(size) && cut > 0 {
            self.bring_one(file, page);
            self.put(IoEvent::Zero(IoPlace::File(file, bytes), cut));
            self.soil(file, page);
            self.flush_some();
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

    /// Lets the first whose time has come do one thing: the disk that reads, the disk that writes, the card, the flusher.
    /// Returns false if nobody's time has come.
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

    /// Returns the pages that wait to be read, those that wait to be written, the packets that wait to be sent, and the dirty
    /// pages.
    #[must_use]
    pub fn waiting(&self) -> [usize; 4] {
        let pages = |queue: &[(u64, Vec<u64>)]| queue.iter().map(|(_, pages)| pages.len()).sum();
        let dirty = self.cached.iter().filter(|page| page.dirty.is_some()).count();
        [pages(&self.arriving), pages(&self.leaving), self.sending.iter().map(Vec::len).sum(), dirty]
    }

    /// Lets packets arrive.
    pub fn arrive(&mut self, socket: u64, bytes: u64) {
        let made = self.events.len();
        self.let_arrive(socket, bytes);
        self.admit(made);
    }

    fn let_arrive(&mut self, socket: u64, bytes: u64) {
        if bytes > 0 && self.posted.is_empty() {
            for slot in 0..self.sizes.ring {
                let buffer = self.take(0);
                self.posted.push(buffer);
                self.events.push(IoEvent::Driver(true, RECEIVE, slot));
            }
        }
        let mut left = bytes;
        while left > 0 {
            // The packets of this interrupt, which bring in what is left.
            let mut lengths = Vec::new();
            while lengths.len() < self.sizes.coalesce && left > 0 {
                let needed = left.min(self.sizes.packet);
                left -= needed;
                lengths.push(if self.sizes.backlog > 0 { self.sizes.packet } else { needed });
            }
            let packets = lengths.len();
            for &length in &lengths[self.waiting_packets().min(packets)..] {
                self.packet_arrives(length);
            }
            self.backlog_arrives();
            self.events.push(IoEvent::Interrupt(RECEIVE));
            for _ in 0..packets {
                let first = self.unseen[0].0;
                while self.unseen.first().is_some_and(|&(packet, ..)| packet == first) {
                    let (_, slot, length) = self.unseen.remove(0);
                    self.events.push(IoEvent::Driver(false, RECEIVE, slot));
                    let buffer = self.posted[slot as usize];
                    self.posted[slot as usize] = self.take(0);
                    self.events.push(IoEvent::Driver(true, RECEIVE, slot));
                    let run = self.new_run();
                    let byte = |byte| Byte { at: IoPlace::Packet(buffer, byte), run, grows: false };
                    self.sockets.entry(socket).or_default().extend((0..length).map(byte));
                }
            }
        }
        if bytes > 0 {
            self.backlog_arrives();
        }
    }

    /// Returns the number of packets in the receive ring that the driver has not seen.
    fn waiting_packets(&self) -> usize {
        self.unseen.iter().map(|&(packet, ..)| packet).collect::<BTreeSet<_>>().len()
    }

    fn backlog_arrives(&mut self) {
        while self.waiting_packets() < self.sizes.backlog {
            self.packet_arrives(self.sizes.packet);
        }
    }

    fn packet_arrives(&mut self, packet: u64) {
        let number = self.requests[RECEIVE as usize];
        let mut data = Vec::new();
        let mut rest = packet;
        let mut slot = self.slots[RECEIVE as usize];
        while rest > 0 {
            let length = rest.min(self.sizes.buffer);
            rest -= length;
            data.push((IoPlace::Packet(self.posted[slot as usize], 0), length, None));
            self.unseen.push((number, slot, length));
            slot = (slot + 1) % self.sizes.ring;
        }
        self.request(RECEIVE, true, false, &data);
    }

    /// Receives from a socket.
    pub fn receive(&mut self, socket: u64, bytes: u64, user: u64) {
        self.arrive_for(socket, bytes);
        let run = self.take_bytes(true, socket, bytes);
        self.drain(run, user);
    }

    fn arrive_for(&mut self, socket: u64, bytes: u64) {
        let waiting = self.sockets.entry(socket).or_default().len() as u64;
        self.arrive(socket, bytes.saturating_sub(waiting));
    }

    /// Sends to the network.
    pub fn send(&mut self, bytes: u64, user: u64) {
        let made = self.events.len();
        self.let_send(bytes, user);
        self.admit(made);
    }

    fn let_send(&mut self, bytes: u64, user: u64) {
        if self.sizes.send_rate.is_some() {
            self.send_later(bytes, user);
            return;
        }
        let mut sent = 0;
        while sent < bytes {
            let mut done = Vec::new();
            for _ in 0..self.sizes.coalesce {
                let packet = (bytes - sent).min(self.sizes.packet);
                let mut data = Vec::new();
                let mut taken = Vec::new();
                let mut part = 0;
                while part < packet {
                    let length = (packet - part).min(self.sizes.buffer);
                    let buffer = self.take(0);
                    self.copy(IoPlace::Packet(buffer, 0), user + sent + part, length, true);
                    data.push((IoPlace::Packet(buffer, 0), length, None));
                    taken.push(buffer);
                    part += length;
                }
                if packet > 0 {
                    done.push((self.request(SEND, false, true, &data), taken));
                }
                sent += packet;
            }
            self.events.push(IoEvent::Interrupt(SEND));
            for (slot, taken) in done {
                self.events.push(IoEvent::Driver(false, SEND, slot));
                self.free[0].extend(taken);
            }
        }
    }

    /// Puts packets into the send ring.
    fn send_later(&mut self, bytes: u64, user: u64) {
        // Each packet's first byte and the byte behind its last.
        let firsts = (0..bytes).step_by(self.sizes.packet as usize);
        let all: Vec<(u64, u64)> =
            firsts.map(|first| (first, bytes.min(first + self.sizes.packet))).collect();
        for together in all.chunks(self.sizes.coalesce) {
            let needed: usize =
                together.iter().map(|&(first, end)| (end - first).div_ceil(self.sizes.buffer) as usize).sum();
            let taken = |server: &Self| -> usize {
                server.sending.iter().flatten().map(|packet| packet.1.len()).sum()
            };
            while taken(self) + needed > self.sizes.ring as usize {
                self.sends_began = self.now;
                self.send_first();
            }
            let mut packets: Vec<Packet> = Vec::new();
            for &(first, end) in together {
                let (mut data, mut buffers, mut slots) = (Vec::new(), Vec::new(), Vec::new());
                for part in (first..end).step_by(self.sizes.buffer as usize) {
                    let length = (end - part).min(self.sizes.buffer);
                    let buffer = self.take(0);
                    self.copy(IoPlace::Packet(buffer, 0), user + part, length, true);
                    data.push((IoPlace::Packet(buffer, 0), length, None));
                    buffers.push(buffer);
                    slots.push(self.slots[SEND as usize]);
                    self.slots[SEND as usize] = (self.slots[SEND as usize] + 1) % self.sizes.ring;
                }
                self.events.extend(slots.iter().map(|&slot| IoEvent::Driver(true, SEND, slot)));
                packets.push((self.requests[SEND as usize], slots, data, buffers));
                self.requests[SEND as usize] += 1;
            }
            if self.sending.is_empty() {
                self.sends_began = self.now;
            }
            self.sending.push(packets);
        }
    }

    /// Lets the card send the packets up to the next interrupt.
    fn send_first(&mut self) {
        let packets = self.sending.remove(0);
        for (number, slots, data, _) in &packets {
            self.serve_request(SEND, *number, false, slots, data);
        }
        self.events.push(IoEvent::Interrupt(SEND));
        for (_, slots, _, buffers) in packets {
            self.events.push(IoEvent::Driver(false, SEND, slots[slots.len() - 1]));
            self.free[0].extend(buffers);
        }
    }

    /// Writes into a pipe.
    pub fn write_pipe(&mut self, pipe: u64, bytes: u64, user: u64) {
        let made = self.events.len();
        let mut done = 0;
        while done < bytes {
            let (page, first, run) = match self.pipes.entry(pipe).or_default().back() {
                Some(&Byte { at: IoPlace::Pipe(page, byte), run, grows: true })
                    if byte + 1 < self.sizes.page =>
                {
                    (page, byte + 1, run)
                }
                _ => (self.take(1), 0, self.new_run()),
            };
            let length = (self.sizes.page - first).min(bytes - done);
            self.copy(IoPlace::Pipe(page, first), user + done, length, true);
            let byte = |byte| Byte { at: IoPlace::Pipe(page, byte), run, grows: true };
            self.pipes.entry(pipe).or_default().extend((first..first + length).map(byte));
            done += length;
        }
        self.admit(made);
    }

    /// Reads from a pipe, and returns how many bytes were in the pipe.
    pub fn read_pipe(&mut self, pipe: u64, bytes: u64, user: u64) -> u64 {
        let taken = self.take_bytes(false, pipe, bytes);
        let here = taken.len() as u64;
        self.drain(taken, user);
        here
    }

    /// Takes bytes out of a pipe that go nowhere, and returns how many were in the pipe.
    pub fn drain_pipe(&mut self, pipe: u64, bytes: u64) -> u64 {
        let taken = self.take_bytes(false, pipe, bytes);
        let runs = runs_of(&taken);
        for (number, run) in runs.iter().enumerate() {
            self.free_unused(run, &runs[number + 1..]);
        }
        taken.len() as u64
    }

    /// Moves bytes of a file into a pipe.
    pub fn splice_from_file(&mut self, file: u64, offset: u64, pipe: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.reach(file, offset + bytes);
        let last = (offset + bytes - 1) / self.sizes.page;
        for (start, length) in self.parts(offset, bytes) {
            let page = start / self.sizes.page;
            self.bring(file, page, last - page + 1);
            let run = self.new_run();
            let byte = |byte| Byte { at: IoPlace::File(file, byte), run, grows: false };
            self.pipes.entry(pipe).or_default().extend((start..start + length).map(byte));
        }
        self.readers.entry(file).or_default().last = Some(last);
    }

    /// Moves bytes of a pipe into a file, and returns how many were in the pipe.
    pub fn splice_to_file(&mut self, pipe: u64, file: u64, offset: u64, bytes: u64) -> u64 {
        let taken = self.take_bytes(false, pipe, bytes);
        let here = taken.len() as u64;
        let mut target = offset;
        let mut ready_page = None;
        let runs = runs_of(&taken);
        for (number, run) in runs.iter().enumerate() {
            // Pieces end at pages of both sides.
            let mut pieces: Vec<Vec<Byte>> = Vec::new();
            for (distance, &byte) in run.iter().enumerate() {
                let begins =
                    self.begins_page(byte.at) || (target + distance as u64).is_multiple_of(self.sizes.page);
                if distance == 0 || begins {
                    pieces.push(Vec::new());
                }
                pieces.last_mut().expect("the first byte begins a piece").push(byte);
            }
            for piece in pieces {
                let exist = loop {
                    let exist = self.make_present(&piece);
                    let page = target / self.sizes.page;
                    if ready_page == Some(page) && self.position(file, page).is_some() {
                        self.keep(file, page);
                    } else {
                        // All bytes of the page that the call writes.
                        let written = target..offset + here;
                        let whole = written.filter(|byte| byte / self.sizes.page == page).count() as u64;
                        self.prepare(file, target, whole);
                        ready_page = Some(page);
                    }
                    let left = match piece[0].at {
                        IoPlace::File(file, byte) => self.position(file, byte / self.sizes.page).is_none(),
                        _ => false,
                    };
                    if exist == 0 || !left {
                        break exist;
                    }
                };
                self.reach(file, target + piece.len() as u64);
                if exist > 0 {
                    self.put(IoEvent::Copy(piece[0].at, IoPlace::File(file, target), exist));
                }
                let rest = piece.len() as u64 - exist;
                if rest > 0 {
                    self.put(IoEvent::Zero(IoPlace::File(file, target + exist), rest));
                }
                self.soil(file, target / self.sizes.page);
                target += piece.len() as u64;
            }
            self.free_unused(run, &runs[number + 1..]);
        }
        self.flush_some();
        here
    }

    /// Moves bytes of a socket into a pipe.
    pub fn splice_from_socket(&mut self, socket: u64, pipe: u64, bytes: u64) {
        self.arrive_for(socket, bytes);
        let taken = self.take_bytes(true, socket, bytes);
        self.append(pipe, &taken);
    }

    /// Sends bytes of a pipe, and returns how many were in the pipe.
    pub fn splice_to_socket(&mut self, pipe: u64, bytes: u64) -> u64 {
        let taken = self.take_bytes(false, pipe, bytes);
        let runs = runs_of(&taken);
        for (number, run) in runs.iter().enumerate() {
            let exist = self.make_present(run);
            if exist > 0 {
                let of = match run[0].at {
                    IoPlace::File(file, byte) => Some((file, byte)),
                    _ => None,
                };
                self.send_where_it_lies(run[0].at, exist, of);
            }
            self.free_unused(run, &runs[number + 1..]);
        }
        taken.len() as u64
    }

    /// Moves bytes of a pipe into another, or puts them there, too. Returns how many were in the pipe.
    pub fn pass_on(&mut self, stay: bool, from: u64, to: u64, bytes: u64) -> u64 {
        let taken = if stay {
            let queue = self.pipes.entry(from).or_default();
            queue.iter().copied().take(bytes as usize).collect()
        } else {
            self.take_bytes(false, from, bytes)
        };
        self.append(to, &taken);
        taken.len() as u64
    }

    /// Closes a socket.
    pub fn close_socket(&mut self, socket: u64) {
        let all: Vec<Byte> = self.sockets.remove(&socket).unwrap_or_default().into();
        self.free_in_order(&all);
    }

    /// Closes a pipe.
    pub fn close_pipe(&mut self, pipe: u64) {
        let all: Vec<Byte> = self.pipes.remove(&pipe).unwrap_or_default().into();
        self.free_in_order(&all);
    }

    fn new_run(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }

    /// Takes the first bytes out of a socket's queue, or a pipe's.
    fn take_bytes(&mut self, of_socket: bool, number: u64, bytes: u64) -> Vec<Byte> {
        let queues = if of_socket { &mut self.sockets } else { &mut self.pipes };
        let queue = queues.entry(number).or_default();
        let here = queue.len().min(bytes as usize);
        queue.drain(..here).collect()
    }

    /// Puts bytes behind those of a pipe.
    fn append(&mut self, pipe: u64, bytes: &[Byte]) {
        for run in runs_of(bytes) {
            let number = self.new_run();
            let moved = run.iter().map(|&byte| Byte { run: number, grows: false, ..byte });
            self.pipes.entry(pipe).or_default().extend(moved);
        }
    }

    /// Brings the page of a run into the cache, if its file has bytes of the run. Returns how many it has.
    fn make_present(&mut self, run: &[Byte]) -> u64 {
        let IoPlace::File(file, first) = run[0].at else { return run.len() as u64 };
        let end = *self.files.entry(file).or_default();
        let exist = (first..first + run.len() as u64).filter(|&byte| byte < end).count() as u64;
        let page = first / self.sizes.page;
        if exist > 0 {
            self.keep(file, page);
        }
        exist
    }

    /// Returns whether a byte is the first of a page of memory.
    fn begins_page(&self, at: IoPlace) -> bool {
        match at {
            IoPlace::Packet(_, byte) | IoPlace::Pipe(_, byte) | IoPlace::File(_, byte) => {
                byte.is_multiple_of(self.sizes.page)
            }
            IoPlace::User(_) | IoPlace::Descriptor(..) => unreachable!("such bytes do not wait"),
        }
    }

    /// Copies bytes that were taken out of a queue to the user.
    fn drain(&mut self, taken: Vec<Byte>, user: u64) {
        let mut done = 0;
        let runs = runs_of(&taken);
        for (number, run) in runs.iter().enumerate() {
            let exist = self.make_present(run);
            let made = self.events.len();
            self.copy(run[0].at, user + done, exist, false);
            for (start, length) in self.parts(user + done + exist, run.len() as u64 - exist) {
                self.events.push(IoEvent::Zero(IoPlace::User(start), length));
            }
            self.admit(made);
            done += run.len() as u64;
            self.free_unused(run, &runs[number + 1..]);
        }
    }

    /// Frees the buffers of bytes that have left their queue, in their order.
    fn free_in_order(&mut self, bytes: &[Byte]) {
        let runs = runs_of(bytes);
        for (number, run) in runs.iter().enumerate() {
            self.free_unused(run, &runs[number + 1..]);
        }
    }

    /// Frees the buffer of a run that was taken, if no byte that waits is in the buffer, and none of the runs that were taken
    /// with it and come later.
    fn free_unused(&mut self, run: &[Byte], later: &[Vec<Byte>]) {
        let (pool, buffer) = match run[0].at {
            IoPlace::Packet(buffer, _) => (0, buffer),
            IoPlace::Pipe(buffer, _) => (1, buffer),
            _ => return,
        };
        let is_there = |byte: &Byte| match byte.at {
            IoPlace::Packet(other, _) => (pool, buffer) == (0, other),
            IoPlace::Pipe(other, _) => (pool, buffer) == (1, other),
            _ => false,
        };
        let waits = self.sockets.values().chain(self.pipes.values()).flatten().any(is_there);
        if !waits && !later.iter().flatten().any(is_there) {
            self.free[pool].push(buffer);
        }
    }

    fn take(&mut self, pool: usize) -> u32 {
        self.free[pool].pop().unwrap_or_else(|| {
            self.made[pool] += 1;
            self.made[pool] - 1
        })
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

    fn reach(&mut self, file: u64, bytes: u64) {
        let size = self.files.entry(file).or_default();
        *size = bytes.max(*size);
    }

    /// Returns whether the page before this page lies elsewhere on the disk.
    fn begins_extent(&self, page: u64) -> bool {
        page.is_multiple_of(self.sizes.extent_pages)
    }

    fn position(&self, file: u64, page: u64) -> Option<usize> {
        self.cached.iter().position(|cached| (cached.file, cached.page) == (file, page))
    }

    fn touch(&mut self, file: u64, page: u64) {
        let place = self.position(file, page).expect("the page is cached");
        let page = self.cached.remove(place);
        self.cached.push(page);
    }

    fn is_dirty(&self, file: u64, page: u64) -> bool {
        self.position(file, page).is_some_and(|place| self.cached[place].dirty.is_some())
    }

    fn soil(&mut self, file: u64, page: u64) {
        let place = self.position(file, page).expect("the page is cached");
        self.writes += 1;
        self.cached[place].dirty.get_or_insert((self.writes, self.now));
    }

    fn oldest_dirty(&self) -> Option<Page> {
        self.cached.iter().copied().filter(|page| page.dirty.is_some()).min_by_key(|page| page.dirty)
    }

    fn drop_page(&mut self, file: u64, page: u64) {
        self.wait_for(file, page);
        self.wait_for_write(|of, written| (of, written) == (file, page));
        if let Some(place) = self.position(file, page) {
            self.cached.remove(place);
            self.lose_page(MemoryPlace::File(file, page));
            self.events.push(IoEvent::Drop(file, page));
        }
    }

    /// Puts a page into the cache; the oldest page leaves a full cache.
    fn join(&mut self, file: u64, page: u64) {
        while self.cached.len() >= self.sizes.cache_pages {
            let oldest = self.cached[0];
            if oldest.dirty.is_some() {
                self.flush_around(oldest.file, oldest.page);
            }
            self.drop_page(oldest.file, oldest.page);
        }
        self.cached.push(Page { file, page, dirty: None });
    }

    /// Brings a page in, with read-ahead.
    fn bring(&mut self, file: u64, page: u64, needed: u64) {
        let most = self.sizes.read_ahead;
        let mut reader = self.readers.remove(&file).unwrap_or_default();
        let cached = self.position(file, page).is_some();
        self.looked_up[usize::from(!cached)] += 1;
        let end = reader.window.last().map(|last| last + 1);
        let grown = |pages: u64| match pages {
            pages if pages < most / 16 => 4 * pages,
            pages if pages <= most / 2 => 2 * pages,
            _ => most,
        };
        let mut asked: Vec<u64> = Vec::new();
        if cached {
            self.wait_for(file, page);
            self.touch(file, page);
        }
        let next = if cached { reader.marker == Some(page) } else { page != 0 && end == Some(page) };
        let follows = reader.last.is_some_and(|last| page == last || page == last + 1);
        if next {
            let first = end.expect("a window was read");
            let size = grown(reader.window.len() as u64).min(most);
            reader.window = (first..first + size).collect();
            reader.marker = Some(first);
        } else if !cached && (page == 0 || needed > most || follows) {
            let rounded = needed.next_power_of_two();
            let size = match rounded {
                _ if needed >= most => most,
                rounded if rounded <= most / 32 => 4 * rounded,
                rounded if rounded <= most / 4 => 2 * rounded,
                rounded => rounded,
            };
            let size = size.min(most);
            reader.window = (page..page + size).collect();
            reader.marker = Some(if size > needed { page + needed } else { page });
        } else if !cached {
            asked = (page..page + needed.min(most)).collect();
        }
        if asked.is_empty() && (next || !cached) {
            if reader.marker == Some(page) && reader.window[0] == page {
                let size = reader.window.len() as u64;
                let more = grown(size).min(most);
                let all = if size + more <= most { size + more } else { most };
                let ahead = if size + more <= most { more } else { most / 2 };
                reader.window = (page..page + all).collect();
                reader.marker = (ahead > 0).then(|| page + all - ahead);
            }
            asked.clone_from(&reader.window);
        }
        self.readers.insert(file, reader);
        self.fetch(file, asked);
        self.wait_for(file, page);
        if self.position(file, page).is_none() {
            self.bring_one(file, page);
        }
    }

    /// Brings a page in without read-ahead.
    fn bring_one(&mut self, file: u64, page: u64) {
        let cached = self.position(file, page).is_some();
        self.looked_up[usize::from(!cached)] += 1;
        if cached {
            self.touch(file, page);
        } else {
            self.fetch(file, vec![page]);
        }
        self.wait_for(file, page);
    }

    /// Keeps a page that the call has found before. A page that has left meanwhile is brought in again.
    fn keep(&mut self, file: u64, page: u64) {
        if self.position(file, page).is_some() {
            self.touch(file, page);
            self.wait_for(file, page);
        } else {
            self.bring_one(file, page);
        }
    }

    /// Reads the pages that are missing and exist, in requests of neighbours.
    fn fetch(&mut self, file: u64, pages: Vec<u64>) {
        let mut run: Vec<u64> = Vec::new();
        for page in pages {
            if page * self.sizes.page >= self.files[&file] {
                break;
            }
            let missing = self.position(file, page).is_none();
            if !missing || run.len() == self.sizes.request_pages || self.begins_extent(page) {
                self.ask_disk(file, &run);
                run.clear();
            }
            if missing {
                self.join(file, page);
                run.push(page);
            }
        }
        self.ask_disk(file, &run);
    }

    /// Asks the disk for pages. It serves the request at once, or in its turn.
    fn ask_disk(&mut self, file: u64, pages: &[u64]) {
        if self.sizes.disk_rate.is_none() {
            self.transfer_pages(true, file, pages);
        } else if !pages.is_empty() {
            if self.arriving.is_empty() {
                self.disk_began = self.now;
            }
            self.arriving.push((file, pages.to_vec()));
        }
    }

    fn serve_first(&mut self) {
        let (file, pages) = self.arriving.remove(0);
        self.transfer_pages(true, file, &pages);
    }

    /// Lets the disk serve requests until a page is here.
    fn wait_for(&mut self, file: u64, page: u64) {
        while self.arriving.iter().any(|(of, pages)| *of == file && pages.contains(&page)) {
            self.disk_began = self.now;
            self.serve_first();
        }
    }

    /// Asks the disk to write pages, which are clean from now on. It serves the request at once, or in its turn.
    fn write_pages(&mut self, file: u64, pages: &[u64]) {
        if self.sizes.disk_write_rate.is_none() || pages.is_empty() {
            self.transfer_pages(false, file, pages);
            return;
        }
        self.wait_for_write(|of, page| of == file && pages.contains(&page));
        for &page in pages {
            let place = self.position(file, page).expect("the page is cached");
            self.cached[place].dirty = None;
        }
        if self.leaving.is_empty() {
            self.writes_began = self.now;
        }
        self.leaving.push((file, pages.to_vec()));
    }

    /// Lets the disk serve writes until it has served those of all pages that `chosen` names.
    fn wait_for_write(&mut self, chosen: impl Fn(u64, u64) -> bool) {
        while self.leaving.iter().any(|(file, pages)| pages.iter().any(|&page| chosen(*file, page))) {
            self.writes_began = self.now;
            self.serve_first_write();
        }
    }

    fn serve_first_write(&mut self) {
        let (file, pages) = self.leaving.remove(0);
        let size = self.sizes.page;
        let data =
            pages.iter().map(|&page| (IoPlace::File(file, page * size), size, Some((file, page * size))));
        self.disk(false, &data.collect::<Vec<_>>());
    }

    /// Writes the pages around a dirty one: first as many as possible before it, then behind it.
    fn flush_around(&mut self, file: u64, page: u64) {
        let most = self.sizes.request_pages;
        let mut pages = VecDeque::from([page]);
        while pages.len() < most && !self.begins_extent(pages[0]) && self.is_dirty(file, pages[0] - 1) {
            pages.push_front(pages[0] - 1);
        }
        let mut next = page + 1;
        while pages.len() < most && !self.begins_extent(next) && self.is_dirty(file, next) {
            pages.push_back(next);
            next += 1;
        }
        self.write_pages(file, pages.make_contiguous());
    }

    /// Writes the dirty pages of a file that `chosen` names, in requests of neighbours.
    fn flush_pages(&mut self, file: u64, chosen: impl Fn(u64) -> bool) {
        let mut dirty: Vec<u64> = self
            .cached
            .iter()
            .filter(|page| page.file == file && page.dirty.is_some() && chosen(page.page))
            .map(|page| page.page)
            .collect();
        dirty.sort_unstable();
        let mut run: Vec<u64> = Vec::new();
        for page in dirty {
            if run.last().is_some_and(|last| last + 1 != page)
                || run.len() == self.sizes.request_pages
                || self.begins_extent(page)
            {
                self.write_pages(file, &run);
                run.clear();
            }
            run.push(page);
        }
        self.write_pages(file, &run);
    }

    fn flush_some(&mut self) {
        self.stored = None;
        let dirty = |server: &Self| server.cached.iter().filter(|page| page.dirty.is_some()).count();
        if dirty(self) > self.sizes.dirty_pages {
            while dirty(self) > self.sizes.dirty_pages / 2 {
                let page = self.oldest_dirty().expect("a page is dirty");
                self.flush_around(page.file, page.page);
            }
        }
    }

    fn transfer_pages(&mut self, reads_file: bool, file: u64, pages: &[u64]) {
        if pages.is_empty() {
            return;
        }
        let size = self.sizes.page;
        let data: Vec<_> = pages
            .iter()
            .map(|&page| (IoPlace::File(file, page * size), size, Some((file, page * size))))
            .collect();
        for &page in pages {
            let place = self.position(file, page).expect("the page is cached");
            self.cached[place].dirty = None;
        }
        self.disk(reads_file, &data);
    }

    fn disk(&mut self, writes: bool, data: &[Data]) {
        let pages: Vec<MemoryPlace> = data.iter().filter_map(|&(at, ..)| self.page_at(at)).collect();
        self.make_room(&pages);
        let last = self.request(DISK, writes, true, data);
        self.events.push(IoEvent::Interrupt(DISK));
        self.events.push(IoEvent::Driver(false, DISK, last));
    }

    /// References pages of memory by the program.
    pub fn refer(&mut self, pages: &[MemoryPlace]) {
        self.mapped.extend(pages);
        self.make_room(pages);
    }

    /// Lets a page of memory die.
    pub fn lose_page(&mut self, page: MemoryPlace) {
        let mapped = self.mapped.remove(&page);
        let reuses = self.sizes.memory.is_some_and(|(_, reuses)| reuses);
        if reuses && !mapped {
            self.memory.retain(|held| *held != Some(page));
        } else if let Some(held) = self.memory.iter_mut().find(|held| **held == Some(page)) {
            *held = None;
        }
    }

    fn page_at(&mut self, at: IoPlace) -> Option<MemoryPlace> {
        let size = self.sizes.page;
        Some(match at {
            IoPlace::User(byte) => {
                let page = self.named.get(&(byte / size)).copied().unwrap_or(MemoryPlace::Own(byte / size));
                self.mapped.insert(page);
                page
            }
            IoPlace::File(file, byte) => MemoryPlace::File(file, byte / size),
            IoPlace::Packet(buffer, byte) => {
                MemoryPlace::Packets((u64::from(buffer) * self.sizes.buffer + byte) / size)
            }
            IoPlace::Pipe(page, _) => MemoryPlace::Pipes(page.into()),
            IoPlace::Descriptor(..) => return None,
        })
    }

    /// Emits an event once memory has room for its pages.
    fn put(&mut self, event: IoEvent) {
        let places = match event {
            IoEvent::Copy(from, to, _) => vec![from, to],
            IoEvent::Zero(at, _) | IoEvent::Device { at, .. } => vec![at],
            _ => vec![],
        };
        let pages: Vec<MemoryPlace> = places.into_iter().filter_map(|at| self.page_at(at)).collect();
        self.make_room(&pages);
        self.events.push(event);
    }

    /// Emits the events from number `made` on once more, each when memory has room for its pages.
    fn admit(&mut self, made: usize) {
        for event in self.events.split_off(made) {
            self.put(event);
        }
    }

    /// Puts pages to the young end of memory. Old pages are reclaimed until all have room.
    fn make_room(&mut self, pages: &[MemoryPlace]) {
        let Some((room, _)) = self.sizes.memory else { return };
        loop {
            let mut missing = BTreeSet::new();
            for &page in pages {
                match self.memory.iter().position(|&held| held == Some(page)) {
                    Some(at) => {
                        let held = self.memory.remove(at);
                        self.memory.push(held);
                    }
                    None => drop(missing.insert(page)),
                }
            }
            if missing.is_empty() {
                return;
            }
            if self.memory.len() + missing.len() <= room {
                for &page in pages {
                    self.memory.retain(|held| *held != Some(page));
                    self.memory.push(Some(page));
                }
                return;
            }
            self.reclaim();
        }
    }

    /// Reclaims the oldest page of memory. A page of the cache that the disk must read or write first is young then.
    fn reclaim(&mut self) {
        let oldest = self.memory[0];
        let Some(MemoryPlace::File(file, page)) = oldest else {
            self.memory.remove(0);
            return;
        };
        if self.position(file, page).is_none() {
            self.memory.remove(0);
            return;
        }
        self.wait_for(file, page);
        if self.is_dirty(file, page) {
            self.flush_around(file, page);
        }
        self.wait_for_write(|of, written| (of, written) == (file, page));
        if self.memory[0] == oldest {
            self.drop_page(file, page);
        }
    }

    fn request(&mut self, ring: u8, writes: bool, posts: bool, data: &[Data]) -> u32 {
        let number = ring as usize;
        let first = self.slots[number];
        let slots: Vec<u32> = (0..data.len() as u32).map(|slot| (first + slot) % self.sizes.ring).collect();
        let last = slots[slots.len() - 1];
        self.slots[number] = (last + 1) % self.sizes.ring;
        let request = self.requests[number];
        self.requests[number] += 1;
        if posts {
            self.events.extend(slots.iter().map(|&slot| IoEvent::Driver(true, ring, slot)));
        }
        self.serve_request(ring, request, writes, &slots, data);
        last
    }

    /// Lets a device serve a request.
    fn serve_request(&mut self, ring: u8, request: u64, writes: bool, slots: &[u32], data: &[Data]) {
        let descriptor = |slot: u32, writes: bool, bytes: u64| IoEvent::Device {
            ring,
            request,
            writes,
            at: IoPlace::Descriptor(ring, slot),
            bytes,
            of: None,
        };
        // The device fetches neighbours within a line of four descriptors at once.
        let mut fetches: Vec<Vec<u32>> = Vec::new();
        for &slot in slots {
            match fetches.last_mut() {
                Some(fetch) if fetch[0] / 4 == slot / 4 && fetch[fetch.len() - 1] + 1 == slot => {
                    fetch.push(slot);
                }
                _ => fetches.push(vec![slot]),
            }
        }
        for fetch in fetches {
            self.events.push(descriptor(fetch[0], false, 16 * fetch.len() as u64));
        }
        for &(at, bytes, of) in data {
            self.events.push(IoEvent::Device { ring, request, writes, at, bytes, of });
        }
        self.events.push(descriptor(slots[slots.len() - 1], true, 16));
    }
}

fn unique(pages: &[u64]) -> Vec<u64> {
    let mut pages = pages.to_vec();
    pages.dedup();
    pages
}

/// Cuts bytes where their run changes.
fn runs_of(bytes: &[Byte]) -> Vec<Vec<Byte>> {
    bytes.chunk_by(|before, behind| before.run == behind.run).map(<[Byte]>::to_vec).collect()
}
