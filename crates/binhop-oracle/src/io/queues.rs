//! This part of the slow path keeps the bytes that wait in sockets and pipes, one by one, and the buffers in which
//! the bytes lie.

use super::{IoEvent, IoPlace, Server};

/// `Byte` is a byte that waits in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Byte {
    pub(super) at: IoPlace,
    /// The number of the run of bytes that came into the queue together.
    pub(super) run: u64,
    /// True if a write may add bytes to the run.
    pub(super) grows: bool,
}

impl Server {
    pub(super) fn new_run(&mut self) -> u64 {
        self.runs += 1;
        self.runs
    }

    /// Takes the first bytes out of a socket's queue, or a pipe's.
    pub(super) fn take_bytes(&mut self, of_socket: bool, number: u64, bytes: u64) -> Vec<Byte> {
        let queues = if of_socket { &mut self.sockets } else { &mut self.pipes };
        let queue = queues.entry(number).or_default();
        let here = queue.len().min(bytes as usize);
        queue.drain(..here).collect()
    }

    /// Appends bytes to a pipe.
    pub(super) fn append(&mut self, pipe: u64, bytes: &[Byte]) {
        for run in runs_of(bytes) {
            let number = self.new_run();
            let moved = run.iter().map(|&byte| Byte { run: number, grows: false, ..byte });
            self.pipes.entry(pipe).or_default().extend(moved);
        }
    }

    /// Brings the page of a run into the cache, if the file of the run still has any of its bytes. Returns how many
    /// of its bytes the file has.
    pub(super) fn make_present(&mut self, run: &[Byte]) -> u64 {
        let IoPlace::File(file, first) = run[0].at else { return run.len() as u64 };
        let end = *self.files.entry(file).or_default();
        let exist = (first..first + run.len() as u64).filter(|&byte| byte < end).count() as u64;
        let page = first / self.sizes.page;
        if exist > 0 {
            self.keep(file, page);
        }
        exist
    }

    /// Copies bytes that were taken out of a queue to the user.
    pub(super) fn drain(&mut self, taken: Vec<Byte>, user: u64) {
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
    pub(super) fn free_in_order(&mut self, bytes: &[Byte]) {
        let runs = runs_of(bytes);
        for (number, run) in runs.iter().enumerate() {
            self.free_unused(run, &runs[number + 1..]);
        }
    }

    /// Frees the buffer of a run that was taken, unless bytes in the buffer still wait. These are bytes in a queue,
    /// or bytes of the runs `later` that were taken together with the run and come after it.
    pub(super) fn free_unused(&mut self, run: &[Byte], later: &[Vec<Byte>]) {
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

    pub(super) fn take(&mut self, pool: usize) -> u32 {
        self.free[pool].pop().unwrap_or_else(|| {
            self.made[pool] += 1;
            self.made[pool] - 1
        })
    }
}

/// Cuts bytes where their run changes.
pub(super) fn runs_of(bytes: &[Byte]) -> Vec<Vec<Byte>> {
    bytes.chunk_by(|before, behind| before.run == behind.run).map(<[Byte]>::to_vec).collect()
}
