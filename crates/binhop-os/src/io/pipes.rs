//! This file serves calls on sockets and pipes, and calls that move bytes between a socket or a pipe and another object
//! (`splice`, `tee`).

use alloc::vec::Vec;
use core::ops::Range;

use binhop_base::VirtAddr;

use super::copies::{Side, copy, copy_pieces, pieces};
use super::queues::{Held, Queue, Waiting};
use super::{BufferPool, Emit, FileId, FilePage, IoPath, IoStep, Location, QueueId};

impl IoPath {
    /// Receives `bytes` of a socket into the user's memory. Packets that have not arrived arrive now.
    pub fn receive(&mut self, socket: QueueId, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        self.arrive_all(socket, bytes, emit);
        let mut done = 0;
        while let Some((run, is_last)) = take(self.sockets.get_mut(&socket), bytes - done) {
            self.copy_run(run, VirtAddr(user.0 + done), emit);
            self.release(run.held, is_last);
            done += run.bytes();
        }
        self.counts.received += bytes;
    }

    /// Lets packets with `bytes` for a socket arrive, or more with a [backlog](super::IoConfig::backlog). They wait
    /// until a call [receives](Self::receive) them.
    pub fn arrive(&mut self, socket: QueueId, bytes: u64, emit: Emit<'_>) {
        self.in_memory(emit, |path, emit| {
            let queue = path.sockets.entry(socket).or_default();
            path.network.arrive(bytes, queue, &path.config, &mut path.counts, emit);
        });
    }

    /// Sends `bytes` of the user's memory to the network.
    pub fn send(&mut self, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        self.in_memory(emit, |path, emit| {
            path.network.send((bytes, user), path.now, &path.config, &mut path.counts, emit);
        });
        self.counts.sent += bytes;
    }

    /// Writes `bytes` of the user's memory into a pipe.
    pub fn write_pipe(&mut self, pipe: QueueId, bytes: u64, user: VirtAddr, emit: Emit<'_>) {
        self.in_memory(emit, |path, emit| {
            let queue = path.pipes.entry(pipe).or_default();
            queue.put(bytes, user, path.config.page, &mut path.pipe_pages, emit);
        });
        self.counts.piped += bytes;
    }

    /// Reads `bytes` of a pipe into the user's memory, and returns how many of them were in the pipe. The others were
    /// written by a call that the path did not see; they are not copied.
    pub fn read_pipe(&mut self, pipe: QueueId, bytes: u64, user: VirtAddr, emit: Emit<'_>) -> u64 {
        let mut done = 0;
        while let Some((run, is_last)) = take(self.pipes.get_mut(&pipe), bytes - done) {
            self.copy_run(run, VirtAddr(user.0 + done), emit);
            self.release(run.held, is_last);
            done += run.bytes();
        }
        done
    }

    /// Takes `bytes` out of a pipe for an object without data on the path, such as `/dev/null`, and returns how many
    /// of them were in the pipe. Nothing is copied.
    pub fn drain_pipe(&mut self, pipe: QueueId, bytes: u64) -> u64 {
        let mut done = 0;
        while let Some((run, is_last)) = take(self.pipes.get_mut(&pipe), bytes - done) {
            self.release(run.held, is_last);
            done += run.bytes();
        }
        done
    }

    /// Moves `bytes` of a file from byte `offset` on into a pipe. The pipe holds the pages of the page cache; nothing
    /// is copied.
    pub fn splice_from_file(
        &mut self,
        (file, offset): (FileId, u64),
        pipe: QueueId,
        bytes: u64,
        emit: Emit<'_>,
    ) {
        if bytes == 0 {
            return;
        }
        let size = self.config.page;
        self.reach(file, offset + bytes);
        let end = (offset + bytes).div_ceil(size);
        for (start, length) in pieces(offset, bytes, size) {
            let page = FilePage { file, page: start / size };
            self.bring(page, end - page.page, emit);
            let run = Waiting::new(Held::File(file), start, start + length);
            self.pipes.entry(pipe).or_default().append(run);
        }
        self.file(file).ahead.end_call(end - 1);
        self.counts.read += bytes;
        self.counts.piped += bytes;
    }

    /// Moves `bytes` of a pipe into a file from byte `offset` on, and returns how many of them were in the pipe. The
    /// kernel copies them into the page cache (Linux, `iter_file_splice_write`). The flusher works afterwards.
    pub fn splice_to_file(
        &mut self,
        pipe: QueueId,
        (file, offset): (FileId, u64),
        bytes: u64,
        emit: Emit<'_>,
    ) -> u64 {
        let here = self.pipes.get(&pipe).map_or(0, Queue::bytes).min(bytes);
        let written = offset..offset + here;
        let mut done = 0;
        while let Some((run, is_last)) = take(self.pipes.get_mut(&pipe), here - done) {
            self.copy_run_to_file(run, (file, offset + done), &written, emit);
            self.release(run.held, is_last);
            done += run.bytes();
        }
        self.counts.written += done;
        self.balance(emit);
        done
    }

    /// Moves `bytes` of a socket into a pipe. Packets that have not arrived arrive now. The pipe holds their buffers;
    /// nothing is copied.
    pub fn splice_from_socket(&mut self, socket: QueueId, pipe: QueueId, bytes: u64, emit: Emit<'_>) {
        self.arrive_all(socket, bytes, emit);
        let mut done = 0;
        while let Some((run, is_last)) = take(self.sockets.get_mut(&socket), bytes - done) {
            self.share(run.held, !is_last);
            self.pipes.entry(pipe).or_default().append(run);
            done += run.bytes();
        }
        self.counts.received += bytes;
        self.counts.piped += bytes;
    }

    /// Sends `bytes` of a pipe to the network, and returns how many of them were in the pipe. The card reads them
    /// where they lie.
    pub fn splice_to_socket(&mut self, pipe: QueueId, bytes: u64, emit: Emit<'_>) -> u64 {
        let mut done = 0;
        while let Some((run, is_last)) = take(self.pipes.get_mut(&pipe), bytes - done) {
            let mut length = self.present(run, emit);
            if length > 0 {
                self.in_memory(emit, |path, emit| path.network.send_all(path.now, &mut path.counts, emit));
                if !self.holds(run) {
                    // The page was reclaimed to make room for packets that waited.
                    length = self.present(run, emit);
                }
                let of = match run.held {
                    Held::File(file) => Some((file, run.first)),
                    Held::Buffer(..) => None,
                };
                let data = (run.held.at(run.first), length, of);
                self.in_memory(emit, |path, emit| {
                    path.network.send_in_place(data, &path.config, &mut path.counts, emit);
                });
            }
            self.release(run.held, is_last);
            done += run.bytes();
        }
        self.counts.sent += done;
        done
    }

    /// Moves `bytes` of a pipe into another pipe, and returns how many of them were in the pipe. Nothing is copied.
    pub fn splice_pipes(&mut self, from: QueueId, to: QueueId, bytes: u64) -> u64 {
        let mut done = 0;
        while let Some((run, is_last)) = take(self.pipes.get_mut(&from), bytes - done) {
            self.share(run.held, !is_last);
            self.pipes.entry(to).or_default().append(run);
            done += run.bytes();
        }
        self.counts.piped += done;
        done
    }

    /// Puts `bytes` of a pipe into another pipe, too, and returns how many of them were in the pipe. Nothing is copied.
    pub fn tee(&mut self, from: QueueId, to: QueueId, bytes: u64) -> u64 {
        let runs = self.pipes.get(&from).map_or_else(Vec::new, |queue| queue.first(bytes));
        for &run in &runs {
            self.share(run.held, true);
            self.pipes.entry(to).or_default().append(run);
        }
        let done = runs.iter().map(Waiting::bytes).sum();
        self.counts.piped += done;
        done
    }

    /// Closes a socket. Bytes that wait in it are lost, and their buffers are free. A socket that is opened later may
    /// have the same number.
    pub fn close_socket(&mut self, socket: QueueId) {
        for held in self.sockets.remove(&socket).into_iter().flat_map(Queue::discard) {
            self.release(held, true);
        }
    }

    /// Closes both ends of a pipe. Bytes that wait in it are lost, and its pages are free. A pipe that is opened later
    /// may have the same number.
    pub fn close_pipe(&mut self, pipe: QueueId) {
        for held in self.pipes.remove(&pipe).into_iter().flat_map(Queue::discard) {
            self.release(held, true);
        }
    }

    /// Lets those packets arrive that a call needs beyond what waits in its socket.
    fn arrive_all(&mut self, socket: QueueId, bytes: u64, emit: Emit<'_>) {
        let waiting = self.sockets.get(&socket).map_or(0, Queue::bytes);
        self.arrive(socket, bytes.saturating_sub(waiting), emit);
    }

    /// Notes that a run of bytes of a buffer waits at one place more, if `is_more` says so.
    fn share(&mut self, held: Held, is_more: bool) {
        match held {
            Held::Buffer(BufferPool::Packets, buffer) if is_more => self.network.buffers.share(buffer),
            Held::Buffer(BufferPool::Pipes, buffer) if is_more => self.pipe_pages.share(buffer),
            Held::Buffer(..) | Held::File(_) => {}
        }
    }

    /// Notes that no bytes of a run wait any more, if `is_last` says so.
    fn release(&mut self, held: Held, is_last: bool) {
        match held {
            Held::Buffer(BufferPool::Packets, buffer) if is_last => self.network.buffers.free(buffer),
            Held::Buffer(BufferPool::Pipes, buffer) if is_last => self.pipe_pages.free(buffer),
            Held::Buffer(..) | Held::File(_) => {}
        }
    }

    /// Makes the bytes of a run present in memory, and returns how many bytes there are: a file may have been cut
    /// since. A page that has left the page cache is read again; otherwise the page was looked up when the run began
    /// to wait.
    fn present(&mut self, run: Waiting, emit: Emit<'_>) -> u64 {
        let Held::File(file) = run.held else { return run.bytes() };
        let end = run.end.min(self.file(file).bytes);
        if end <= run.first {
            return 0;
        }
        self.keep(FilePage { file, page: run.first / self.config.page }, emit);
        end - run.first
    }

    /// Returns whether the bytes of a run are in memory: in a buffer, or in a page that the page cache holds.
    fn holds(&self, run: Waiting) -> bool {
        let page = run.first / self.config.page;
        match run.held {
            Held::File(file) => self.cache.contains(FilePage { file, page }),
            Held::Buffer(..) => true,
        }
    }

    /// Copies a run of bytes to the user's memory. Bytes that their file does not have any more are zeros.
    fn copy_run(&mut self, run: Waiting, user: VirtAddr, emit: Emit<'_>) {
        let length = self.present(run, emit);
        let page = self.config.page;
        self.in_memory(emit, |_, emit| {
            copy(run.held.at(run.first), Side::From, user, length, page, emit);
            for (start, bytes) in pieces(user.0 + length, run.bytes() - length, page) {
                emit(IoStep::Fill { at: Location::User(VirtAddr(start)), bytes });
            }
        });
    }

    /// Copies a run of bytes into the page cache. The call writes the bytes `written` of the file, so a page of which
    /// it writes all bytes is not read.
    fn copy_run_to_file(
        &mut self,
        run: Waiting,
        (file, offset): (FileId, u64),
        written: &Range<u64>,
        emit: Emit<'_>,
    ) {
        let size = self.config.page;
        for (distance, length) in copy_pieces(VirtAddr(offset), run.first, run.bytes(), size) {
            let (first, target) = (run.first + distance, offset + distance);
            let part = Waiting::new(run.held, first, first + length);
            let page = FilePage { file, page: target / size };
            let mut is_new = target == written.start || target.is_multiple_of(size);
            let here = loop {
                let here = self.present(part, emit);
                self.keep_writable(page, target, (is_new, written), emit);
                is_new = false;
                // The source may have been reclaimed to make room for the page of the target.
                if here == 0 || self.holds(part) {
                    break here;
                }
            };
            self.reach(file, target + length);
            self.in_memory(emit, |_, emit| {
                if here > 0 {
                    let (from, to) = (run.held.at(first), Location::File(file, target));
                    emit(IoStep::Copy { from, to, bytes: here });
                }
                if here < length {
                    emit(IoStep::Fill { at: Location::File(file, target + here), bytes: length - here });
                }
            });
            self.cache.mark_dirty(page, self.now);
        }
    }
}

/// Takes the first bytes of a queue, `most` at most, that lie in one buffer or page.
fn take(queue: Option<&mut Queue>, most: u64) -> Option<(Waiting, bool)> {
    if most == 0 { None } else { queue?.take(most) }
}
