//! This module holds the simple commands cat, cp, ex, grep, ls, ps, rm, sort and wc. They work on files of words.
//!
//! Each command reads its input in blocks of 8 KB, does its work, and writes through a buffer. A block that
//! is not in the system's cache makes the command give up the processor. The processes are small: 100 to 400
//! KB.

mod cat;
mod ex;
mod grep;
mod ls;
mod ps;
mod sort;
mod wc;

use super::libc::{Libc, waits};
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

pub(crate) use cat::{start_cat, start_cp};
pub(crate) use ex::start_ex;
pub(crate) use grep::start_grep;
pub(crate) use ls::{start_ls, start_ls_sources};
pub(crate) use ps::{start_ps, start_rm};
pub(crate) use sort::start_sort;
pub(crate) use wc::start_wc;

pub(crate) const LS: Image =
    Image { name: "ls", segment: 11, text: 64 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const GREP: Image =
    Image { name: "grep", segment: 12, text: 48 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const SORT: Image =
    Image { name: "sort", segment: 13, text: 64 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const WC: Image =
    Image { name: "wc", segment: 14, text: 32 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const CAT: Image =
    Image { name: "cat", segment: 22, text: 32 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const CP: Image =
    Image { name: "cp", segment: 23, text: 32 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const EX: Image =
    Image { name: "ex", segment: 24, text: 128 << 10, data: 48 << 10, initialised: 8 << 10 };
pub(crate) const RM: Image =
    Image { name: "rm", segment: 25, text: 24 << 10, data: 24 << 10, initialised: 4 << 10 };
pub(crate) const PS: Image =
    Image { name: "ps", segment: 26, text: 48 << 10, data: 32 << 10, initialised: 8 << 10 };

const MAIN: u64 = TEXT + 0x1000;
const LIBC: Libc = Libc::at(TEXT + 0x3000);
const INPUT: u64 = DATA + 0x1000;
const OUTPUT: u64 = DATA + 0x3000;
const BLOCK: usize = 8192;

/// Makes a text of `words` words in lines of up to seven words.
fn text(draws: &mut DataRng, words: u64) -> Vec<u8> {
    let mut text = Vec::with_capacity(words as usize * 7);
    for word in 0..words {
        let length = 1 + draws.below(9);
        let mut bits = draws.next();
        for _ in 0..length {
            text.push(b'a' + (bits % 26) as u8);
            bits /= 26;
        }
        text.push(if word % 7 == 6 || draws.below(11) == 0 { b'\n' } else { b' ' });
    }
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    text
}

/// `TextOutput` writes through a buffer, which is written when it is full.
#[derive(Default)]
struct TextOutput {
    used: u64,
    written: u64,
}

impl TextOutput {
    fn put(&mut self, cpu: &mut Cpu, bytes: u64) {
        self.used += bytes;
        if self.used >= BLOCK as u64 {
            self.flush(cpu);
        }
    }

    fn flush(&mut self, cpu: &mut Cpu) {
        LIBC.drain(cpu, OUTPUT, self.used as u32, (1, self.written));
        self.written += self.used;
        self.used = 0;
    }

    fn at(&self) -> u64 {
        OUTPUT + (self.used & !3)
    }
}

/// `TextInput` reads a text block by block.
struct TextInput {
    text: Vec<u8>,
    read: usize,
    file: u64,
}

impl TextInput {
    fn new(draws: &mut DataRng, words: u64) -> Self {
        let file = 100 + draws.below(400);
        Self { text: text(draws, words), read: 0, file }
    }

    /// Reads the next block into `buffer`. Returns the block's range of the text; `None` at the end.
    fn fill(&mut self, cpu: &mut Cpu, buffer: u64) -> Option<std::ops::Range<usize>> {
        if self.read == self.text.len() {
            return None;
        }
        let end = (self.read + BLOCK).min(self.text.len());
        let range = self.read..end;
        LIBC.fill(cpu, buffer, (end - self.read) as u32, (self.file, self.read as u64));
        self.read = end;
        Some(range)
    }
}

/// `Running` is a running command: it starts, does its work in pieces, and exits.
struct Running<T> {
    begun: bool,
    work: T,
}

trait Work: Send {
    /// Does one piece of the work. Returns `None` when the work is done.
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status>;
}

impl<T: Work> Program for Running<T> {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if !self.begun {
            self.begun = true;
            LIBC.startup(cpu);
            cpu.syscall(call::OPEN, DATA + 0x800, 0, None);
            return waits(call::OPEN);
        }
        self.work.piece(cpu).unwrap_or_else(|| {
            cpu.syscall(call::EXIT, 0, 0, None);
            Status::Exit
        })
    }
}

fn begin<T: Work + 'static>(work: T) -> Box<dyn Program> {
    Box::new(Running { begun: false, work })
}

/// Returns the status after a read: one block in three comes from the disk.
fn after_read(draws: &mut DataRng) -> Status {
    if draws.below(3) == 0 { waits(call::READ) } else { Status::Ready }
}
