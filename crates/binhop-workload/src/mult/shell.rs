//! `Shell` is a shell with a user who types. The shell parses a line, forks a command, waits for it, and reads the next
//! line.
//!
//! The commands are ls, grep, sort and wc in the proportion of a working day. While the user thinks, a read
//! from the terminal gives up the processor. The shell is small: a parser, a table of names, a hash of
//! commands. Another shell runs a script in an endless loop, without a user: cp, cat, ex, rm, ps and ls.

use super::{libc::Libc, unix};
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Command, Program, SeededStart, Status, call};

pub(crate) const IMAGE: Image =
    Image { name: "sh", segment: 10, text: 96 << 10, data: 16 << 10, initialised: 8 << 10 };

const PARSE: u64 = TEXT + 0x2000;
const EXPAND: u64 = TEXT + 0x5000;
const HASH: u64 = TEXT + 0x7000;
const LIBC: Libc = Libc::at(TEXT + 0x1_2000);
/// The least number of instructions that other processes execute while the user thinks; the most is three
/// times this.
const THINK: u64 = 6_000_000;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let names = cpu.sbrk(48 << 10);
    Box::new(Shell { draws, script: false, names, line: 0, state: State::Begin, typed: Vec::new() })
}

/// The lines of the script, with the commands that they start.
const SCRIPT: &[(&[u8], Image, SeededStart)] = &[
    (b"cp $src/commands/CmdSubrs.c tmp.c ", unix::CP, unix::start_cp),
    (b"cat tmp.c $src/misc/magic.h ", unix::CAT, unix::start_cat),
    (b"ex - tmp.c < edit.script ", unix::EX, unix::start_ex),
    (b"rm -f tmp.c edit.out core ", unix::RM, unix::start_rm),
    (b"ps -aux ", unix::PS, unix::start_ps),
    (b"ls -l $src ", unix::LS, unix::start_ls_sources),
];

/// Starts a shell that runs the script.
pub(crate) fn start_script(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let names = cpu.sbrk(48 << 10);
    Box::new(Shell { draws, script: true, names, line: 0, state: State::Begin, typed: Vec::new() })
}

enum State {
    Begin,
    Prompt,
    Line,
    Wait,
}

struct Shell {
    draws: DataRng,
    /// Whether the shell runs the script.
    script: bool,
    /// The address of the variables' and commands' names.
    names: u64,
    line: u64,
    state: State,
    typed: Vec<u8>,
}

impl Shell {
    /// Splits the line into words, expands variables, finds the command in the hash table.
    fn parse(&mut self, cpu: &mut Cpu) -> u64 {
        let mut hash = 0u64;
        let mut words = 0;
        for (at, &byte) in self.typed.iter().enumerate() {
            cpu.jump(PARSE + 0x40 * u64::from(byte & 0x0f));
            cpu.run(7);
            cpu.load(DATA + 0x2000 + (at as u64 & !3), 4);
            cpu.run(4);
            cpu.load(super::libc::CLASSES + (u64::from(byte) & !3), 4);
            cpu.run(5);
            cpu.store(DATA + 0x2400 + (at as u64 & !3), 4);
            if byte == b' ' {
                words += 1;
                cpu.call(EXPAND + 0x300 * (words % 8), 4, 6);
                let mut probe = hash % 1024;
                for _ in 0..6 {
                    cpu.jump(EXPAND + 0x2000);
                    cpu.run(8);
                    cpu.load(self.names + 48 * probe, 4);
                    cpu.run(5);
                    cpu.load(self.names + 48 * probe + 8, 4);
                    probe = (probe * 5 + 1) % 1024;
                }
                cpu.ret(4, 6);
            }
            hash = hash.wrapping_mul(31).wrapping_add(u64::from(byte));
        }
        cpu.jump(HASH);
        cpu.run(12);
        cpu.load(self.names + 48 * (hash % 1024), 4);
        cpu.run(4);
        cpu.store(self.names + 48 * (hash % 1024) + 16, 4);
        hash
    }

    fn command(&mut self) -> Command {
        let draws = DataRng::new(self.draws.next(), self.line);
        if self.script {
            // `line` counts the lines that were parsed.
            let (_, image, start) = SCRIPT[(self.line as usize - 1) % SCRIPT.len()];
            return Command { image, start: Box::new(move |cpu| start(draws, cpu)) };
        }
        let (image, start): (Image, SeededStart) = match self.draws.below(8) {
            0..=2 => (unix::LS, unix::start_ls),
            3..=5 => (unix::GREP, unix::start_grep),
            6 => (unix::SORT, unix::start_sort),
            _ => (unix::WC, unix::start_wc),
        };
        Command { image, start: Box::new(move |cpu| start(draws, cpu)) }
    }
}

impl Program for Shell {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        match self.state {
            State::Begin => {
                LIBC.startup(cpu);
                self.state = State::Prompt;
                Status::Ready
            }
            State::Prompt if self.script => {
                // The script is small: its only block stays in the shell's buffer.
                self.typed = SCRIPT[self.line as usize % SCRIPT.len()].0.to_vec();
                self.state = State::Line;
                Status::Ready
            }
            State::Prompt => {
                let length = 8 + self.draws.below(40);
                self.typed = (0..length)
                    .map(|_| if self.draws.below(6) == 0 { b' ' } else { b'a' + self.draws.below(26) as u8 })
                    .collect();
                LIBC.fill(cpu, DATA + 0x2000, length as u32, (0, 0));
                self.state = State::Line;
                Status::Blocked { call: call::READ, latency: THINK + self.draws.below(2 * THINK) }
            }
            State::Line => {
                self.parse(cpu);
                self.line += 1;
                cpu.syscall(call::FORK, 0, 0, None);
                self.state = State::Wait;
                Status::Fork(self.command())
            }
            State::Wait => {
                cpu.syscall(call::WAIT, 0, 0, None);
                self.state = State::Prompt;
                Status::Wait
            }
        }
    }
}
