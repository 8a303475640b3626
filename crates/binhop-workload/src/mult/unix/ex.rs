//! ex edits a file by a script: it reads the file into its buffer, substitutes a word on every line, and
//! writes the file.
//!
//! The buffer is a text that only grows, and an array with the place of each line. A substitution appends the
//! new line to the text and changes the line's place, as ex does in its temporary file.

use super::{LIBC, MAIN, TextInput, TextOutput, Work, after_read, begin};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::mult::libc::waits;
use crate::program::{Program, Status, call};

const MATCH: u64 = MAIN + 0x6000;
const REPLACE: u64 = MAIN + 0x8000;
const READ: u64 = MAIN + 0x9000;
const WRITE: u64 = MAIN + 0xa000;

/// `Ex` is the editor while it runs a script on one file.
struct Ex {
    draws: DataRng,
    input: TextInput,
    pattern: Vec<u8>,
    replacement: Vec<u8>,
    /// The text of all lines, old and new.
    text: Vec<u8>,
    /// The first byte and the length of each line.
    lines: Vec<(u32, u32)>,
    open: usize,
    edited: usize,
    written: usize,
    output: TextOutput,
    buffer: u64,
    places: u64,
}

pub(crate) fn start_ex(mut draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let words = 8_000 + draws.below(24_000);
    let input = TextInput::new(&mut draws, words);
    let pattern = input.text[40..42].to_vec();
    begin(Ex::new(draws, input, pattern, b"poly".to_vec(), cpu))
}

impl Ex {
    fn new(draws: DataRng, input: TextInput, pattern: Vec<u8>, replacement: Vec<u8>, cpu: &mut Cpu) -> Self {
        // Every match may make its line longer, and each changed line is a further copy.
        let buffer = cpu.sbrk(5 * input.text.len() as u64);
        let places = cpu.sbrk(4 * input.text.iter().filter(|&&b| b == b'\n').count() as u64 + 8);
        Self {
            draws,
            input,
            pattern,
            replacement,
            text: Vec::new(),
            lines: Vec::new(),
            open: 0,
            edited: 0,
            written: 0,
            output: TextOutput::default(),
            buffer,
            places,
        }
    }

    /// Appends the block that was read to the buffer, and enters its lines.
    fn append(&mut self, cpu: &mut Cpu, block: std::ops::Range<usize>) {
        for at in (block.start & !3..block.end).step_by(4) {
            cpu.jump(READ);
            cpu.run(3);
            cpu.load(self.buffer + at as u64, 4);
            cpu.run(4);
            cpu.load_local(0);
            cpu.run(2);
            for byte in at.max(block.start)..(at + 4).min(block.end) {
                self.text.push(self.input.text[byte]);
                if self.input.text[byte] == b'\n' {
                    cpu.jump(READ + 0x80);
                    cpu.run(8);
                    cpu.store(self.places + 4 * self.lines.len() as u64, 4);
                    self.lines.push((self.open as u32, (byte - self.open) as u32));
                    self.open = byte + 1;
                }
            }
        }
    }

    /// Returns whether the pattern matches the line at `at`.
    fn matches(&self, cpu: &mut Cpu, line: (u32, u32), at: u32) -> bool {
        let from = (line.0 + at) as usize;
        let end = (line.0 + line.1) as usize;
        cpu.jump(MATCH + 0x40);
        cpu.run(2);
        cpu.load(self.buffer + from as u64 / 4 * 4, 4);
        cpu.run(3);
        cpu.load_local(1);
        cpu.run(2);
        cpu.store_local(2);
        cpu.run(1);
        let same = self.pattern.iter().zip(&self.text[from..end]).take_while(|(p, b)| p == b).count();
        for byte in 0..same {
            cpu.jump(MATCH + 0x100);
            cpu.run(6);
            cpu.load(self.buffer + (from + byte) as u64 / 4 * 4, 4);
            cpu.run(4);
        }
        same == self.pattern.len()
    }

    /// Substitutes on one line.
    fn substitute(&mut self, cpu: &mut Cpu, index: usize) {
        let line = self.lines[index];
        cpu.jump(MAIN + 0x400);
        cpu.run(3);
        cpu.load(self.places + 4 * index as u64, 4);
        cpu.call(MATCH, 4, 4);
        let mut changed = Vec::new();
        let (mut at, mut kept) = (0, 0);
        let bytes = |from: u32, to: u32| (line.0 + from) as usize..(line.0 + to) as usize;
        while at < line.1 {
            if self.matches(cpu, line, at) {
                changed.extend_from_slice(&self.text[bytes(kept, at)]);
                changed.extend_from_slice(&self.replacement);
                at += self.pattern.len() as u32;
                kept = at;
            } else {
                at += 1;
            }
        }
        cpu.ret(4, 4);
        if kept == 0 {
            return;
        }
        changed.extend_from_slice(&self.text[bytes(kept, line.1)]);
        cpu.call(REPLACE, 3, 4);
        let to = self.text.len() as u64;
        for word in 0..=changed.len() as u64 / 4 {
            cpu.jump(REPLACE + 0x60);
            cpu.run(3);
            cpu.load((self.buffer + u64::from(line.0)) / 4 * 4 + 4 * word.min(u64::from(line.1) / 4), 4);
            cpu.run(4);
            cpu.store((self.buffer + to) / 4 * 4 + 4 * word, 4);
        }
        cpu.run(6);
        cpu.store(self.places + 4 * index as u64, 4);
        cpu.ret(3, 4);
        self.lines[index] = (to as u32, changed.len() as u32);
        self.text.extend_from_slice(&changed);
    }

    /// Writes one line to the output's buffer.
    fn write(&mut self, cpu: &mut Cpu, index: usize) {
        let (first, length) = self.lines[index];
        cpu.jump(WRITE);
        cpu.run(6);
        cpu.load(self.places + 4 * index as u64, 4);
        for word in 0..=u64::from(length) / 4 {
            cpu.jump(WRITE + 0x40);
            cpu.run(3);
            cpu.load((self.buffer + u64::from(first)) / 4 * 4 + 4 * word, 4);
            cpu.run(3);
            cpu.store(self.output.at() + 4 * word, 4);
        }
        self.output.put(cpu, u64::from(length) + 1);
    }
}

impl Work for Ex {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        cpu.jump(MAIN + 0x200);
        if let Some(block) = self.input.fill(cpu, self.buffer + self.input.read as u64) {
            self.append(cpu, block);
            return Some(after_read(&mut self.draws));
        }
        if self.edited < self.lines.len() {
            let end = (self.edited + 40).min(self.lines.len());
            for line in self.edited..end {
                self.substitute(cpu, line);
            }
            self.edited = end;
            return Some(Status::Ready);
        }
        if self.written == self.lines.len() {
            LIBC.print(cpu, crate::address_space::DATA + 0x900, super::OUTPUT, 3);
            self.output.flush(cpu);
            return None;
        }
        let (end, before) = ((self.written + 200).min(self.lines.len()), self.output.written);
        for line in self.written..end {
            self.write(cpu, line);
        }
        self.written = end;
        let wrote = self.output.written > before && self.draws.below(3) == 0;
        Some(if wrote { waits(call::WRITE) } else { Status::Ready })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn a_substitution_changes_what_matches_and_nothing_else() {
        let mut draws = DataRng::new(5, 2);
        let mut cpu = Cpu::new(AddressSpace::new(super::super::EX, 1));
        let input = TextInput::new(&mut draws, 3_000);
        let expected = String::from_utf8(input.text.clone()).unwrap().replace("ab", "poly");
        let mut ex = Ex::new(draws, input, b"ab".to_vec(), b"poly".to_vec(), &mut cpu);
        while ex.piece(&mut cpu).is_some() {
            cpu.finish_step();
            cpu.rows.clear();
        }
        let line = |&(first, length): &(u32, u32)| &ex.text[first as usize..(first + length) as usize];
        let found: Vec<&[u8]> = ex.lines.iter().map(line).collect();
        assert_eq!([found.join(&b'\n'), b"\n".to_vec()].concat(), expected.as_bytes());
        assert!(expected.contains("poly"));
        assert_eq!(ex.output.written, expected.len() as u64);
        assert_eq!(cpu.depth(), 0);
    }
}
