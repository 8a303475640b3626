//! grep finds a word with Horspool's search and prints the lines that contain it.

use super::{BLOCK, INPUT, LIBC, MAIN, TextInput, TextOutput, Work, after_read, begin};
use crate::address_space::DATA;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status};

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
