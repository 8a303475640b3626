//! `World` follows the bytes: every byte that a call writes has a number of its own, and the steps move these numbers
//! between the user's memory, the kernel's, the disk and the network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use binhop_os::io::{IoConfig, IoStep, Location, RingId, UserPage};

use super::{Call, SPLICED, mapped_pages, place};
use binhop_oracle::io::IoPlace;

/// `Piped` is a byte that waits in a pipe: a number, or the number that a byte of a file has when it is read.
#[derive(Clone, Copy, Debug)]
enum Piped {
    Number(u64),
    Of(u64, u64),
}

#[derive(Debug, Default)]
pub(super) struct World {
    page: u64,
    /// The file whose length was known before the first call.
    known: Option<u64>,
    /// The user's pages that lie in mapped files.
    mapped: BTreeMap<u64, UserPage>,
    /// The numbers in memory, by piece of memory. A byte that is absent holds garbage.
    memory: BTreeMap<IoPlace, u64>,
    /// The numbers on the disk, by file and byte. A byte that is absent is zero.
    disk: BTreeMap<(u64, u64), u64>,
    /// The numbers in files, as a user sees them.
    files: BTreeMap<u64, Vec<u64>>,
    pipes: BTreeMap<u64, VecDeque<Piped>>,
    /// The descriptors that the driver has written and the device has not fetched.
    descriptors: BTreeSet<(RingId, u32)>,
    /// The bytes of the buffers in the receive ring that the driver has not seen.
    ring: VecDeque<Vec<u64>>,
    /// The bytes of sockets that the driver has seen.
    sockets: BTreeMap<u64, VecDeque<u64>>,
    /// The bytes that are to be sent, in order.
    unsent: VecDeque<u64>,
    /// True if a call sends its bytes at once.
    sends_at_once: bool,
    /// The numbers of the bytes that a call must leave in the user's memory, from its first byte on.
    expected: Vec<u64>,
    /// The bytes of a file that the present call copies into the page cache, from several pieces. The page of such a
    /// byte may be written to the disk, to make room, before the byte is there; then the page is written again.
    copied: Option<(u64, Range<u64>)>,
    /// The socket for which the driver sees packets.
    socket: u64,
    /// The last number given.
    last: u64,
}

/// The value of a byte that was never written.
const GARBAGE: u64 = u64::MAX;

impl World {
    pub(super) fn new(config: &IoConfig) -> Self {
        let sends_at_once = config.send_rate.is_none();
        Self { page: config.page, sends_at_once, mapped: mapped_pages(config), ..Self::default() }
    }

    /// Notes that a file has a length before the first call.
    pub(super) fn know(&mut self, file: u64, bytes: u64) {
        self.known = Some(file);
        self.file(file, bytes);
    }

    /// Returns how many bytes of a page a file has at least, if the page is touched in a mapping.
    fn mapped_bytes(&self, file: u64) -> u64 {
        if self.known == Some(file) { 1 } else { self.page }
    }

    fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Writes fresh numbers into the user's buffer, and returns them.
    fn user_writes(&mut self, user: u64, bytes: u64) -> Vec<u64> {
        let numbers: Vec<u64> = (0..bytes).map(|_| self.fresh()).collect();
        for (byte, &number) in numbers.iter().enumerate() {
            self.memory.insert(IoPlace::User(user + byte as u64), number);
        }
        numbers
    }

    fn file(&mut self, file: u64, bytes: u64) -> &mut Vec<u64> {
        let all = self.files.entry(file).or_default();
        if (all.len() as u64) < bytes {
            all.resize(bytes as usize, 0);
        }
        all
    }

    fn take_piped(&mut self, pipe: u64, bytes: u64) -> Vec<Piped> {
        let queue = self.pipes.entry(pipe).or_default();
        let here = queue.len().min(bytes as usize);
        queue.drain(..here).collect()
    }

    /// Returns the number of a byte; `None` if its file does not have the byte any more.
    fn number(&self, byte: Piped) -> Option<u64> {
        match byte {
            Piped::Number(number) => Some(number),
            Piped::Of(file, byte) => self.files.get(&file)?.get(byte as usize).copied(),
        }
    }

    /// Returns whether any of these bytes of the user lies in a mapped file.
    fn is_mapped(&self, user: u64, bytes: u64) -> bool {
        let pages = user / self.page..(user + bytes).div_ceil(self.page);
        self.mapped.range(pages).next().is_some()
    }

    /// Makes the files behind the user's buffers as long as the slow path says: a call that moves data has let their
    /// pages fault, and a fault may make a file longer.
    pub(super) fn lengthen(&mut self, lengths: &BTreeMap<u64, u64>) {
        for page in self.mapped.clone().values() {
            if let UserPage::Mapped { of, .. } = page
                && let Some(&bytes) = lengths.get(&of.file.0)
            {
                self.file(of.file.0, bytes);
            }
        }
    }

    /// Prepares memory for a call, and notes what the call must do.
    pub(super) fn expect(&mut self, call: Call) {
        self.expected.clear();
        self.copied = None;
        if let Call::Write(file, offset, bytes, user) = call {
            self.copied = self.is_mapped(user, bytes).then_some((file, offset..offset + bytes));
        }
        match call {
            Call::Read(_, _, 0, _) | Call::ReadDirect(_, _, 0, _) | Call::WriteDirect(_, _, 0, _) => {}
            Call::Read(file, offset, bytes, _) | Call::ReadDirect(file, offset, bytes, _) => {
                let all = self.file(file, offset + bytes);
                self.expected = all[offset as usize..(offset + bytes) as usize].to_vec();
            }
            Call::Write(file, offset, bytes, user) | Call::WriteDirect(file, offset, bytes, user) => {
                let numbers = self.user_writes(user, bytes);
                if bytes > 0 {
                    let all = self.file(file, offset + bytes);
                    all[offset as usize..(offset + bytes) as usize].copy_from_slice(&numbers);
                }
            }
            Call::CopyFile(.., 0, _, _) | Call::SendFile(_, _, 0) => {}
            Call::CopyFile(file, offset, bytes, to, at) => {
                let all = self.file(file, offset + bytes);
                let numbers = all[offset as usize..(offset + bytes) as usize].to_vec();
                self.file(to, at + bytes)[at as usize..(at + bytes) as usize].copy_from_slice(&numbers);
                self.copied = Some((to, at..at + bytes));
            }
            Call::SendFile(file, offset, bytes) => {
                let all = self.file(file, offset + bytes);
                let numbers = all[offset as usize..(offset + bytes) as usize].to_vec();
                self.unsent.extend(numbers);
            }
            Call::Fault(file, page, _) => {
                let bytes = page * self.page + self.mapped_bytes(file);
                self.file(file, bytes);
            }
            Call::Map(file, bytes) if self.known != Some(file) => drop(self.file(file, bytes)),
            Call::Truncate(file, bytes) => {
                self.files.entry(file).or_default().resize(bytes as usize, 0);
            }
            Call::Arrive(socket, _) => self.socket = socket,
            Call::Receive(socket, ..) => self.socket = socket,
            Call::Send(bytes, user) => {
                let numbers = self.user_writes(user, bytes);
                self.unsent.extend(numbers);
            }
            Call::WritePipe(pipe, bytes, user) => {
                let numbers = self.user_writes(user, bytes);
                self.pipes.entry(pipe).or_default().extend(numbers.into_iter().map(Piped::Number));
            }
            Call::ReadPipe(pipe, bytes, _) => {
                let taken = self.take_piped(pipe, bytes);
                self.expected = taken.iter().map(|&byte| self.number(byte).unwrap_or(0)).collect();
            }
            Call::DrainPipe(pipe, bytes) => drop(self.take_piped(pipe, bytes)),
            Call::SpliceFromFile(_, _, _, 0) => {}
            Call::SpliceFromFile(file, offset, pipe, bytes) => {
                self.file(file, offset + bytes);
                let spliced = (offset..offset + bytes).map(|byte| Piped::Of(file, byte));
                self.pipes.entry(pipe).or_default().extend(spliced);
            }
            Call::SpliceToFile(pipe, offset, bytes) => {
                let taken = self.take_piped(pipe, bytes);
                let numbers: Vec<u64> = taken.iter().map(|&byte| self.number(byte).unwrap_or(0)).collect();
                if !numbers.is_empty() {
                    let all = self.file(SPLICED, offset + numbers.len() as u64);
                    all[offset as usize..][..numbers.len()].copy_from_slice(&numbers);
                    self.copied = Some((SPLICED, offset..offset + numbers.len() as u64));
                }
            }
            Call::SpliceToSocket(pipe, bytes) => {
                let taken = self.take_piped(pipe, bytes);
                let numbers: Vec<u64> = taken.iter().filter_map(|&byte| self.number(byte)).collect();
                self.unsent.extend(numbers);
            }
            Call::SplicePipes(from, to, bytes) => {
                let taken = self.take_piped(from, bytes);
                self.pipes.entry(to).or_default().extend(taken);
            }
            Call::Tee(from, to, bytes) => {
                let queue = self.pipes.entry(from).or_default();
                let first: Vec<Piped> = queue.iter().copied().take(bytes as usize).collect();
                self.pipes.entry(to).or_default().extend(first);
            }
            Call::SpliceFromSocket(socket, ..) => self.socket = socket,
            Call::ClosePipe(pipe) => drop(self.pipes.remove(&pipe)),
            Call::CloseSocket(socket) => drop(self.sockets.remove(&socket)),
            Call::Map(..)
            | Call::SyncFile(_)
            | Call::SyncRange(..)
            | Call::Sync
            | Call::PassTime(_)
            | Call::Refer(_)
            | Call::Lose(_)
            | Call::Remap => {}
        }
    }

    /// Moves the bytes of a step.
    pub(super) fn follow(&mut self, step: IoStep) {
        match step {
            IoStep::Copy { from, to, bytes } => {
                for byte in 0..bytes {
                    let number = self.at(from, byte);
                    self.memory.insert(self.behind(to, byte), number);
                }
            }
            IoStep::Fill { at, bytes } => {
                for byte in 0..bytes {
                    self.memory.insert(self.behind(at, byte), 0);
                }
            }
            IoStep::WriteDescriptor(ring, slot) => {
                assert!(self.descriptors.insert((ring, slot)), "slot {slot} of {ring:?} is in use");
            }
            IoStep::Transfer { writes: false, at: Location::Descriptor(ring, first), bytes, .. } => {
                for slot in first..first + (bytes / IoConfig::DESCRIPTOR) as u32 {
                    assert!(self.descriptors.remove(&(ring, slot)), "nobody wrote slot {slot} of {ring:?}");
                }
            }
            IoStep::Transfer { ring, writes, at, bytes, of, .. }
                if !matches!(at, Location::Descriptor(..)) =>
            {
                if (ring, writes) == (RingId::Receive, true) {
                    self.ring.push_back(Vec::new());
                }
                for byte in 0..bytes {
                    let here = self.behind(at, byte);
                    match (ring, writes) {
                        (RingId::Disk, true) => {
                            let there = of.map(|(file, first)| (file.0, first + byte)).unwrap();
                            let number = self.disk.get(&there).copied().unwrap_or(0);
                            self.memory.insert(here, number);
                        }
                        (RingId::Disk, false) => {
                            let there = of.map(|(file, first)| (file.0, first + byte)).unwrap();
                            let number = self.memory.get(&here).copied();
                            let comes = self
                                .copied
                                .as_ref()
                                .is_some_and(|(file, bytes)| *file == there.0 && bytes.contains(&there.1));
                            assert!(number.is_some() || comes, "{there:?} was never written");
                            self.disk.insert(there, number.unwrap_or(GARBAGE));
                        }
                        (_, true) => {
                            let number = self.fresh();
                            self.memory.insert(here, number);
                            self.ring.back_mut().unwrap().push(number);
                        }
                        (_, false) => {
                            assert_eq!(Some(self.memory[&here]), self.unsent.pop_front(), "{here:?} is sent");
                        }
                    }
                }
            }
            IoStep::ReadDescriptor(RingId::Receive, _) => {
                let numbers = self.ring.pop_front().unwrap();
                self.sockets.entry(self.socket).or_default().extend(numbers);
            }
            IoStep::Dropped(page) => {
                let first = page.page * self.page;
                for byte in first..first + self.page {
                    self.memory.remove(&IoPlace::File(page.file.0, byte));
                }
            }
            _ => {}
        }
    }

    fn behind(&self, memory: Location, bytes: u64) -> IoPlace {
        match place(memory) {
            IoPlace::User(byte) => IoPlace::User(byte + bytes),
            IoPlace::File(file, byte) => IoPlace::File(file, byte + bytes),
            IoPlace::Packet(buffer, byte) => IoPlace::Packet(buffer, byte + bytes),
            IoPlace::Pipe(page, byte) => IoPlace::Pipe(page, byte + bytes),
            IoPlace::Descriptor(..) => unreachable!("descriptors hold no data"),
        }
    }

    fn at(&self, memory: Location, bytes: u64) -> u64 {
        let place = self.behind(memory, bytes);
        *self.memory.get(&place).unwrap_or_else(|| panic!("{place:?} was never written"))
    }

    /// Checks that a call did what it had to do.
    pub(super) fn check(&mut self, call: Call) {
        let user = match call {
            Call::Read(_, _, _, user) | Call::ReadDirect(_, _, _, user) | Call::ReadPipe(_, _, user) => user,
            Call::Receive(socket, bytes, user) => {
                let queue = self.sockets.entry(socket).or_default();
                self.expected = queue.drain(..bytes as usize).collect();
                user
            }
            Call::SpliceFromSocket(socket, pipe, bytes) => {
                let queue = self.sockets.entry(socket).or_default();
                let moved = queue.drain(..bytes as usize).map(Piped::Number);
                self.pipes.entry(pipe).or_default().extend(moved);
                return;
            }
            Call::Send(..) | Call::SendFile(..) | Call::SpliceToSocket(..) => {
                assert!(self.unsent.is_empty() || !self.sends_at_once, "{call:?}");
                return;
            }
            Call::SyncRange(file, offset, bytes) => {
                // The disk holds what the pages of the range hold, as far as the file goes.
                let pages = offset / self.page * self.page..(offset + bytes).next_multiple_of(self.page);
                for byte in pages.filter(|_| bytes > 0) {
                    let Some(&number) = self.files.get(&file).and_then(|all| all.get(byte as usize)) else {
                        break;
                    };
                    assert_eq!(
                        self.disk.get(&(file, byte)).copied().unwrap_or(0),
                        number,
                        "{call:?}: byte {byte}"
                    );
                }
                return;
            }
            Call::Truncate(file, bytes) => {
                // The file system frees the blocks behind the end, after writes that were under way.
                let end = bytes.div_ceil(self.page) * self.page;
                self.disk.retain(|&(other, byte), _| other != file || byte < end);
                return;
            }
            Call::Fault(file, page, true) => {
                // The program stores bytes of the page that the file has: its first byte at least.
                let first = page * self.page;
                for byte in (first..first + self.mapped_bytes(file)).step_by(7) {
                    let number = self.fresh();
                    self.memory.insert(IoPlace::File(file, byte), number);
                    self.file(file, byte + 1)[byte as usize] = number;
                }
                return;
            }
            _ => return,
        };
        let read: Vec<u64> =
            (0..self.expected.len() as u64).map(|byte| self.memory[&IoPlace::User(user + byte)]).collect();
        assert_eq!(read, self.expected, "{call:?} reads stale data");
    }

    /// Checks that the disk holds what the files should hold.
    pub(super) fn check_disk(&self) {
        for (&file, bytes) in &self.files {
            let disk: Vec<u64> = (0..bytes.len() as u64)
                .map(|byte| self.disk.get(&(file, byte)).copied().unwrap_or(0))
                .collect();
            assert_eq!(&disk, bytes, "file {file}");
        }
    }
}
