//! `Linker` is the linker (xld in the documents' mixes; only in mult1): it makes one large program of 160 object files.
//!
//! Pass 1 enters every object's symbols in a hash table and gives each section its place. Pass 2 copies each
//! section to its place in the output, and adds the addresses of symbols to the words that refer to them.
//! Then the output is written. The output has 5 MB, the table and the symbols 0.4 MB. In mult1 the programmer
//! thinks between two links, and the next link overwrites the same memory. In timesharing make starts a linker
//! for each program, and the linker ends.

use super::libc::{Libc, waits};
use super::source::hash;
use crate::address_space::{DATA, Image, TEXT};
use crate::cpu::Cpu;
use crate::data_rng::DataRng;
use crate::program::{Program, Status, call};

pub(crate) const IMAGE: Image =
    Image { name: "xld", segment: 20, text: 128 << 10, data: 48 << 10, initialised: 8 << 10 };

const LOOP: u64 = TEXT + 0x1000;
const HASH: u64 = TEXT + 0x2000;
const ENTER: u64 = TEXT + 0x2800;
const COPY: u64 = TEXT + 0x4000;
const RELOCATE: u64 = TEXT + 0x5000;
const LIBC: Libc = Libc::at(TEXT + 0x1_4000);
const BUFFER: u64 = DATA + 0x2000;

const OBJECTS: usize = 160;
/// The words of a section: 32 KB.
const WORDS: usize = 8 << 10;
const SYMBOLS: u64 = 60;
const BUCKETS: usize = 8 << 10;
const SYMBOL: u64 = 40;
/// The instructions that other processes execute before the next link.
const PAUSE: u64 = 120_000_000;

pub(crate) fn start(draws: DataRng, cpu: &mut Cpu) -> Box<dyn Program> {
    Box::new(Linker::new(draws, cpu, OBJECTS))
}

/// Starts a linker that links `objects` files and ends. Of its reads, 1 in `disk` waits for the disk; the
/// other blocks are in the system's buffers, because the compiler wrote them or the last link read them.
pub(crate) fn start_once(draws: DataRng, cpu: &mut Cpu, objects: usize, disk: u64) -> Box<dyn Program> {
    Box::new(Linker { once: true, disk, ..Linker::new(draws, cpu, objects) })
}

#[derive(Clone, Copy)]
struct LinkSymbol {
    name: u64,
    value: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

enum LinkPhase {
    Begin,
    Enter,
    Copy,
    Write,
}

struct Linker {
    draws: DataRng,
    /// Whether the linker ends after one link.
    once: bool,
    /// One in `disk` reads and writes waits for the disk.
    disk: u64,
    objects: usize,
    phase: LinkPhase,
    object: usize,
    block: usize,
    buckets: Vec<u32>,
    symbols: Vec<LinkSymbol>,
    output: Vec<u32>,
    table: u64,
    entries: u64,
    image: u64,
}

impl Linker {
    fn new(draws: DataRng, cpu: &mut Cpu, objects: usize) -> Self {
        Self {
            draws,
            once: false,
            disk: 1,
            objects,
            phase: LinkPhase::Begin,
            object: 0,
            block: 0,
            buckets: vec![NONE; BUCKETS],
            symbols: Vec::new(),
            output: vec![0; objects * WORDS],
            table: cpu.sbrk(4 * BUCKETS as u64),
            entries: cpu.sbrk(SYMBOL * SYMBOLS * objects as u64),
            image: cpu.sbrk(4 * (objects * WORDS) as u64),
        }
    }

    /// Returns the name of symbol `number` of an object.
    fn name(object: usize, number: u64) -> u64 {
        hash(&(object as u64 * SYMBOLS + number).to_le_bytes())
    }

    /// Finds a symbol; `None` if the table does not hold it.
    fn find(&self, cpu: &mut Cpu, name: u64) -> Option<usize> {
        let bucket = name as usize % BUCKETS;
        for character in 0..3 {
            cpu.jump(HASH);
            cpu.run(3);
            cpu.load(BUFFER + (name + 4 * character) % 8192 / 4 * 4, 4);
            cpu.run(3);
            cpu.load_local(0);
            cpu.run(2);
        }
        cpu.run(4);
        cpu.load(self.table + 4 * bucket as u64, 4);
        let mut at = self.buckets[bucket];
        while at != NONE {
            cpu.jump(HASH + 0x80);
            cpu.run(3);
            cpu.load(self.entries + SYMBOL * u64::from(at), 4);
            cpu.run(3);
            if self.symbols[at as usize].name == name {
                return Some(at as usize);
            }
            cpu.load(self.entries + SYMBOL * u64::from(at) + 8, 4);
            at = self.symbols[at as usize].next;
        }
        None
    }

    /// Enters one symbol of the current object.
    fn enter(&mut self, cpu: &mut Cpu, number: u64) {
        let name = Self::name(self.object, number);
        if self.once {
            // The loop over the symbols. mult1's linker runs on from call to call, past the end of its text;
            // its stream stays as it is.
            cpu.jump(LOOP);
            cpu.run(3);
        }
        cpu.call(ENTER, 4, 2);
        if self.find(cpu, name).is_none() {
            let at = self.symbols.len() as u32;
            let bucket = name as usize % BUCKETS;
            let value = (self.object * WORDS * 4) as u32 + 4 * self.draws.below(WORDS as u64) as u32;
            self.symbols.push(LinkSymbol { name, value, next: self.buckets[bucket] });
            self.buckets[bucket] = at;
            for word in 0..SYMBOL / 4 {
                cpu.run(3);
                cpu.store(self.entries + SYMBOL * u64::from(at) + 4 * word, 4);
            }
            cpu.run(2);
            cpu.store(self.table + 4 * bucket as u64, 4);
        }
        cpu.ret(4, 2);
    }

    /// Returns a word of an object file, and the symbol to which the word refers.
    fn word(object: usize, at: usize) -> (u32, Option<u64>) {
        let mixed =
            (object as u64 * 0x9E37_79B9 + at as u64 * 0x85EB_CA77).wrapping_mul(0xC2B2_AE3D_27D4_EB4F) >> 20;
        // Half of the references are to the object's own symbols.
        let target =
            if mixed & 1 << 29 == 0 { object } else { ((mixed >> 30) % (object as u64 + 1)) as usize };
        let refers = mixed.is_multiple_of(9).then(|| Self::name(target, mixed % SYMBOLS));
        (mixed as u32 & 0xffff, refers)
    }

    /// Copies and relocates a block of the current section.
    fn copy(&mut self, cpu: &mut Cpu, words: std::ops::Range<usize>) {
        for at in words {
            let (content, refers) = Self::word(self.object, at);
            let out = self.object * WORDS + at;
            cpu.jump(COPY);
            cpu.run(2);
            cpu.load(BUFFER + 4 * (at as u64 % 2048), 4);
            cpu.run(2);
            cpu.store(self.image + 4 * out as u64, 4);
            cpu.run(4);
            self.output[out] = content;
            if let Some(name) = refers {
                cpu.call(RELOCATE, 3, 2);
                for word in 0..2 {
                    cpu.run(7);
                    cpu.load(BUFFER + 0x1000 + 4 * word, 4);
                }
                cpu.run(11);
                if let Some(symbol) = self.find(cpu, name) {
                    cpu.load(self.entries + SYMBOL * symbol as u64 + 12, 4);
                    cpu.run(6);
                    cpu.load(self.image + 4 * out as u64, 4);
                    cpu.run(2);
                    cpu.store(self.image + 4 * out as u64, 4);
                    self.output[out] = content.wrapping_add(self.symbols[symbol].value);
                }
                cpu.ret(3, 2);
            }
        }
    }

    /// Returns the status after a read or a write.
    fn transferred(&mut self, number: u32) -> Status {
        if self.disk == 1 || self.draws.below(self.disk) == 0 { waits(number) } else { Status::Ready }
    }

    fn next_object(&mut self, then: LinkPhase) {
        self.block = 0;
        self.object += 1;
        if self.object == self.objects {
            self.object = 0;
            self.phase = then;
        }
    }
}

impl Program for Linker {
    fn step(&mut self, cpu: &mut Cpu) -> Status {
        match self.phase {
            LinkPhase::Begin => {
                LIBC.startup(cpu);
                self.phase = LinkPhase::Enter;
                Status::Ready
            }
            LinkPhase::Enter => {
                LIBC.fill(cpu, BUFFER, 8192, (self.object as u64, (4 * WORDS) as u64));
                for number in 0..SYMBOLS {
                    self.enter(cpu, number);
                }
                self.next_object(LinkPhase::Copy);
                self.transferred(call::READ)
            }
            LinkPhase::Copy => {
                let first = self.block * 2048;
                LIBC.fill(cpu, BUFFER, 8192, (self.object as u64, 4 * first as u64));
                self.copy(cpu, first..first + 2048);
                self.block += 1;
                if self.block * 2048 == WORDS {
                    self.next_object(LinkPhase::Write);
                }
                self.transferred(call::READ)
            }
            LinkPhase::Write => {
                let section = (4 * self.object * WORDS) as u64;
                LIBC.drain(cpu, self.image + section, 4 * WORDS as u32, (900, section));
                self.next_object(LinkPhase::Enter);
                if matches!(self.phase, LinkPhase::Write) {
                    return self.transferred(call::WRITE);
                }
                if self.once {
                    cpu.syscall(call::EXIT, 0, 0, None);
                    return Status::Exit;
                }
                self.buckets.fill(NONE);
                self.symbols.clear();
                Status::Blocked { call: call::READ, latency: PAUSE }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_space::AddressSpace;

    #[test]
    fn every_word_is_its_content_plus_its_symbol() {
        let mut cpu = Cpu::new(AddressSpace::new(IMAGE, 1));
        let mut linker = Linker::new(DataRng::new(3, 0), &mut cpu, 3);
        while !matches!(linker.phase, LinkPhase::Write) {
            linker.step(&mut cpu);
            cpu.finish_step();
            cpu.rows.clear();
        }
        let mut relocated = 0;
        for (out, &word) in linker.output.iter().enumerate() {
            let (content, refers) = Linker::word(out / WORDS, out % WORDS);
            let value = refers.map_or(0, |name| {
                relocated += 1;
                linker.symbols.iter().find(|s| s.name == name).unwrap().value
            });
            assert_eq!(word, content.wrapping_add(value), "word {out}");
        }
        assert!(relocated > 2_000);
        assert_eq!(cpu.depth(), 0);
    }
}
