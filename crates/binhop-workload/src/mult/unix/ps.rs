//! ps lists the processes: it looks up the kernel's symbols, reads the table of processes and each process's
//! user area, sorts, and prints. rm removes files.

use super::{INPUT, LIBC, MAIN, TextOutput, Work, begin};
use crate::address_space::DATA;
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::mult::libc::waits;
use crate::program::{Program, Status, call};

/// The symbols of the kernel, and how many of them ps needs.
const SYMBOLS: u64 = 9_600;
const WANTED: usize = 8;
/// The symbols in a block of the kernel's image.
const SYMBOLS_IN_BLOCK: u64 = 600;

/// `Ps` is ps -aux.
struct Ps {
    draws: DataRng,
    symbols: Vec<u64>,
    wanted: [u64; WANTED],
    /// The place of each wanted symbol in the table.
    found: [Option<u64>; WANTED],
    searched: u64,
    processes: Vec<u64>,
    asked: usize,
    sorted: usize,
    printed: usize,
    output: TextOutput,
    table: u64,
}

pub(crate) fn start_ps(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    begin(Ps::new(draws, cpu))
}

impl Ps {
    fn new(mut draws: DataRng, cpu: &mut Cpu) -> Self {
        let symbols: Vec<u64> = (0..SYMBOLS).map(|_| draws.next()).collect();
        let wanted = std::array::from_fn(|_| symbols[draws.below(SYMBOLS) as usize]);
        let count = 40 + draws.below(40);
        Self {
            symbols,
            wanted,
            found: [None; WANTED],
            searched: 0,
            processes: (0..count).map(|_| draws.below(30_000)).collect(),
            draws,
            asked: 0,
            sorted: 1,
            printed: 0,
            output: TextOutput::default(),
            table: cpu.sbrk(count * 120),
        }
    }

    /// Compares one block of the kernel's symbols with the wanted names, as nlist does.
    fn search(&mut self, cpu: &mut Cpu) {
        let end = (self.searched + SYMBOLS_IN_BLOCK).min(SYMBOLS);
        LIBC.fill(cpu, INPUT, 12 * SYMBOLS_IN_BLOCK as u32, (7, 12 * self.searched));
        for symbol in self.searched..end {
            cpu.jump(MAIN + 0x200);
            cpu.run(3);
            cpu.load(INPUT + 12 * (symbol % SYMBOLS_IN_BLOCK), 4);
            cpu.run(2);
            cpu.load(DATA + 0x900, 4);
            cpu.run(3);
            for (name, &wanted) in self.wanted.iter().enumerate() {
                // nlist compares the first character before it calls strcmp.
                let same = self.symbols[symbol as usize] == wanted;
                if same || self.symbols[symbol as usize] % 26 == wanted % 26 {
                    cpu.jump(MAIN + 0x280);
                    for word in 0..2 {
                        cpu.run(5);
                        cpu.load(DATA + 0x940 + 16 * name as u64 + 4 * word, 4);
                        cpu.run(4);
                    }
                }
                if same {
                    self.found[name] = Some(symbol);
                    cpu.store(DATA + 0xa00 + 4 * name as u64, 4);
                }
            }
        }
        self.searched = end;
    }

    /// Reads the table's entry of a process, and its user area.
    fn read(&mut self, cpu: &mut Cpu) {
        let entry = self.table + 120 * self.asked as u64;
        LIBC.fill(cpu, INPUT, 1024, (8, 1024 * self.asked as u64));
        cpu.jump(MAIN + 0x400);
        for word in 0..30 {
            cpu.run(5);
            cpu.load(INPUT + 32 * word, 4);
            cpu.run(4);
            cpu.store(entry + 4 * word, 4);
        }
        self.asked += 1;
    }

    /// Inserts the next process among the sorted ones.
    fn insert(&mut self, cpu: &mut Cpu) {
        let entry = |index: usize| self.table + 120 * index as u64;
        let mut at = self.sorted;
        while at > 0 && self.processes[at - 1] > self.processes[at] {
            cpu.jump(MAIN + 0x500);
            cpu.run(6);
            cpu.load(entry(at - 1), 4);
            cpu.run(3);
            cpu.load(entry(at), 4);
            cpu.run(6);
            cpu.store(entry(at) + 116, 4);
            self.processes.swap(at - 1, at);
            at -= 1;
        }
        self.sorted += 1;
    }
}

impl Work for Ps {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        cpu.jump(MAIN + 0x100);
        if self.searched < SYMBOLS {
            self.search(cpu);
            return Some(if self.draws.below(3) == 0 { waits(call::READ) } else { Status::Ready });
        }
        if self.asked < self.processes.len() {
            self.read(cpu);
            // The user area of one process in sixteen is swapped out.
            return Some(if self.draws.below(16) == 0 { waits(call::READ) } else { Status::Ready });
        }
        if self.sorted < self.processes.len() {
            self.insert(cpu);
            return Some(Status::Ready);
        }
        if self.printed < self.processes.len() {
            LIBC.print(cpu, DATA + 0x900, self.output.at(), 8);
            self.output.put(cpu, 70);
            self.printed += 1;
            return Some(Status::Ready);
        }
        self.output.flush(cpu);
        None
    }
}

/// `Rm` removes files: for each name it asks for the file's status, and unlinks the file.
struct Rm {
    names: u64,
    removed: u64,
    asked: bool,
}

pub(crate) fn start_rm(mut draws: DataRng, _: &mut Cpu) -> Box<dyn Program> {
    begin(Rm { names: 1 + draws.below(3), removed: 0, asked: false })
}

impl Work for Rm {
    fn piece(&mut self, cpu: &mut Cpu) -> Option<Status> {
        if self.removed == self.names {
            return None;
        }
        if !self.asked {
            self.asked = true;
            for byte in 0..24 {
                cpu.jump(MAIN + 0x100);
                cpu.run(4);
                cpu.load_local(byte / 4);
                cpu.run(4);
                cpu.store(DATA + 0x1000 + byte / 4 * 4, 4);
                cpu.run(2);
            }
            cpu.syscall(call::STAT, DATA + 0x1000, 64, None);
            return Some(Status::Ready);
        }
        self.asked = false;
        self.removed += 1;
        cpu.jump(MAIN + 0x180);
        cpu.run(11);
        cpu.syscall(call::UNLINK, DATA + 0x1000, 0, None);
        // 4.3BSD writes a directory before the call returns.
        Some(waits(call::UNLINK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn ps_finds_its_symbols_and_sorts_the_processes() {
        let mut cpu = Cpu::new(AddressSpace::new(super::super::PS, 1));
        let mut ps = Ps::new(DataRng::new(1, 9), &mut cpu);
        while ps.piece(&mut cpu).is_some() {
            cpu.finish_step();
            cpu.rows.clear();
        }
        for (wanted, found) in ps.wanted.iter().zip(ps.found) {
            assert_eq!(ps.symbols[found.unwrap() as usize], *wanted);
        }
        assert!(ps.processes.is_sorted() && ps.processes.len() >= 40);
        assert_eq!(cpu.depth(), 0);
    }
}
