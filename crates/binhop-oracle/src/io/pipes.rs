//! This part of the slow path serves calls on pipes, and calls that move bytes between pipes, files and sockets.

use super::queues::{Byte, runs_of};
use super::{IoEvent, IoPlace, Server};

impl Server {
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

    /// Takes bytes out of a pipe and drops them. Returns how many bytes were in the pipe.
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

    /// Moves bytes of a pipe into a file, and returns how many bytes were in the pipe.
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

    /// Sends bytes of a pipe, and returns how many bytes were in the pipe.
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

    /// Moves bytes of a pipe into another pipe or, if `stay`, leaves them in the first pipe, too. Returns how many
    /// bytes were in the first pipe.
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

    /// Closes a pipe.
    pub fn close_pipe(&mut self, pipe: u64) {
        let all: Vec<Byte> = self.pipes.remove(&pipe).unwrap_or_default().into();
        self.free_in_order(&all);
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
}
