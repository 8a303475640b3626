//! cat and cp copy files. cat copies byte by byte through the library's streams; cp moves whole blocks.

use super::{BLOCK, INPUT, LIBC, MAIN, TextInput, TextOutput, Work, after_read, begin};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::mult::libc::{STREAMS, waits};
use crate::program::{Program, Status, call};

/// `Cat` copies a file with getc and putc.
struct Cat {
    draws: DataRng,
    input: TextInput,
    block: Option<std::ops::Range<usize>>,
    output: TextOutput,
    copied: Vec<u8>,
}

pub(crate) fn start_cat(mut draws: DataRng, _: &mut Cpu) -> Box<dyn Program> {
    let words = 20_000 + draws.below(60_000);
    let input = TextInput::new(&mut draws, words);
    begin(Cat::new(draws, input))
}

impl Cat {
    fn new(draws: DataRng, input: TextInput) -> Self {
        Self { draws, input, block: None, output: TextOutput::default(), copied: Vec::new() }
    }
}

impl Work for Cat {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        let Some(block) = self.block.take() else {
            cpu.jump(MAIN + 0x40);
            self.block = Some(self.input.fill(cpu, INPUT).or_else(|| {
                self.output.flush(cpu);
                None
            })?);
            return Some(after_read(&mut self.draws));
        };
        // A step stays within its rows: a piece has at most 2 KB.
        let end = (block.start + 2048).min(block.end);
        for at in block.start..end {
            cpu.jump(MAIN + 0x80);
            cpu.run(1);
            cpu.load(STREAMS + 8, 4);
            cpu.run(1);
            cpu.store(STREAMS + 8, 4);
            cpu.run(1);
            cpu.load(INPUT + (at % BLOCK) as u64 / 4 * 4, 4);
            cpu.run(3);
            cpu.store(self.output.at(), 4);
            cpu.run(3);
            self.copied.push(self.input.text[at]);
            self.output.put(cpu, 1);
        }
        self.block = (end < block.end).then_some(end..block.end);
        Some(Status::Ready)
    }
}

/// `Cp` copies a file block by block.
struct Cp {
    draws: DataRng,
    input: TextInput,
    written: usize,
}

pub(crate) fn start_cp(mut draws: DataRng, _: &mut Cpu) -> Box<dyn Program> {
    let words = 20_000 + draws.below(60_000);
    let input = TextInput::new(&mut draws, words);
    begin(Cp { draws, input, written: 0 })
}

impl Work for Cp {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        cpu.jump(MAIN + 0x140);
        if self.written < self.input.read {
            LIBC.drain(cpu, INPUT, (self.input.read - self.written) as u32, (6, self.written as u64));
            self.written = self.input.read;
            return Some(if self.draws.below(8) == 0 { waits(call::WRITE) } else { Status::Ready });
        }
        cpu.jump(MAIN + 0x180);
        cpu.run(14);
        cpu.load_local(2);
        cpu.run(9);
        self.input.fill(cpu, INPUT)?;
        Some(after_read(&mut self.draws))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn cat_copies_every_byte() {
        let mut draws = DataRng::new(3, 3);
        let mut cpu = Cpu::new(AddressSpace::new(super::super::CAT, 1));
        let input = TextInput::new(&mut draws, 4_000);
        let mut cat = Cat::new(draws, input);
        while cat.piece(&mut cpu).is_some() {
            cpu.finish_step();
            cpu.rows.clear();
        }
        assert!(cat.copied == cat.input.text && cat.copied.len() > 2 * BLOCK);
        assert_eq!(cat.output.written, cat.copied.len() as u64);
        assert_eq!(cpu.depth(), 0);
    }
}
