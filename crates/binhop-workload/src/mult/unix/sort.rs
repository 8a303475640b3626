//! sort reads all lines, sorts them by quicksort, and writes them.

use super::{MAIN, TextInput, TextOutput, Work, after_read, begin};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

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
