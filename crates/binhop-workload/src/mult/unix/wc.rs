//! wc counts characters, words and lines.

use super::{BLOCK, INPUT, LIBC, MAIN, OUTPUT, TextInput, Work, after_read, begin};
use crate::address_space::DATA;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::mult::libc::CLASSES;
use crate::program::{Program, Status};

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
