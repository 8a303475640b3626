//! `Queue` holds the bytes that wait in a socket or a pipe, and `Buffers` the buffers in which they lie.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use binhop_base::VirtAddr;

use super::copies::{Side, copy};
use super::{BufferPool, Emit, FileId, Location};

/// `Buffers` are the buffers of a pool. The buffer that was freed last is taken first.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Vec<u32>,
    /// The number of buffers that were ever taken.
    made: u32,
    /// The buffers in which bytes wait at more than one place: how many places there are beyond the first.
    shared: BTreeMap<u32, u32>,
}

impl Buffers {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            self.made - 1
        })
    }

    /// Notes that bytes of a buffer wait at one place more.
    pub(super) fn share(&mut self, buffer: u32) {
        *self.shared.entry(buffer).or_insert(0) += 1;
    }

    /// Notes that no bytes of a buffer wait at one of its places any more. The buffer is free if this was the last.
    pub(super) fn free(&mut self, buffer: u32) {
        match self.shared.get_mut(&buffer) {
            None => self.free.push(buffer),
            Some(1) => drop(self.shared.remove(&buffer)),
            Some(places) => *places -= 1,
        }
    }
}

/// `Held` is the memory in which bytes wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A buffer of a pool.
    Buffer(BufferPool, u32),
    /// A page of the page cache. Bytes have the numbers that they have in the file.
    File(FileId),
}

impl Held {
    /// Returns the place of a byte.
    pub(super) const fn at(self, byte: u64) -> Location {
        match self {
            Self::Buffer(pool, buffer) => Location::Buffer(pool, buffer, byte),
            Self::File(file) => Location::File(file, byte),
        }
    }
}

/// `Waiting` is a run of bytes that wait in one buffer or page: the bytes from `first` on, before `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) held: Held,
    pub(super) first: u64,
    pub(super) end: u64,
    /// True if a write may add bytes behind `end`: the bytes were written to the queue in which they wait.
    grows: bool,
}

impl Waiting {
    pub(super) const fn new(held: Held, first: u64, end: u64) -> Self {
        Self { held, first, end, grows: false }
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.end - self.first
    }
}

/// `Queue` holds bytes in the order in which they will be read.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: u64,
}

impl Queue {
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn append(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
    }

    /// Removes the first bytes, `most` at most, that lie in one buffer or page. Returns them, and true if they were
    /// the last of their run.
    pub(super) fn take(&mut self, most: u64) -> Option<(Waiting, bool)> {
        let front = self.waiting.front_mut()?;
        let end = front.end.min(front.first + most);
        let taken = Waiting { end, grows: false, ..*front };
        front.first = end;
        let is_empty = front.first == front.end;
        if is_empty {
            self.waiting.pop_front();
        }
        self.bytes -= taken.bytes();
        Some((taken, is_empty))
    }

    /// Returns the first `bytes`, by the buffers and pages in which they lie. The bytes stay in the queue.
    pub(super) fn first(&self, bytes: u64) -> Vec<Waiting> {
        let mut left = bytes;
        let mut found = Vec::new();
        for waiting in &self.waiting {
            if left == 0 {
                break;
            }
            let end = waiting.end.min(waiting.first + left);
            found.push(Waiting { end, grows: false, ..*waiting });
            left -= end - waiting.first;
        }
        found
    }

    /// Returns the buffers and pages of all bytes that wait, in the order of the bytes. Nobody will read the bytes.
    pub(super) fn discard(self) -> impl Iterator<Item = Held> {
        self.waiting.into_iter().map(|waiting| waiting.held)
    }

    /// Copies `bytes` of the user's memory to the end of the queue, in pages of pipes. The last page of the queue is
    /// filled first.
    pub(super) fn put(
        &mut self,
        bytes: u64,
        user: VirtAddr,
        page: u64,
        buffers: &mut Buffers,
        emit: Emit<'_>,
    ) {
        let mut done = 0;
        while done < bytes {
            if self.waiting.back().is_none_or(|last| !last.grows || last.end == page) {
                let held = Held::Buffer(BufferPool::Pipes, buffers.take());
                self.waiting.push_back(Waiting { held, first: 0, end: 0, grows: true });
            }
            let last = self.waiting.back_mut().expect("a page was added");
            let length = (page - last.end).min(bytes - done);
            copy(last.held.at(last.end), Side::To, VirtAddr(user.0 + done), length, page, emit);
            last.end += length;
            done += length;
        }
        self.bytes += bytes;
    }
}
