//! `Queue` holds the bytes that wait in a socket or a pipe, and `Buffers` the buffers in which they lie.

use alloc::{collections::VecDeque, vec::Vec};

use binhop_base::VirtAddr;

use super::copies::{Side, copy};
use super::{BufferPool, Emit, Location};

/// `Buffers` are the buffers of a pool. The buffer that was freed last is taken first.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    free: Vec<u32>,
    /// The number of buffers that were ever taken.
    made: u32,
}

impl Buffers {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            self.made - 1
        })
    }

    pub(super) fn free(&mut self, buffer: u32) {
        self.free.push(buffer);
    }
}

/// `Waiting` is a buffer with bytes that wait: those from `first` up to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) buffer: u32,
    pub(super) first: u64,
    pub(super) end: u64,
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
        self.bytes += waiting.end - waiting.first;
        self.waiting.push_back(waiting);
    }

    /// Copies `bytes`, which wait in the queue, to the user's memory. Buffers that become empty are free.
    pub(super) fn take(
        &mut self,
        bytes: u64,
        pool: BufferPool,
        user: VirtAddr,
        page: u64,
        buffers: &mut Buffers,
        emit: Emit<'_>,
    ) {
        let mut done = 0;
        while done < bytes {
            let first = self.waiting.front_mut().expect("the bytes wait in the queue");
            let length = (first.end - first.first).min(bytes - done);
            let kernel = Location::Buffer(pool, first.buffer, first.first);
            copy(kernel, Side::From, VirtAddr(user.0 + done), length, page, emit);
            first.first += length;
            done += length;
            if first.first == first.end {
                buffers.free(first.buffer);
                self.waiting.pop_front();
            }
        }
        self.bytes -= bytes;
    }

    /// Frees the buffers of all bytes that wait, in the order of the bytes. Nobody will read the bytes.
    pub(super) fn discard(self, buffers: &mut Buffers) {
        self.waiting.into_iter().for_each(|waiting| buffers.free(waiting.buffer));
    }

    /// Copies `bytes` of the user's memory to the end of the queue, in pages of the pool. The last page of the queue is
    /// filled first.
    pub(super) fn put(
        &mut self,
        bytes: u64,
        pool: BufferPool,
        user: VirtAddr,
        page: u64,
        buffers: &mut Buffers,
        emit: Emit<'_>,
    ) {
        let mut done = 0;
        while done < bytes {
            if self.waiting.back().is_none_or(|last| last.end == page) {
                self.waiting.push_back(Waiting { buffer: buffers.take(), first: 0, end: 0 });
            }
            let last = self.waiting.back_mut().expect("a page was added");
            let length = (page - last.end).min(bytes - done);
            let kernel = Location::Buffer(pool, last.buffer, last.end);
            copy(kernel, Side::To, VirtAddr(user.0 + done), length, page, emit);
            last.end += length;
            done += length;
        }
        self.bytes += bytes;
    }
}
