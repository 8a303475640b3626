//! `Make` and `As` are make and the assembler: together with the compiler they make a series of compiles.
//!
//! `make` walks its dependency graph, and starts the compiler and then the assembler for one file after the
//! other, without end. Another makefile links programs instead. The assembler reads mnemonics and operands, enters
//! labels in a table, and encodes in a second pass. It has 0.3 to 0.7 MB.

use super::ccom::{self, Ccom};
use super::libc::{CLASSES, Libc, waits};
use super::link;
use super::source::hash;
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Command, Program, Status, call};

pub(crate) const MAKE: Image =
    Image { name: "make", segment: 15, text: 80 << 10, data: 24 << 10, initialised: 8 << 10 };
pub(crate) const AS: Image =
    Image { name: "as", segment: 17, text: 128 << 10, data: 48 << 10, initialised: 24 << 10 };

pub(crate) fn start_make(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    start_recipe(draws, cpu, Recipe::Compile { functions: (16, 60), lines: (1_500, 6_000), looped: false })
}

pub(crate) fn start_recipe(draws: DataRng, cpu: &mut Cpu, recipe: Recipe) -> Box<dyn Program> {
    let graph = cpu.sbrk(160 << 10);
    Box::new(Make { draws, recipe, graph, file: 0, step: 0 })
}

/// `Recipe` says what make does for a target.
#[derive(Clone, Copy)]
pub(crate) enum Recipe {
    /// Compile a file and assemble it. The pairs give the least numbers of functions and lines, and how many
    /// more there may be. `looped` is [`As::looped`].
    Compile { functions: (u64, u64), lines: (u64, u64), looped: bool },
    /// Link a program of `least` to `least + more` object files. Of the linker's reads, 1 in `disk` waits.
    Link { least: u64, more: u64, disk: u64 },
}

/// `Make` walks the dependency graph of each target, and then runs the target's commands.
struct Make {
    draws: DataRng,
    recipe: Recipe,
    graph: u64,
    file: u64,
    step: u32,
}

impl Program for Make {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        let libc = Libc::at(TEXT + 0xc000);
        self.step = (self.step + 1) % 5;
        match self.step {
            1 => {
                for dependency in 0..12 + self.draws.below(20) {
                    let mut node = (self.file * 7 + dependency * 13) % 1600;
                    for _ in 0..6 {
                        cpu.jump(TEXT + 0x2000 + 0x100 * (node % 24));
                        cpu.run(11);
                        cpu.load(self.graph + 96 * node, 4);
                        cpu.run(8);
                        cpu.load(self.graph + 96 * node + 24, 4);
                        cpu.run(6);
                        node = (node * 3 + 1) % 1600;
                    }
                    cpu.syscall(call::STAT, self.graph + 96 * node, 64, None);
                    cpu.store(self.graph + 96 * node + 32, 4);
                    libc.print(cpu, DATA + 0x900, DATA + 0x3000, 1);
                }
                waits(call::STAT)
            }
            2 => {
                cpu.syscall(call::FORK, 0, 0, None);
                let draws = DataRng::new(self.draws.next(), self.file);
                match self.recipe {
                    Recipe::Compile { functions, .. } => Status::Fork(Command {
                        image: ccom::IMAGE,
                        start: Box::new(move |cpu| Box::new(Ccom::new(draws, cpu, functions))),
                    }),
                    Recipe::Link { least, more, disk } => {
                        self.file += 1;
                        let objects = (least + self.draws.below(more)) as usize;
                        let start = move |cpu: &mut Cpu| link::start_once(draws, cpu, objects, disk);
                        Status::Fork(Command { image: link::IMAGE, start: Box::new(start) })
                    }
                }
            }
            4 => {
                let Recipe::Compile { lines, looped, .. } = self.recipe else { return Status::Ready };
                cpu.syscall(call::FORK, 0, 0, None);
                let draws = DataRng::new(self.draws.next(), self.file);
                self.file += 1;
                Status::Fork(Command {
                    image: AS,
                    start: Box::new(move |cpu| Box::new(As { looped, ..As::new(draws, cpu, lines) })),
                })
            }
            _ => {
                cpu.syscall(call::WAIT, 0, 0, None);
                Status::Wait
            }
        }
    }
}

/// `Line` is a line of assembly: an optional label, a mnemonic, and the label that it refers to, if any.
#[derive(Clone, Copy)]
struct Line {
    label: Option<u64>,
    mnemonic: u64,
    target: Option<u64>,
}

const TABLE: usize = 4096;
const AS_LIBC: Libc = Libc::at(TEXT + 0x1_8000);
const ENCODE: u64 = TEXT + 0x4000;

/// `As` is the assembler while it assembles one file.
struct As {
    draws: DataRng,
    /// Whether the code that calls the encoder for each line is a loop. In mult1 and mult2 it is straight-line
    /// code, which is too long for a large file. Their streams stay as they are.
    looped: bool,
    begun: bool,
    lines: Vec<Line>,
    read: usize,
    encoded: usize,
    /// The table of labels with open addressing: a label's name and its line.
    table: Vec<(u64, u32)>,
    output: Vec<u32>,
    address: [u64; 3],
}

impl As {
    fn new(mut draws: DataRng, cpu: &mut Cpu, lines: (u64, u64)) -> Self {
        let count = (lines.0 + draws.below(lines.1)) as usize;
        let name = |number: u64| hash(&number.to_le_bytes());
        let lines = (0..count as u64)
            .map(|line| Line {
                label: (line % 7 == 0).then(|| name(line / 7)),
                mnemonic: draws.below(160),
                target: (draws.below(5) == 0).then(|| name(draws.below((count as u64).div_ceil(7)))),
            })
            .collect();
        let address = [cpu.sbrk(8 * TABLE as u64), cpu.sbrk(32 * count as u64), cpu.sbrk(4 * count as u64)];
        let table = vec![(0, u32::MAX); TABLE];
        Self {
            draws,
            looped: false,
            begun: false,
            lines,
            read: 0,
            encoded: 0,
            table,
            output: Vec::new(),
            address,
        }
    }

    /// Returns the slot of a label in the table, or the empty slot for it.
    fn slot(&self, cpu: &mut Cpu, name: u64) -> usize {
        let mut slot = name as usize % TABLE;
        loop {
            cpu.jump(TEXT + 0x3000);
            cpu.run(5);
            cpu.load(self.address[0] + 8 * slot as u64, 4);
            cpu.run(4);
            let entry = self.table[slot];
            if entry.1 == u32::MAX || entry.0 == name {
                return slot;
            }
            slot = (slot + 1) % TABLE;
        }
    }

    fn scan(&mut self, cpu: &mut Cpu, at: usize) {
        let line = self.lines[at];
        for word in 0..6 {
            cpu.jump(TEXT + 0x2000 + 0x80 * word);
            cpu.run(3);
            cpu.load(DATA + 0x1000 + (at as u64 * 24 + 4 * word) % 8192, 4);
            for byte in 0..4 {
                cpu.jump(TEXT + 0x2400);
                cpu.run(3);
                cpu.load(CLASSES + 4 * ((line.mnemonic * 7 + word + byte) % 64), 4);
                cpu.run(2);
                cpu.load_local(1);
                cpu.run(2);
                cpu.store_local(2);
                cpu.run(1);
            }
        }
        cpu.load(DATA + 0x4000 + 32 * line.mnemonic, 4);
        if let Some(label) = line.label {
            let slot = self.slot(cpu, label);
            self.table[slot] = (label, at as u32);
            cpu.store(self.address[0] + 8 * slot as u64, 4);
            cpu.store(self.address[0] + 8 * slot as u64 + 4, 4);
        }
        cpu.jump(TEXT + 0x3400);
        for word in 0..5 {
            cpu.run(3);
            cpu.store(self.address[1] + 32 * at as u64 + 4 * word, 4);
        }
    }

    fn encode(&mut self, cpu: &mut Cpu, at: usize) {
        let line = self.lines[at];
        if self.looped {
            cpu.jump(TEXT + 0x1000);
        }
        cpu.call(ENCODE + 0x140 * line.mnemonic, 3, 2);
        for word in 0..4 {
            cpu.run(4);
            cpu.load(self.address[1] + 32 * at as u64 + 4 * word, 4);
            cpu.run(4);
            cpu.store_local(0);
            cpu.run(2);
        }
        cpu.load(DATA + 0x4000 + 32 * line.mnemonic + 8, 4);
        let offset = line.target.map_or(0, |name| {
            let slot = self.slot(cpu, name);
            cpu.load(self.address[0] + 8 * slot as u64 + 4, 4);
            self.table[slot].1.wrapping_sub(at as u32) & 0xffff
        });
        cpu.run(7);
        cpu.store(self.address[2] + 4 * at as u64, 4);
        cpu.ret(3, 2);
        self.output.push((line.mnemonic as u32) << 16 | offset);
    }
}

impl Program for As {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        if !self.begun {
            self.begun = true;
            AS_LIBC.startup(cpu);
            return waits(call::OPEN);
        }
        let count = self.lines.len();
        if self.read < count {
            let end = (self.read + 340).min(count);
            AS_LIBC.fill(cpu, DATA + 0x1000, 8160, (4, 24 * self.read as u64));
            for at in self.read..end {
                self.scan(cpu, at);
            }
            self.read = end;
            return if self.draws.below(4) == 0 { waits(call::READ) } else { Status::Ready };
        }
        if self.encoded < count {
            let end = (self.encoded + 300).min(count);
            for at in self.encoded..end {
                self.encode(cpu, at);
            }
            self.encoded = end;
            return Status::Ready;
        }
        AS_LIBC.drain(cpu, self.address[2], 4 * count as u32, (5, 0));
        cpu.syscall(call::EXIT, 0, 0, None);
        Status::Exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn every_reference_to_a_label_is_resolved_to_its_line() {
        let mut cpu = Cpu::new(AddressSpace::new(AS, 1));
        let mut assembler = As::new(DataRng::new(5, 1), &mut cpu, (1_500, 6_000));
        while !matches!(assembler.step(&mut cpu), Status::Exit) {
            cpu.finish_step();
            cpu.rows.clear();
        }
        let mut resolved = 0;
        for (at, line) in assembler.lines.iter().enumerate() {
            let Some(target) = line.target else { continue };
            let to = assembler.lines.iter().position(|l| l.label == Some(target)).unwrap();
            assert_eq!(assembler.output[at] & 0xffff, (to as u32).wrapping_sub(at as u32) & 0xffff);
            resolved += 1;
        }
        assert!(resolved > 100);
        assert_eq!(cpu.depth(), 0);
    }
}
