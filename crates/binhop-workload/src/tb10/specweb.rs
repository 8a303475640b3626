//! specweb is a web server that puts pages together from many small items (TB10 §4.1: SPECweb2005).
//!
//! A request arrives on a socket. The server looks up several hundred items in a cache in its memory: the bucket's
//! head, then the item, whose key is compared. It notes the time of use in each item that it finds. The page goes out
//! in small packets. The server logs each request; the log is written in pieces of 10 KB that bypass the page cache.
//! Some requests ask for a static file, which the page cache holds or the disk reads.
//!
//! Sizes: the cache has 2,097,152 items in buckets of one item each. Four fifths of the items are longer than one
//! line, and one key in seven is not in the cache. Items and buckets take 272 MiB.

use super::{FileInfo, linux};
use crate::address_space::{Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

pub(crate) const IMAGE: Image =
    Image { name: "specweb", segment: 33, text: 256 << 10, data: 64 << 10, initialised: 16 << 10 };

const SOCKET: FileInfo = FileInfo { id: 1, path: "socket:[1]", bytes: 0, direct: false };
const LOG: FileInfo = FileInfo { id: 2, path: "/log/access", bytes: 0, direct: true };
const STATIC: FileInfo = FileInfo { id: 3, path: "/www/static", bytes: 2 << 30, direct: false };
pub(crate) const FILES: &[FileInfo] = &[SOCKET, LOG, STATIC];

/// The keys that requests ask for, and the items: the keys below this number.
const KEYS: u64 = ITEMS / 6 * 7;
const ITEMS: u64 = 1 << 21;
/// The bytes of an item's place: its header and key are in the first line.
const ITEM: u64 = 128;
const HEAD: u64 = 8;
/// The items of a page.
const LOOKUPS: u64 = 816;
/// The items of a step.
const STEP: u64 = 204;

/// The bytes of a request's packet, and of the packets of an answer. One request in six has a second packet, and one
/// answer in three has a third packet.
const REQUEST: u32 = 160;
const ANSWER: u64 = 300;
/// The bytes of a line of the log, and of a write of the log.
const ENTRY: u64 = 448;
const LOGGED: u64 = 10 << 10;
/// The requests between two requests for a static file.
const STATIC_EVERY: u64 = 228;

const SERVE: u64 = TEXT + 0x4000;
const LOOK_UP: u64 = TEXT + 0x6000;
const COPY: u64 = TEXT + 0x7000;
const ANSWERS: u64 = TEXT + 0x8000;
/// The buffers of a request and of an answer.
const BUFFER: u64 = crate::address_space::DATA + 0x4000;
const PAGE_BUFFER: u64 = crate::address_space::DATA + 0x6000;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Server::new(draws, cpu))
}

struct Server {
    draws: DataRng,
    heads: u64,
    items: u64,
    log: u64,
    /// The bytes of the log that are not written yet, and the bytes that are written.
    logged: u64,
    written: u64,
    requests: u64,
    /// The lookups that are left of the present request.
    left: u64,
    file: u64,
    /// The number of lookups that found each item.
    used: Vec<u32>,
}

impl Server {
    fn new(draws: DataRng, cpu: &mut Cpu) -> Self {
        let page = crate::address_space::PAGE;
        // A transfer that bypasses the page cache begins at a page, as the heap does.
        Self {
            draws,
            log: cpu.sbrk((LOGGED + ENTRY).next_multiple_of(page)),
            heads: cpu.sbrk(ITEMS * HEAD),
            items: cpu.sbrk(ITEMS * ITEM),
            file: cpu.sbrk(2 * page),
            logged: 0,
            written: 0,
            requests: 0,
            left: 0,
            used: vec![0; ITEMS as usize],
        }
    }

    /// Receives a request, and parses it.
    fn receive(&mut self, cpu: &mut Cpu) {
        cpu.jump(SERVE);
        let packets = 1 + u32::from(self.requests.is_multiple_of(6));
        for _ in 0..packets {
            cpu.run(30);
            cpu.syscall(linux::RECVFROM, BUFFER, REQUEST, Some((SOCKET.id, 0)));
        }
        for byte in 0..u64::from(REQUEST) / 4 {
            cpu.jump(SERVE + 0x80);
            cpu.run(3);
            cpu.load(BUFFER + 4 * byte, 4);
            cpu.run(5);
        }
        self.left = LOOKUPS;
    }

    /// Looks an item up, and copies the first words of its value into the page.
    fn look_up(&mut self, cpu: &mut Cpu) {
        let key = self.draws.below(KEYS);
        cpu.jump(LOOK_UP);
        cpu.run(12);
        // Keys that are not in the cache share the buckets of other keys.
        let bucket = key % ITEMS;
        cpu.load(self.heads + HEAD * scattered(bucket, HEADS), 8);
        cpu.run(3);
        let item = self.items + ITEM * scattered(bucket, PLACES);
        cpu.load(item, 8);
        cpu.run(2);
        cpu.load(item + 16, 8);
        cpu.run(3);
        if key >= ITEMS {
            return;
        }
        self.used[bucket as usize] += 1;
        cpu.jump(LOOK_UP + 0x80);
        cpu.run(2);
        cpu.store(item + 8, 8);
        cpu.jump(COPY);
        let words = if is_long(bucket) { 5 } else { 3 };
        for word in 0..words {
            cpu.run(2);
            cpu.load(item + 40 + 8 * word, 8);
            cpu.store(PAGE_BUFFER + 8 * (self.left % 4 * 8 + word), 8);
        }
        cpu.run(4);
    }

    /// Sends the page, and logs the request.
    fn answer(&mut self, cpu: &mut Cpu) {
        cpu.jump(ANSWERS);
        let packets = 2 + u64::from(self.requests.is_multiple_of(3));
        for _ in 0..packets {
            cpu.run(24);
            cpu.syscall(linux::SENDTO, PAGE_BUFFER, ANSWER as u32, Some((SOCKET.id, 0)));
        }
        for word in 0..ENTRY / 8 {
            cpu.jump(ANSWERS + 0x100);
            cpu.run(3);
            cpu.load(BUFFER + 8 * (word % 20), 8);
            cpu.store(self.log + self.logged + 8 * word, 8);
        }
        self.logged += ENTRY;
        if self.logged >= LOGGED {
            cpu.run(9);
            let file = Some((LOG.id, self.written));
            cpu.syscall(linux::PWRITE, self.log, LOGGED as u32, file);
            self.written += LOGGED;
            self.logged -= LOGGED;
        }
        self.requests += 1;
        if self.requests.is_multiple_of(STATIC_EVERY) {
            self.send_file(cpu);
        }
    }

    /// Reads a static file of one or two pages, and sends it.
    fn send_file(&mut self, cpu: &mut Cpu) {
        let page = crate::address_space::PAGE;
        let pages = if self.draws.below(4) == 0 { 1 } else { 2 };
        let offset = 2 * page * self.draws.below(STATIC.bytes / (2 * page));
        cpu.jump(ANSWERS + 0x200);
        cpu.run(40);
        cpu.syscall(linux::PREAD, self.file, (pages * page) as u32, Some((STATIC.id, offset)));
        for piece in 0..(pages * page).div_ceil(ANSWER) {
            let bytes = ANSWER.min(pages * page - piece * ANSWER);
            cpu.run(12);
            let at = self.file + piece * ANSWER;
            cpu.syscall(linux::SENDTO, at, bytes as u32, Some((SOCKET.id, 0)));
        }
    }
}

impl Program for Server {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if self.left == 0 {
            self.receive(cpu);
        }
        for _ in 0..STEP.min(self.left) {
            self.look_up(cpu);
            self.left -= 1;
        }
        if self.left == 0 {
            self.answer(cpu);
        }
        Status::Ready
    }
}

/// The factors that scatter the heads of buckets, and the places of items. The factors are odd, so that no two heads,
/// and no two items, share a place.
const HEADS: u64 = 0x9e37_79b1;
const PLACES: u64 = 0x85eb_ca6b;

/// Returns the number of a bucket's place. Neighbouring keys lie far from each other.
fn scattered(bucket: u64, factor: u64) -> u64 {
    bucket.wrapping_mul(factor) % ITEMS
}

/// Returns whether an item's value goes on in its second line: four items in five.
fn is_long(bucket: u64) -> bool {
    !bucket.is_multiple_of(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn six_of_seven_lookups_find_their_item() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 0));
        let mut server = Server::new(DataRng::new(5, 0), &mut cpu);
        while server.requests < 100 {
            cpu.rows.clear();
            server.step(&mut cpu);
            cpu.finish_step();
        }
        let found: u64 = server.used.iter().map(|&times| u64::from(times)).sum();
        let lookups = 100 * LOOKUPS;
        assert!(found.abs_diff(lookups / 7 * 6) < lookups / 100, "{found} of {lookups}");
        assert_eq!(server.written + server.logged, 100 * ENTRY);
    }
}
