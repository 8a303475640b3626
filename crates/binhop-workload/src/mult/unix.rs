//! The simple commands ls, grep, sort and wc, on files of words.
//!
//! Each command reads its input in blocks of 8 KB, does its work, and writes through a buffer. A block that
//! is not in the system's cache makes the command give up the processor. The processes are small: 100 to 400
//! KB.

use super::libc::{CLASSES, Libc, waits};
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

pub(crate) const LS: Image = Image { name: "ls", segment: 11, text: 64 << 10, data: 24 << 10 };
pub(crate) const GREP: Image = Image { name: "grep", segment: 12, text: 48 << 10, data: 24 << 10 };
pub(crate) const SORT: Image = Image { name: "sort", segment: 13, text: 64 << 10, data: 24 << 10 };
pub(crate) const WC: Image = Image { name: "wc", segment: 14, text: 32 << 10, data: 24 << 10 };

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

/// `Wc` counts characters, words and lines.
struct Wc {
    draws: DataRng,
    input: TextInput,
    block: Option<std::ops::Range<usize>>,
    words: u64,
    lines: u64,
    inside: bool,
}

pub(crate) fn start_wc(mut draws: DataRng, _: &mut Cpu) -> Box<dyn Program> {
    let words = 3_000 + draws.below(20_000);
    let input = TextInput::new(&mut draws, words);
    begin(Wc { draws, input, block: None, words: 0, lines: 0, inside: false })
}

impl Work for Wc {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        let Some(block) = self.block.take() else {
            self.block = Some(self.input.fill(cpu, INPUT).or_else(|| {
                LIBC.print(cpu, DATA + 0x900, OUTPUT, 3);
                None
            })?);
            return Some(after_read(&mut self.draws));
        };
        // The block is handled in pieces of 2 KB, so that a step stays within its rows.
        let end = (block.start + 2048).min(block.end);
        for at in block.start..end {
            cpu.jump(MAIN + 0x40);
            cpu.run(3);
            cpu.load(INPUT + (at % BLOCK) as u64 / 4 * 4, 4);
            let byte = self.input.text[at];
            cpu.run(2);
            cpu.load_local(1);
            cpu.run(1);
            cpu.load(CLASSES + (u64::from(byte) & !3), 4);
            cpu.run(3);
            if byte == b'\n' {
                cpu.jump(MAIN + 0xa0);
                cpu.run(2);
                self.lines += 1;
            }
            let word = byte > b' ';
            if word && !self.inside {
                cpu.jump(MAIN + 0xc0);
                cpu.run(3);
                self.words += 1;
            }
            self.inside = word;
        }
        self.block = (end < block.end).then_some(end..block.end);
        Some(Status::Ready)
    }
}

/// `Grep` finds a word with Horspool's search, and prints the lines that contain it.
struct Grep {
    draws: DataRng,
    input: TextInput,
    pattern: Vec<u8>,
    skip: [u8; 256],
    at: usize,
    found: u64,
    output: TextOutput,
}

pub(crate) fn start_grep(mut draws: DataRng, _: &mut Cpu) -> Box<dyn Program> {
    let words = 6_000 + draws.below(60_000);
    let input = TextInput::new(&mut draws, words);
    let from = draws.below(input.text.len() as u64 - 8) as usize;
    let pattern = input.text[from..from + 4].to_vec();
    begin(Grep::new(draws, input, pattern))
}

impl Grep {
    fn new(draws: DataRng, input: TextInput, pattern: Vec<u8>) -> Self {
        let mut skip = [pattern.len() as u8; 256];
        for (at, &byte) in pattern[..pattern.len() - 1].iter().enumerate() {
            skip[byte as usize] = (pattern.len() - 1 - at) as u8;
        }
        Self { draws, input, pattern, skip, at: 0, found: 0, output: TextOutput::default() }
    }
}

impl Work for Grep {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        let last = self.pattern.len() - 1;
        let end = self.input.read.min(self.at + 3_000);
        if self.at + last >= end {
            if self.input.fill(cpu, INPUT).is_none() {
                self.output.flush(cpu);
                return None;
            }
            return Some(after_read(&mut self.draws));
        }
        while self.at + last < end {
            cpu.jump(MAIN + 0x200);
            cpu.run(4);
            cpu.load(INPUT + ((self.at + last) % BLOCK) as u64 / 4 * 4, 4);
            let byte = self.input.text[self.at + last];
            cpu.run(2);
            cpu.load_local(1);
            cpu.load(DATA + 0x600 + (u64::from(byte) & !3), 4);
            cpu.run(3);
            let mut matched = 0;
            while matched <= last && self.input.text[self.at + last - matched] == self.pattern[last - matched]
            {
                matched += 1;
                cpu.jump(MAIN + 0x260);
                cpu.run(5);
                cpu.load(INPUT + ((self.at + last - matched.min(last)) % BLOCK) as u64 / 4 * 4, 4);
                cpu.run(3);
            }
            if matched > last {
                self.found += 1;
                LIBC.print(cpu, DATA + 0x900, self.output.at(), 2);
                self.output.put(cpu, 40);
            }
            self.at += usize::from(self.skip[byte as usize]);
        }
        Some(Status::Ready)
    }
}

/// `SortRange` is a range to sort. It is partitioned up to `at`; the smaller lines are up to `last`.
struct SortRange {
    low: usize,
    high: usize,
    at: usize,
    last: usize,
}

/// `Sort` reads all lines, sorts pointers to them (quicksort with an explicit stack of ranges), and writes
/// them.
struct Sort {
    draws: DataRng,
    input: TextInput,
    text: u64,
    pointers: u64,
    /// The first byte and the length of each line.
    lines: Vec<(u32, u32)>,
    ranges: Vec<SortRange>,
    split: bool,
    next: usize,
    output: TextOutput,
}

pub(crate) fn start_sort(mut draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let words = 3_000 + draws.below(22_000);
    let input = TextInput::new(&mut draws, words);
    begin(Sort::new(draws, input, cpu))
}

impl Sort {
    fn new(draws: DataRng, input: TextInput, cpu: &mut Cpu) -> Self {
        let text = cpu.sbrk(input.text.len() as u64 + 8);
        let pointers = cpu.sbrk(4 * input.text.iter().filter(|&&b| b == b'\n').count() as u64 + 8);
        let output = TextOutput::default();
        Self {
            draws,
            input,
            text,
            pointers,
            lines: Vec::new(),
            ranges: Vec::new(),
            split: false,
            next: 0,
            output,
        }
    }

    /// Finds the ends of lines in the block that was read.
    fn scan(&mut self, cpu: &mut Cpu, block: std::ops::Range<usize>) {
        let mut first = self.lines.last().map_or(0, |l| l.0 + l.1 + 1);
        for at in (block.start & !3..block.end).step_by(4) {
            cpu.jump(MAIN + 0x400);
            cpu.run(4);
            cpu.load(self.text + at as u64, 4);
            cpu.run(3);
            cpu.load_local(0);
            cpu.run(2);
            cpu.store_local(1);
            cpu.run(3);
            for byte in at.max(block.start)..(at + 4).min(block.end) {
                if self.input.text[byte] == b'\n' {
                    cpu.jump(MAIN + 0x480);
                    cpu.run(6);
                    cpu.store(self.pointers + 4 * self.lines.len() as u64, 4);
                    self.lines.push((first, byte as u32 - first));
                    first = byte as u32 + 1;
                }
            }
        }
    }

    fn line(&self, index: usize) -> &[u8] {
        let (first, length) = self.lines[index];
        &self.input.text[first as usize..(first + length) as usize]
    }

    /// Returns whether line `a` comes before line `b`, with the references of strcmp.
    fn before(&self, cpu: &mut Cpu, a: usize, b: usize) -> bool {
        cpu.load(self.pointers + 4 * a as u64, 4);
        cpu.run(2);
        cpu.load(self.pointers + 4 * b as u64, 4);
        cpu.call(MAIN + 0x800, 1, 0);
        let (x, y) = (self.line(a), self.line(b));
        let same = x.iter().zip(y).take_while(|(p, q)| p == q).count();
        for at in (0..=same).step_by(4) {
            cpu.jump(MAIN + 0x820);
            cpu.run(3);
            cpu.load(self.text + (u64::from(self.lines[a].0) + at as u64) / 4 * 4, 4);
            cpu.run(3);
            cpu.load(self.text + (u64::from(self.lines[b].0) + at as u64) / 4 * 4, 4);
            cpu.run(2);
            cpu.load_local(0);
            cpu.run(2);
        }
        cpu.ret(1, 0);
        x < y
    }

    /// Exchanges two pointers.
    fn swap(&mut self, cpu: &mut Cpu, a: usize, b: usize) {
        self.lines.swap(a, b);
        cpu.jump(MAIN + 0x700);
        cpu.run(4);
        cpu.store(self.pointers + 4 * a as u64, 4);
        cpu.store(self.pointers + 4 * b as u64, 4);
    }

    /// Continues to partition a range around its middle line, by up to 200 comparisons.
    fn partition(&mut self, cpu: &mut Cpu, mut range: SortRange) {
        if range.at == range.low {
            self.swap(cpu, range.low, range.low + (range.high - range.low) / 2);
            range.at += 1;
        }
        let end = (range.at + 200).min(range.high);
        for at in range.at..end {
            cpu.jump(MAIN + 0x600);
            cpu.run(6);
            if self.before(cpu, at, range.low) {
                range.last += 1;
                self.swap(cpu, range.last, at);
            }
        }
        range.at = end;
        if end < range.high {
            self.ranges.push(range);
            return;
        }
        self.swap(cpu, range.low, range.last);
        for (low, high) in [(range.low, range.last), (range.last + 1, range.high)] {
            if high > low + 1 {
                self.ranges.push(SortRange { low, high, at: low, last: low });
            }
        }
    }
}

impl Work for Sort {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        if let Some(block) = self.input.fill(cpu, self.text + self.input.read as u64) {
            self.scan(cpu, block);
            return Some(after_read(&mut self.draws));
        }
        if !self.split {
            self.split = true;
            self.ranges.push(SortRange { low: 0, high: self.lines.len(), at: 0, last: 0 });
        }
        if let Some(range) = self.ranges.pop() {
            self.partition(cpu, range);
            return Some(Status::Ready);
        }
        let end = (self.next + 200).min(self.lines.len());
        for line in self.next..end {
            cpu.jump(MAIN + 0x900);
            cpu.run(5);
            cpu.load(self.pointers + 4 * line as u64, 4);
            let (first, length) = self.lines[line];
            for word in 0..=u64::from(length) / 4 {
                cpu.jump(MAIN + 0x920);
                cpu.run(3);
                cpu.load((self.text + u64::from(first)) / 4 * 4 + 4 * word, 4);
                cpu.run(2);
                cpu.store(self.output.at() + 4 * word, 4);
            }
            self.output.put(cpu, u64::from(length) + 1);
        }
        self.next = end;
        if end == self.lines.len() {
            self.output.flush(cpu);
            return None;
        }
        Some(Status::Ready)
    }
}

/// `Ls` is ls -l: it reads a directory, calls stat for each entry, sorts the names and prints them.
struct Ls {
    draws: DataRng,
    names: Vec<u64>,
    entries: u64,
    asked: usize,
    sorted: usize,
    printed: usize,
    output: TextOutput,
}

pub(crate) fn start_ls(mut draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let count = 20 + draws.below(150);
    let names = (0..count).map(|_| draws.next()).collect();
    let entries = cpu.sbrk(count * 96);
    begin(Ls { draws, names, entries, asked: 0, sorted: 1, printed: 0, output: TextOutput::default() })
}

impl Work for Ls {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        let entry = |index: usize| self.entries + 96 * index as u64;
        if self.asked < self.names.len() {
            let at = entry(self.asked);
            cpu.jump(MAIN + 0x100);
            for word in 0..8 {
                cpu.run(6);
                cpu.load(INPUT + 32 * (self.asked as u64 % 250) + 4 * (word % 8), 4);
                cpu.run(3);
                cpu.store(at + 4 * word, 4);
            }
            cpu.syscall(call::STAT, at, 64, None);
            self.asked += 1;
            return Some(if self.draws.below(12) == 0 { waits(call::STAT) } else { Status::Ready });
        }
        if self.sorted < self.names.len() {
            // Insert one name.
            let mut at = self.sorted;
            while at > 0 && self.names[at - 1] > self.names[at] {
                cpu.jump(MAIN + 0x300);
                cpu.run(7);
                cpu.load(entry(at - 1), 4);
                cpu.run(4);
                cpu.load(entry(at), 4);
                cpu.run(6);
                cpu.store(entry(at) + 92, 4);
                self.names.swap(at - 1, at);
                at -= 1;
            }
            self.sorted += 1;
            return Some(Status::Ready);
        }
        if self.printed < self.names.len() {
            cpu.jump(MAIN + 0x500);
            cpu.run(9);
            cpu.load(entry(self.printed), 4);
            let out = self.output.at();
            LIBC.print(cpu, DATA + 0x900, out, 7);
            self.output.put(cpu, 60);
            self.printed += 1;
            return Some(Status::Ready);
        }
        self.output.flush(cpu);
        None
    }
}
