//! ls -l lists a directory.

use super::{INPUT, LIBC, MAIN, TextOutput, Work, begin};
use crate::address_space::DATA;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::mult::libc::waits;
use crate::program::{Program, Status, call};

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
    start_directory(draws, cpu, count)
}

/// Starts ls on a directory of sources.
pub(crate) fn start_ls_sources(mut draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    let count = 150 + draws.below(300);
    start_directory(draws, cpu, count)
}

fn start_directory(mut draws: DataRng, cpu: &mut Cpu, count: u64) -> Box<dyn Program> {
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
